"""Obtain the Proton C engine, and compile it as a private library of the package.

The source is the ``python-qpid-proton`` sdist, pinned by hash: it carries the
complete C engine. Only its ``include/`` and ``src/`` folders are unpacked.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from buildtools import shared_library, toolchain
from buildtools.toolchain import BuildError

VERSION = "0.40.0"
SDIST_NAME = f"python_qpid_proton-{VERSION}.tar.gz"
SDIST_SHA256 = "7680d607cf6e9684f97bf5b2ba16cda7d8512aab9e4ff78f98d44a4644fc819a"
# Debian 12 and 13 have it; older ones were not tried.
SYSTEM_MINIMUM = "0.37"
SYSTEM_PACKAGES = ("libqpid-proton-core", "libqpid-proton")
# An idle connection keeps these tables and buffers, which grow when they are full. So they begin
# small: each of these sources is compiled behind the lines here. The output has to hold the frames
# of SASL before the header of AMQP, whose room the engine does not check.
BEGINNINGS = {
    "core/transport.c": """\
#include "core/engine-internal.h"
#include "core/buffer.h"
#undef PN_TRANSPORT_INITIAL_BUFFER_SIZE
#define PN_TRANSPORT_INITIAL_BUFFER_SIZE 512
#define pn_buffer(capacity) pn_buffer(256)
#define pn_hash(key, capacity, load) pn_hash(key, 1, load)
""",
    "core/engine.c": """\
#include "core/engine-internal.h"
#define pn_hash(key, capacity, load) pn_hash(key, 1, load)
#define pn_list(item, capacity) pn_list(item, 1)
""",
}


class Engine(NamedTuple):
    """The flags for compiling and linking an extension module against the engine."""

    compile_args: list[str]
    link_args: list[str]
    # The package's engine, which modules find by :func:`buildtools.modules.run_path`; None for
    # the system's.
    library: Path | None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``, so that builds in one tree take turns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _check_hash(path: Path) -> Path:
    digest = _sha256(path)
    if digest != SDIST_SHA256:
        raise BuildError(f"{path}: SHA-256 is {digest}, expected {SDIST_SHA256}")
    return path


def _download(directory: Path) -> Path:
    """Fetch the sdist with pip, so that its index, mirror and proxy settings hold."""
    # pip marks its children as part of a build; a nested pip is no part of it.
    environment = {k: v for k, v in os.environ.items() if k != "PIP_BUILD_TRACKER"}
    with tempfile.TemporaryDirectory() as scratch:
        requirements = Path(scratch, "requirements.txt")
        requirements.write_text(f"python-qpid-proton=={VERSION} --hash=sha256:{SDIST_SHA256}\n")
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps",
            "--no-binary", ":all:", "--no-build-isolation", "--require-hashes",
            "--dest", scratch, "--requirement", str(requirements),
        ]  # fmt: skip
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment
        )
        if result.returncode != 0:
            raise BuildError(
                f"cannot download python-qpid-proton {VERSION} ({_last_error(result.stderr)}); "
                f"without a network set QUIVER_FAST_PROTON_SDIST=/path/to/{SDIST_NAME}"
            )
        staged = directory / f".{SDIST_NAME}"
        shutil.move(str(Path(scratch, SDIST_NAME)), staged)
        return staged.replace(directory / SDIST_NAME)


def _last_error(text: str) -> str:
    """Return pip's last line about an error, which is before hints and notes."""
    errors = [line.strip() for line in text.splitlines() if "error" in line.lower()]
    facts = [line for line in errors if not line.startswith("note:")]
    return facts[-1] if facts else "pip named no error"


def obtain_sdist(cache: Path) -> Path:
    """Return the pinned sdist: the one that the user names, else from ``cache``, else fetched.

    Raises:
        BuildError: it is missing, unreachable or not the pinned one.
    """
    given = os.environ.get("QUIVER_FAST_PROTON_SDIST")
    if given:
        path = Path(given)
        if not path.is_file():
            raise BuildError(f"QUIVER_FAST_PROTON_SDIST={given}: no such file")
        return _check_hash(path)
    cache.mkdir(parents=True, exist_ok=True)
    cached = cache / SDIST_NAME
    if cached.is_file() and _sha256(cached) == SDIST_SHA256:
        return cached
    return _check_hash(_download(cache))


def _extract(sdist: Path, target: Path) -> None:
    prefix = f"python_qpid_proton-{VERSION}/"
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            relative = member.name.removeprefix(prefix)
            if not member.isfile() or not relative.startswith(("include/", "src/")):
                continue
            stream = archive.extractfile(member)
            path = target / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            if stream is not None:
                path.write_bytes(stream.read())


