"""From the words of a command line to runs: which files hold records, and which are a pair.

A file is taken as it is. A directory is searched, with those below it, for files that
end in ``transfers.csv`` or ``transfers.csv.zst``, as the wrappers name them. Anything
else is expanded as a glob. Two files whose paths differ in nothing but ``sender`` and
``receiver`` in the file's name are the two ends of one run.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from quiver_fast.errors import UsageError

__all__ = ["RunFiles", "find_runs", "role_of", "search"]

_PATTERNS = ("*transfers.csv", "*transfers.csv.zst")
_COMPRESSED = ".zst"
_ROLES = ("sender", "receiver")


@dataclass(frozen=True)
class RunFiles:
    """The files of one run.

    Attributes:
        name: what to call the run: the directory of the wrapper's files, else the file.
        sender, receiver: the file of each end, where there is one; None where not.
        other: the one file of a run whose name does not tell the end it is of.
    """

    name: str
    sender: Path | None = None
    receiver: Path | None = None
    other: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """The files that there are."""
        return [path for path in (self.sender, self.receiver, self.other) if path is not None]


def find_runs(words: Iterable[str]) -> list[RunFiles]:
    """Return the runs that ``words`` (files, directories, globs) name, in that order.

    Raises:
        UsageError: a word names nothing, or a directory without records.
    """
    files = dict.fromkeys(path for word in words for path in _files(word))
    runs: dict[str, dict[str, Path]] = {}
    for path in files:
        role = role_of(path)
        key = str(path) if role is None else str(path.with_name(path.name.replace(role, "*")))
        runs.setdefault(key.removesuffix(_COMPRESSED), {})[role or "other"] = path
    return [RunFiles(_name(list(ends.values())), **ends) for ends in runs.values()]


def _files(word: str) -> list[Path]:
    path = Path(word)
    if path.is_dir():
        found = search(path)
        if not found:
            raise UsageError(f"no records (*transfers.csv, *transfers.csv.zst) in '{word}'")
        return found
    if path.exists():
        return [path]
    matches = sorted(glob.glob(word, recursive=True))
    if not matches:
        raise UsageError(f"'{word}': no such file, directory or match")
    return [file for match in matches for file in _files(match)]


def search(directory: Path) -> list[Path]:
    """Return the files of records in ``directory`` and those below it."""
    files = sorted(file for pattern in _PATTERNS for file in directory.rglob(pattern))
    return list(_without_remainders(files))


def _without_remainders(files: list[Path]) -> Iterator[Path]:
    """Leave out hidden files, and plain ones that stand beside their compressed selves."""
    names = set(files)
    for file in files:
        if file.name.startswith("."):
            continue
        if file.with_name(file.name + _COMPRESSED) not in names:
            yield file


def role_of(path: Path) -> str | None:
    """Return ``sender`` or ``receiver`` as the file's name tells it, or None."""
    named = [role for role in _ROLES if role in path.name]
    return named[0] if len(named) == 1 else None


def _name(paths: list[Path]) -> str:
    path = paths[0]
    if any(path.match(pattern) for pattern in _PATTERNS):
        return str(path.parent)
    return str(path)
