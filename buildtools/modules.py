"""The needs of each Cython module, from its cimports: libraries, and folders of headers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# The folders of the package's libraries, each beside its declarations.
ENGINE_FOLDER = Path("quiver_fast", "proton")
AMQP_FOLDER = Path("quiver_fast", "amqp")

_CIMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+cimport[ \t]+(?P<names>\([^)]*\)|[^\n#]+)"
    r"|cimport[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)
_INCLUDE = re.compile(r"^[ \t]*include[ \t]+[\"'](?P<path>[^\"']+)", re.MULTILINE)
_ENGINE_HEADER = re.compile(r"^[ \t]*cdef extern from [\"']<?proton/", re.MULTILINE)


def cimported(module: Path, source: Path) -> set[Path]:
    """Return ``module`` and all files that it includes or cimports, directly or not.

    Args:
        module: a `.pyx` file; a file that Cython makes of nothing has none.
        source: the folder that its package is in.
    """
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        own = path.with_suffix(".pxd")
        waiting += [own] if own.is_file() else []
        waiting += _declarations(path, source)
    return found


@cache
def _declarations(path: Path, source: Path) -> tuple[Path, ...]:
    """Return the files that one file includes or cimports and that are in ``source``."""
    return tuple(_find(path, path.read_text(encoding="utf-8"), source))


def _find(path: Path, text: str, source: Path) -> Iterator[Path]:
    for match in _INCLUDE.finditer(text):
        yield Path(os.path.normpath(path.parent / match["path"]))
    for match in _CIMPORT.finditer(text):
        if match["modules"]:
            names = [word.split()[0] for word in match["modules"].split(",") if word.strip()]
        else:
            package = _absolute(match["module"], path, source)
            words = re.sub(r"#[^\n]*|[()]", "", match["names"])
            members = [word.split()[0] for word in words.split(",") if word.strip()]
            # A name may be a module of the package, or of the module.
            names = [package, *(f"{package}.{member}" for member in members)]
        for name in names:
            declarations = source.joinpath(*name.split(".")).with_suffix(".pxd")
            if declarations.is_file():
                yield declarations


def _absolute(name: str, path: Path, source: Path) -> str:
    """Return the dotted name of a cimport in ``path``, also of a relative one."""
    level = len(name) - len(name.lstrip("."))
    if level == 0:
        return name
    parts = path.relative_to(source).parent.parts
    base = parts[: len(parts) - (level - 1)]
    return ".".join([*base, *filter(None, [name.lstrip(".")])])


def needs_engine(module: Path, source: Path) -> bool:
    """Say whether a module is compiled with declarations of the engine."""
    return any(_ENGINE_HEADER.search(path.read_text()) for path in cimported(module, source))


def needs_amqp(module: Path, source: Path) -> bool:
    """Say whether a module is compiled with declarations of the C of `amqp/`."""
    declarations = {path for path in cimported(module, source) if path.suffix == ".pxd"}
    return any(path.parent == source / AMQP_FOLDER for path in declarations)


def include_dirs(module: Path, source: Path) -> list[Path]:
    """Return the folders of the headers that a module or its cimports may include."""
    folders = {path.parent for path in cimported(module, source)}
    return sorted(folder for folder in folders if any(folder.glob("*.h")))


def run_path(name: str, library_folder: Path, origin: str) -> str:
    """Return the path to a library of the package, from the folder of the module ``name``.

    Args:
        name: its dotted name.
        library_folder: the library's, from the folder that the package is in.
        origin: the loader's name of the module's folder, ``$ORIGIN`` on Linux.
    """
    folder = Path(*name.split(".")[:-1])
    return f"{origin}/{os.path.relpath(library_folder, folder)}"
