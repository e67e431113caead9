"""Obtain the Proton C engine and compile it into one private shared library.

The source is the ``python-qpid-proton`` sdist, pinned by hash: it carries the
complete C engine. Only its ``include/`` and ``src/`` folders are unpacked.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

VERSION = "0.40.0"
SDIST_NAME = f"python_qpid_proton-{VERSION}.tar.gz"
SDIST_SHA256 = "7680d607cf6e9684f97bf5b2ba16cda7d8512aab9e4ff78f98d44a4644fc819a"

MACOS = sys.platform == "darwin"
LIBRARY_NAME = "libquiver-proton.dylib" if MACOS else "libquiver-proton.so"

# -O3 -flto with local symbol binding was measured as fast as static linking.
COMPILE_FLAGS = [
    "-std=gnu11", "-O3", "-flto=auto", "-fPIC", "-fvisibility=hidden", "-fno-plt",
    "-fno-semantic-interposition", "-fno-math-errno", "-DNDEBUG", "-w",
]  # fmt: skip


class BuildError(RuntimeError):
    """The engine cannot be built; the message says what to do."""


class Engine(NamedTuple):
    """What an extension module needs to compile and link against the engine."""

    include_dirs: list[str]
    library_dirs: list[str]
    libraries: list[str]
    compile_args: list[str]
    link_args: list[str]
    bundled: bool


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _check_hash(path: Path) -> Path:
    digest = _sha256(path)
    if digest != SDIST_SHA256:
        raise BuildError(f"{path}: SHA-256 is {digest}, expected {SDIST_SHA256}")
    return path


def _download(directory: Path) -> Path:
    """Fetch the sdist with pip, so that its index, mirror and proxy settings hold."""
    with tempfile.TemporaryDirectory() as scratch:
        requirements = Path(scratch, "requirements.txt")
        requirements.write_text(f"python-qpid-proton=={VERSION} --hash=sha256:{SDIST_SHA256}\n")
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
            "--no-binary", ":all:", "--no-build-isolation", "--require-hashes",
            "--dest", scratch, "--requirement", str(requirements),
        ]  # fmt: skip
        # The isolated build environment marks itself for pip; a nested pip must not inherit that.
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise BuildError(
                f"cannot download python-qpid-proton {VERSION}; without a network set "
                f"QUIVER_FAST_PROTON_SDIST=/path/to/{SDIST_NAME}\n{result.stderr.strip()}"
            )
        directory.mkdir(parents=True, exist_ok=True)
        target = directory / SDIST_NAME
        staged = directory / f".{SDIST_NAME}.{os.getpid()}"
        shutil.move(str(Path(scratch, SDIST_NAME)), staged)
        staged.replace(target)
        return target


def _obtain_sdist(cache: Path) -> Path:
    given = os.environ.get("QUIVER_FAST_PROTON_SDIST")
    if given:
        path = Path(given)
        if not path.is_file():
            raise BuildError(f"QUIVER_FAST_PROTON_SDIST={given}: no such file")
        return _check_hash(path)
    cached = cache / SDIST_NAME
    if cached.is_file() and _sha256(cached) == SDIST_SHA256:
        return cached
    return _check_hash(_download(cache))


def unpack_source(build_dir: Path) -> Path:
    """Return the folder with the engine's ``include/`` and ``src/``, unpacking it if needed.

    Raises:
        BuildError: the sdist is missing, unreachable or not the pinned one.
    """
    root = build_dir / f"qpid-proton-{VERSION}"
    if (root / "complete").is_file():
        return root
    sdist = _obtain_sdist(build_dir)
    shutil.rmtree(root, ignore_errors=True)
    prefix = f"python_qpid_proton-{VERSION}/"
    wanted = ("include/", "src/", "LICENSE", "NOTICE", "PKG-INFO")
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            relative = member.name.removeprefix(prefix)
            if not member.isfile() or not relative.startswith(wanted):
                continue
            target = root / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            stream = archive.extractfile(member)
            if stream is not None:
                target.write_bytes(stream.read())
    (root / "complete").touch()
    return root


def _compiler() -> list[str]:
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shlex.split(command)


def _pkg_config(option: str, package: str) -> list[str] | None:
    tool = shlex.split(os.environ.get("PKG_CONFIG", "pkg-config"))
    try:
        result = subprocess.run(
            [*tool, option, package], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return shlex.split(result.stdout) if result.returncode == 0 else None


def _links(source: str, flags: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "probe.c")
        path.write_text(source)
        command = [*_compiler(), str(path), "-o", str(Path(scratch, "probe")), *flags]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _openssl_flags() -> tuple[list[str], list[str]] | None:
    """Return (compile flags, link flags) for OpenSSL, or None where it is missing."""
    compile_flags = _pkg_config("--cflags", "openssl")
    link_flags = _pkg_config("--libs", "openssl")
    if compile_flags is None or link_flags is None:
        compile_flags, link_flags = [], ["-lssl", "-lcrypto"]
    probe = "#include <openssl/ssl.h>\nint main(void) { return SSL_CTX_new(TLS_method()) == 0; }\n"
    return (compile_flags, link_flags) if _links(probe, compile_flags + link_flags) else None


def _without_tls() -> None:
    message = "OpenSSL headers not found (Debian: libssl-dev): building WITHOUT TLS"
    if os.environ.get("QUIVER_FAST_TLS") == "1":
        raise BuildError(f"{message}, which QUIVER_FAST_TLS=1 forbids")
    line = "*" * (len(message) + 4)
    sys.stderr.write(f"\n{line}\n* {message} *\n{line}\n\n")


def _sources(root: Path, tls: bool) -> list[Path]:
    src = root / "src"
    # The mechanisms of quiver_fast.engine.security are the only ones in every
    # build, so that a wheel behaves alike with and without Cyrus SASL plugins.
    chosen = [
        src / "compiler/gcc/start.c",
        src / "sasl/sasl.c",
        src / "sasl/default_sasl.c",
        src / "sasl/cyrus_stub.c",
        src / ("ssl/openssl.c" if tls else "ssl/ssl_stub.c"),
    ]
    return [*sorted((src / "core").rglob("*.c")), *chosen]


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(f"{shlex.join(command)}\n{result.stderr}")


def compile_library(
    build_dir: Path, target: Path, extra_flags: list[str] | None = None
) -> bool:
    """Compile the engine into the shared library ``target``; return whether it has TLS.

    Raises:
        BuildError: a compiler run failed, or TLS is demanded and OpenSSL is missing.
    """
    root = unpack_source(build_dir)
    openssl = _openssl_flags()
    if openssl is None:
        _without_tls()
    tls_compile, tls_link = openssl or ([], [])
    flags = [*COMPILE_FLAGS, *(extra_flags or [])]
    # The public functions are exported because a build of the engine itself defines this.
    flags += ["-Dqpid_proton_EXPORTS", f"-I{root / 'include'}", f"-I{root / 'src'}", *tls_compile]
    objects_dir = build_dir / "engine-objects"
    objects_dir.mkdir(parents=True, exist_ok=True)

    def compile_one(source: Path) -> Path:
        target_object = objects_dir / (source.relative_to(root).as_posix().replace("/", "_") + ".o")
        _run([*_compiler(), *flags, "-c", str(source), "-o", str(target_object)])
        return target_object

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, _sources(root, openssl is not None)))
    target.parent.mkdir(parents=True, exist_ok=True)
    name = (
        ["-dynamiclib", f"-Wl,-install_name,@rpath/{LIBRARY_NAME}"]
        if MACOS
        else ["-shared", f"-Wl,-soname,{LIBRARY_NAME}", "-Wl,-Bsymbolic-functions"]
    )
    _run([
        *_compiler(), *COMPILE_FLAGS, *(extra_flags or []), *name,
        *map(str, objects), "-o", str(target), *tls_link, "-lpthread",
    ])  # fmt: skip
    return openssl is not None


def _system_engine() -> Engine:
    package = "libqpid-proton-core"
    compile_args = _pkg_config("--cflags", package)
    link_args = _pkg_config("--libs", package)
    if compile_args is None or link_args is None:
        raise BuildError(
            f"QUIVER_FAST_PROTON=system: pkg-config does not find {package} "
            "(Debian: libqpid-proton-core10 and its -dev package)"
        )
    return Engine([], [], [], compile_args, link_args, bundled=False)


def _bundled_engine(build_dir: Path, package_dir: Path) -> Engine:
    # Compiled once per build tree: the objects depend on nothing of this project.
    library = build_dir / LIBRARY_NAME
    tls_mark = build_dir / "engine-tls"
    if not library.is_file() or not tls_mark.is_file():
        tls_mark.unlink(missing_ok=True)
        tls = compile_library(build_dir, library)
        tls_mark.write_text("1" if tls else "0")
    elif tls_mark.read_text() != "1":
        _without_tls()
    package_dir.mkdir(parents=True, exist_ok=True)
    shutil.copy2(library, package_dir / LIBRARY_NAME)
    root = unpack_source(build_dir)
    origin = "@loader_path" if MACOS else "$ORIGIN"
    return Engine(
        include_dirs=[str(root / "include")],
        library_dirs=[str(build_dir)],
        libraries=["quiver-proton"],
        compile_args=[],
        link_args=[f"-Wl,-rpath,{origin}/../proton"],
        bundled=True,
    )


def prepare(build_dir: Path, package_dir: Path) -> Engine:
    """Return the engine to build against, compiling it into ``package_dir`` if bundled.

    Args:
        build_dir: cache for the sdist, its unpacked source and the objects.
        package_dir: the folder of ``quiver_fast.proton`` that the library is put into.

    Raises:
        BuildError: see the message; ``QUIVER_FAST_PROTON`` has an unknown value.
    """
    choice = os.environ.get("QUIVER_FAST_PROTON", "bundled")
    if choice == "system":
        return _system_engine()
    if choice == "bundled":
        return _bundled_engine(build_dir, package_dir)
    raise BuildError(f"QUIVER_FAST_PROTON={choice}: expected 'bundled' or 'system'")
