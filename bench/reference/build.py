"""Build the same-run references: the engine in a distribution's form, and C programs on it.

The engine is compiled from the product's own pinned source, but as an ordinary
-O2 shared library with default symbol binding, as in a distribution's package.
Everything is cached under ``build/bench`` and rebuilt when a source changes.

    python bench/reference/build.py      prints the paths of what it built
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from buildtools import proton_engine, toolchain  # noqa: E402

BuildError = proton_engine.BuildError

BUILD = ROOT / "build" / "bench"
ENGINE_BUILD = ROOT / "build" / "engine"
LIBRARY = BUILD / "libqpid-proton-reference.so"
# Flags of CMake's RelWithDebInfo and of the distributions; no LTO, no binding tricks.
ENGINE_FLAGS = ["-std=gnu11", "-O2", "-g", "-fPIC", "-DNDEBUG", "-fvisibility=hidden", "-w"]
PROGRAM_FLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]
# Debian has servers in folders of root's PATH.
SERVER_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])


class References(NamedTuple):
    """Paths of the reference programs."""

    arrow: Path
    tcp_copy: Path
    tcp_frames: Path
    timer: Path


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _is_fresh(target: Path, digest: str) -> bool:
    mark = target.with_suffix(".digest")
    return target.is_file() and mark.is_file() and mark.read_text() == digest


def _run(command: list[str]) -> None:
    toolchain.run(command)


def _compile_engine(root: Path, sources: list[Path]) -> None:
    objects_dir = BUILD / "engine-objects"
    objects_dir.mkdir(parents=True, exist_ok=True)
    compiler = toolchain.compiler()
    includes = ["-Dqpid_proton_EXPORTS", f"-I{root / 'include'}", f"-I{root / 'src'}"]

    def compile_one(source: Path) -> str:
        name = source.relative_to(root).as_posix().replace("/", "_") + ".o"
        target = str(objects_dir / name)
        _run([*compiler, *ENGINE_FLAGS, *includes, "-c", str(source), "-o", target])
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources))
    _run(
        [
            *compiler,
            "-shared",
            f"-Wl,-soname,{LIBRARY.name}",
            *objects,
            "-o",
            str(LIBRARY),
            "-lpthread",
        ]
    )


def _build_engine() -> str:
    root = proton_engine.unpack_source(ENGINE_BUILD)
    # As its makers distribute it: the package's engine begins with small buffers, and its peers
    # get frames one by one.
    sources = proton_engine.sources(root)
    names = [source.relative_to(root).as_posix() for source in sources]
    decisive = " ".join([*ENGINE_FLAGS, *names])
    digest = _digest(proton_engine.SDIST_SHA256.encode(), decisive.encode())
    if not _is_fresh(LIBRARY, digest):
        _compile_engine(root, sources)
        LIBRARY.with_suffix(".digest").write_text(digest)
    return digest


def _build_program(name: str, extra: list[str], engine_digest: str) -> Path:
    source = HERE / f"{name}.c"
    target = BUILD / f"reference-{name.replace('_', '-')}"
    BUILD.mkdir(parents=True, exist_ok=True)
    digest = _digest(
        source.read_bytes(),
        *(header.read_bytes() for header in sorted(HERE.glob("*.h"))),
        " ".join([*PROGRAM_FLAGS, engine_digest]).encode(),
    )
    if not _is_fresh(target, digest):
        _run([*toolchain.compiler(), *PROGRAM_FLAGS, str(source), "-o", str(target), *extra])
        target.with_suffix(".digest").write_text(digest)
    return target


def build() -> References:
    """Build what is missing or stale, and return the paths.

    Raises:
        BuildError: the compiler failed, or the engine's
            source is unreachable.
    """
    engine_digest = _build_engine()
    include = proton_engine.unpack_source(ENGINE_BUILD) / "include"
    engine = [f"-I{include}", f"-L{BUILD}", "-lqpid-proton-reference", f"-Wl,-rpath,{BUILD}"]
    return References(
        arrow=_build_program("arrow", engine, engine_digest),
        tcp_copy=_build_program("tcp_copy", [], ""),
        tcp_frames=_build_program("tcp_frames", [], ""),
        timer=_build_program("timer", [], ""),
    )


def zmq_pair() -> Path:
    """Build the program that pushes and pulls through libzmq; return its path.

    Raises:
        BuildError: libzmq is not there, or the compiler failed.
    """
    libraries = toolchain.pkg_config("--libs", "libzmq")
    if libraries is None:
        raise BuildError("libzmq is missing: install libzmq3-dev (make peers)")
    return _build_program("zmq_pair", libraries.split(), libraries)


def nats_pair() -> Path:
    """Build the publisher and subscriber of core NATS; return their program's path.

    Raises:
        BuildError: there is no nats-server, or the compiler failed.
    """
    if shutil.which("nats-server", path=SERVER_PATH) is None:
        raise BuildError("nats-server is missing: install nats-server (make peers)")
    return _build_program("nats_pair", [], "")


def tls_copy() -> Path:
    """Build the copy through TLS by OpenSSL alone; return its path.

    Raises:
        BuildError: OpenSSL is not there, or the compiler failed.
    """
    found = toolchain.openssl()
    if found is None:
        raise BuildError("OpenSSL is missing: install libssl-dev")
    return _build_program("tls_copy", [*found.compile_flags, *found.link_flags], found.version)


# The Proton C example broker of Debian: libqpid-proton11-dev and -dev-examples.
BROKER_SOURCE = Path("/usr/share/proton/examples/c/broker.c")


def broker() -> Path:
    """Build the Proton C example broker from the distribution's package; return its path.

    Raises:
        BuildError: the packages are not installed, or the compiler failed.
    """
    if not BROKER_SOURCE.is_file():
        raise BuildError(f"{BROKER_SOURCE} is missing: install libqpid-proton11-dev-examples")
    libraries = [_shared_library(name) for name in ("qpid-proton-proactor", "qpid-proton-core")]
    BUILD.mkdir(parents=True, exist_ok=True)
    target = BUILD / "reference-broker"
    digest = _digest(BROKER_SOURCE.read_bytes(), " ".join([*PROGRAM_FLAGS, *libraries]).encode())
    if not _is_fresh(target, digest):
        flags = [*PROGRAM_FLAGS, "-w", "-pthread"]
        _run([*toolchain.compiler(), *flags, str(BROKER_SOURCE), "-o", str(target), *libraries])
        target.with_suffix(".digest").write_text(digest)
    return target


def _shared_library(name: str) -> str:
    """Return the path of a library that the loader knows by its versioned name."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    paths = [line.split()[-1] for line in listing.stdout.splitlines() if f"lib{name}.so" in line]
    if not paths:
        raise BuildError(f"lib{name}.so is missing: install libqpid-proton11-dev")
    return paths[0]


if __name__ == "__main__":
    try:
        for path in build():
            print(path)
    except BuildError as error:
        raise SystemExit(f"bench: {error}") from None
