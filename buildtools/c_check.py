"""Check our own C and our shell scripts: warnings, format, and differences between shells.

Every C file, headers too, must compile alone without a warning; the engine's headers count as
system headers. ``--format`` formats the C instead.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from buildtools import proton_engine, toolchain  # noqa: E402

FOLDERS = ["src", "buildtools", "bench", "tests", ".ci"]
GENERATED = {"node_modules", "build", "__pycache__"}
# Our headers that sources in other folders include.
AMQP = ROOT / "src" / "quiver_fast" / "amqp"
WARNINGS = ["-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
PROGRAMS = Path(sys.executable).parent
# Sources with a library that `make peers` installs, by its name for pkg-config.
PEERS = {"zmq_pair.c": "libzmq"}


def files(*endings: str) -> list[Path]:
    """Return our files with one of these endings."""
    found = []
    for top in FOLDERS:
        for folder, folders, names in os.walk(ROOT / top):
            folders[:] = [name for name in folders if name not in GENERATED]
            found += [Path(folder, name) for name in names]
    return sorted(path for path in found if path.suffix in endings)


def scripts() -> list[Path]:
    """Return our shell scripts: by their ending, or by their first line."""
    first = b"#!/usr/bin/env bash"
    return files(".sh") + [path for path in files("") if path.read_bytes().startswith(first)]


def can_compile(path: Path) -> bool:
    """Say whether the headers of a source are installed; print a line if not."""
    library = PEERS.get(path.name)
    if library is None or toolchain.pkg_config("--cflags", library) is not None:
        return True
    print(f"not compiled without {library} (make peers): {path.name}", file=sys.stderr)
    return False


def compile_command(path: Path, engine: Path) -> list[str]:
    """Return the command that checks one file and writes nothing."""
    # A file that includes a header need not use all of its functions.
    header = ["-Wno-unused-function", "-x", "c"] if path.suffix == ".h" else []
    system = [engine / "include", Path(sysconfig.get_path("include"))]
    return [
        *toolchain.compiler(), *WARNINGS, *header, "-fsyntax-only",
        "-DQUIVER_ENGINE_BUNDLED=1", f"-I{AMQP}",
        *(word for folder in system for word in ("-isystem", str(folder))), str(path),
    ]  # fmt: skip


def commands() -> Iterator[list[str]]:
    """Return all checks, which must print nothing."""
    engine = proton_engine.unpack_source(ROOT / "build" / "engine")
    sources = files(".c", ".h")
    yield from (compile_command(path, engine) for path in sources if can_compile(path))
    yield [str(PROGRAMS / "clang-format"), "--dry-run", "-Werror", *map(str, sources)]
    yield [str(PROGRAMS / "shellcheck"), *map(str, scripts())]


def run(command: list[str]) -> bool:
    """Run a command and print its output; return whether it succeeded without any."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stderr.write(result.stdout + result.stderr)
    return result.returncode == 0


def main() -> int:
    """Check everything; return 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", action="store_true")
    if parser.parse_args().format:
        done = run([str(PROGRAMS / "clang-format"), "-i", *map(str, files(".c", ".h"))])
        return 0 if done else 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return 0 if all(list(pool.map(run, commands()))) else 1


if __name__ == "__main__":
    sys.exit(main())