def unpack_source(build_dir: Path) -> Path:
    """Return the folder with the engine's ``include/`` and ``src/``, unpacking it if needed.

    Raises:
        BuildError: the sdist is missing, unreachable or not the pinned one.
    """
    with locked(build_dir / ".source.lock"):
        root = build_dir / f"qpid-proton-{VERSION}"
        # An sdist that the user names is checked even if an earlier one is unpacked.
        if root.is_dir() and not os.environ.get("QUIVER_FAST_PROTON_SDIST"):
            return root
        sdist = obtain_sdist(build_dir)
        if not root.is_dir():
            with tempfile.TemporaryDirectory(dir=build_dir) as scratch:
                _extract(sdist, Path(scratch, "source"))
                Path(scratch, "source").rename(root)
        return root


def _begin(root: Path, source: str) -> Path:
    """Write a C file that is one of the engine's behind its :data:`BEGINNINGS`."""
    path = root / source.replace("core", "small")
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'{BEGINNINGS[source]}#include "{source}"\n')
    return path


def sources(root: Path) -> list[Path]:
    """Return the engine's C files. It has no TLS: ours is at the socket (quiver_fast.amqp.tls)."""
    src = root / "src"
    # Every build has only the mechanisms of quiver_fast.security.security, so that a
    # wheel behaves the same with and without Cyrus SASL plugins.
    chosen = [
        src / "compiler/gcc/start.c",
        src / "sasl/sasl.c",
        src / "sasl/default_sasl.c",
        src / "sasl/cyrus_stub.c",
        src / "ssl/ssl_stub.c",
    ]
    return [*sorted((src / "core").rglob("*.c")), *chosen]


def small_sources(root: Path) -> list[Path]:
    """Return the C files of the package's engine, some behind their :data:`BEGINNINGS`."""
    changed = {root / "src" / source: _begin(root, source) for source in BEGINNINGS}
    return [changed.get(source, source) for source in sources(root)]


def library(build_dir: Path) -> shared_library.Library:
    """Declare the engine's library, with its source unpacked into ``build_dir``.

    Raises:
        BuildError: the source is unreachable.
    """
    root = unpack_source(build_dir)
    # The public functions are exported because a build of the engine itself defines this.
    private = [
        "-Dqpid_proton_EXPORTS", "-DNDEBUG", "-fvisibility=hidden",
        f"-I{root / 'include'}", f"-I{root / 'src'}",
        f"-ffile-prefix-map={root}=qpid-proton",
    ]  # fmt: skip
    flags = [*toolchain.optimization("-O2"), *private]
    return shared_library.Library("quiver-proton", small_sources(root), flags, link_flags=[])


def _bundled_engine(build_dir: Path, package_dir: Path) -> Engine:
    declared = library(build_dir)
    # One for each compiler and its flags: builds for users, developers and sanitizers alternate.
    folder = build_dir / f"library-{shared_library.digest(declared)}"
    with locked(build_dir / ".library.lock"):
        compiled = shared_library.compile_once(declared, folder)
    shared_library.install(compiled, package_dir)
    return Engine(headers(build_dir), [], compiled)


def _system_engine() -> Engine:
    found = [name for name in SYSTEM_PACKAGES if toolchain.pkg_config("--exists", name) is not None]
    if not found:
        raise BuildError(
            "QUIVER_FAST_PROTON=system: pkg-config finds neither "
            f"{' nor '.join(SYSTEM_PACKAGES)} (Debian: libqpid-proton11-dev)"
        )
    package = found[0]
    if toolchain.pkg_config(f"--atleast-version={SYSTEM_MINIMUM}", package) is None:
        raise BuildError(
            f"QUIVER_FAST_PROTON=system: {package} is version "
            f"{toolchain.pkg_config('--modversion', package)}, at least {SYSTEM_MINIMUM} is needed"
        )
    return Engine(
        compile_args=shlex.split(toolchain.pkg_config("--cflags", package) or ""),
        link_args=shlex.split(toolchain.pkg_config("--libs", package) or ""),
        library=None,
    )


def headers(build_dir: Path) -> list[str]:
    """Return the compiler's arguments to find the engine's headers.

    Raises:
        BuildError: as of :func:`prepare`.
    """
    if _choice() == "system":
        return _system_engine().compile_args
    return [f"-I{unpack_source(build_dir) / 'include'}"]


def _choice() -> str:
    choice = os.environ.get("QUIVER_FAST_PROTON") or "bundled"
    if choice not in ("bundled", "system"):
        raise BuildError(f"QUIVER_FAST_PROTON={choice}: expected 'bundled' or 'system'")
    return choice


def prepare(build_dir: Path, package_dir: Path) -> Engine:
    """Return the engine to build against, compiling it into ``package_dir`` if bundled.

    Args:
        build_dir: cache for the sdist, its unpacked source and the compiled libraries.
        package_dir: the folder of ``quiver_fast.proton`` for the library.

    Raises:
        BuildError: see the message; ``QUIVER_FAST_PROTON`` has an unknown value.
    """
    return _system_engine() if _choice() == "system" else _bundled_engine(build_dir, package_dir)
