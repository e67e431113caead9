"""Translate and compile Cython modules, each in its own process, those that have changed."""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import multiprocessing.connection
import os
from collections.abc import Callable
from pathlib import Path

import Cython
from Cython.Build import cythonize
from Cython.Compiler.Main import compile as cython_compile
from Cython.Utils import file_generated_by_this_cython
from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError
from setuptools.modified import newer_group

from buildtools import modules
from buildtools.cython_options import COLD, DIRECTIVES, SHARED

SOURCE = Path("src")
JOBS = os.cpu_count() or 1
# For `make coverage`: gcov counts lines of C, which Cython maps to lines of the .pyx.
COVERAGE = os.environ.get("QUIVER_FAST_COVERAGE") == "1"


def declared(root: Path) -> list[Extension]:
    """Declare one extension per .pyx file, and the shared one; a file's place is its name."""
    package = root / SOURCE
    shared = package / Path(*SHARED.split(".")).with_suffix(".c")
    found = []
    for path in [shared, *sorted(package.rglob("*.pyx"))]:
        relative = path.relative_to(package)
        name = ".".join(relative.with_suffix("").parts)
        depends = ["setup.py", "buildtools/cython_build.py", "buildtools/cython_options.py"]
        found.append(Extension(name, [str(SOURCE / relative)], depends=depends))
    return found


def optimization(extension: Extension) -> str:
    """Return the compiler's level for a module."""
    return "-O1" if extension.name in COLD else "-O3"


def build(command: build_ext) -> None:
    """Build all modules that are not up to date.

    Raises:
        SystemExit: one of them cannot be built, and the reason is told.
    """
    changed = [each for each in command.extensions if command.force or _is_stale(command, each)]
    changed.sort(key=_weight, reverse=True)
    # Cython makes its tables for its first module, in a second; the processes inherit them.
    for lightest in changed[-1:]:
        _translate(lightest)
    _in_processes(lambda extension: _make(command, extension), changed)


def _is_stale(command: build_ext, extension: Extension) -> bool:
    source = Path(extension.sources[0])
    extension.depends += map(str, modules.cimported(source, SOURCE))
    library = command.get_ext_fullpath(extension.name)
    return _is_changed(source) or bool(newer_group(extension.depends, library))


def _make(command: build_ext, extension: Extension) -> None:
    _translate(extension)
    extension.sources = [str(_generated_c(Path(extension.sources[0])))]
    try:
        command.build_extension(extension)
    except CCompilerError as error:
        raise SystemExit(f"quiver-fast: {extension.name}: {error}") from None


def _translate(extension: Extension) -> None:
    """Translate a module with Cython, if its C is not up to date.

    Raises:
        SystemExit: Cython has named a fault of it.
    """
    source = Path(extension.sources[0])
    if not _is_changed(source):
        return
    options = {
        "compiler_directives": DIRECTIVES,
        "include_path": [str(SOURCE)],
        "shared_utility_qualified_name": SHARED,
        "emit_linenums": COVERAGE,
    }
    c_file = _generated_c(source)
    c_file.parent.mkdir(parents=True, exist_ok=True)
    # Half of a file, which a killed build leaves, must not count as translated.
    parts = f"{_generated_c_dir()}.part"
    part = Path(parts, source).with_suffix(".c")
    part.parent.mkdir(parents=True, exist_ok=True)
    if extension.name == SHARED:
        cythonize([extension], build_dir=parts, force=True, quiet=True, **options)
    elif cython_compile(
        str(source), output_file=str(part), full_module_name=extension.name, **options
    ).num_errors:
        raise SystemExit(f"quiver-fast: Cython cannot translate {source}")
    part.replace(c_file)


def _in_processes(work: Callable[[Extension], None], extensions: list[Extension]) -> None:
    """Do the work for each extension in its own process, ``JOBS`` of them at a time.

    Raises:
        SystemExit: one of them failed, and has told why.
    """
    # A module's syntax tree lives until its C is written, and its process soon ends.
    gc.disable()
    fork = multiprocessing.get_context("fork")
    waiting, running, failed = list(reversed(extensions)), [], False
    while waiting or running:
        while waiting and len(running) < JOBS:
            running.append(fork.Process(target=work, args=[waiting.pop()]))
            running[-1].start()
        multiprocessing.connection.wait([process.sentinel for process in running])
        for process in [each for each in running if not each.is_alive()]:
            process.join()
            running.remove(process)
            if process.exitcode:
                waiting.clear()
                failed = True
    gc.enable()
    if failed:
        raise SystemExit("quiver-fast: a module cannot be compiled")


def _generated_c_dir() -> str:
    """Return the folder of Cython's output; each Cython and each set of directives has its own."""
    decisive = repr((Cython.__version__, SHARED, sorted(DIRECTIVES.items())))
    if COVERAGE:
        decisive += "with lines"
    return f"build/cython-{hashlib.sha256(decisive.encode()).hexdigest()[:12]}"


def _generated_c(source: Path) -> Path:
    """Return the place of a module's C."""
    return Path(_generated_c_dir(), source).with_suffix(".c")


def _is_changed(source: Path) -> bool:
    """Say whether a module's C is missing, failed, or older than one of its files."""
    c_file = str(_generated_c(source))
    needed = map(str, modules.cimported(source, SOURCE))
    return not file_generated_by_this_cython(c_file) or bool(newer_group(needed, c_file))


def _weight(extension: Extension) -> int:
    """Return about the size of a module's text: the longest begins."""
    own = modules.cimported(Path(extension.sources[0]), SOURCE)
    # Of Cython's own functions there is no text.
    return sum(path.stat().st_size for path in own if path.suffix != ".pxd") or 50_000
