"""From the words of a command line to runs: which files hold records, and which are a pair.

A file is taken as it is. A directory is searched, with those below it, for files that
end in ``transfers.csv``, as the wrappers name them, or in that and the suffix of a
compressed form. Anything else is expanded as a glob. Two files whose paths differ in
nothing but ``sender`` and ``receiver`` in the file's name are the two ends of one run.
Files such as ``sender.3-transfers.csv``, with the number of an end, are one run of many
ends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar

from quiver_fast.analysis.read.record_names import PATTERNS_TEXT, RECORD_FILES
from quiver_fast.analysis.read.summary_file import check_regular
from quiver_fast.errors import RecordError, UsageError
from quiver_fast.records.compression import ZSTD, without_suffix

_ROLES = ("sender", "receiver")
_OF_FILE = re.compile(r"file:(//(localhost)?)?(?=/)")
_END = re.compile(r"(sender|receiver)\.(\d{1,9})-transfers\.csv", re.ASCII)


class Named(Protocol):
    """An entry of a folder: a :class:`pathlib.Path`, or a place in another file system."""

    @property
    def name(self) -> str:
        """The last part of the path."""

    def with_name(self, name: str) -> Any:
        """Return the path with another last part."""


AnyPath = TypeVar("AnyPath", bound=Named)


@dataclass(frozen=True)
class RunFiles:
    """The files of one run.

    Attributes:
        name: the name of the run: the directory of the wrapper's files, else the file.
        sender, receiver: the file of each end, where there is one; None where not.
        other: the one file of a run whose name does not tell the end it is of.
        senders, receivers: the files of a run of many ends, by their numbers; the others are
            None then.
    """

    name: str
    sender: Path | None = None
    receiver: Path | None = None
    other: Path | None = None
    senders: tuple[Path, ...] = field(default=(), kw_only=True)
    receivers: tuple[Path, ...] = field(default=(), kw_only=True)

    @property
    def many(self) -> bool:
        """Whether this is a run of many ends."""
        return bool(self.senders or self.receivers)

    @property
    def paths(self) -> list[Path]:
        """The files that there are."""
        single = [path for path in (self.sender, self.receiver, self.other) if path is not None]
        return [*single, *self.senders, *self.receivers]


def find_runs(
    words: Iterable[str], elsewhere: Callable[[str], list[Path]] | None = None
) -> list[RunFiles]:
    """Return the runs that ``words`` (files, directories, globs) name, in that order.

    Args:
        words: the words of the user.
        elsewhere: returns the files that a URL names; None where URLs are not known.

    Raises:
        UsageError: a word names nothing, or a directory without records; a file is there in
            two forms.
        RecordError: a name is that of a pipe or a device, not of a file; links make a loop.
        OSError: a directory or file cannot be read.
    """
    files = dict.fromkeys(
        path
        for word in words
        for path in (_files(word) if elsewhere is None or not is_url(word) else elsewhere(word))
    )
    runs: dict[str, dict[str, Path]] = {}
    for path in _one_form(files):
        role = role_of(path)
        if end_of(path) is not None:
            # All such files of a folder are one run.
            runs.setdefault(str(path.parent), {})[path.name] = path
            continue
        key = str(path) if role is None else str(path.with_name(path.name.replace(role, "*")))
        runs.setdefault(without_suffix(key), {})[role or "other"] = path
    return [_run(ends) for ends in runs.values()]


def _run(ends: dict[str, Path]) -> RunFiles:
    name = _name(list(ends.values()))
    numbered = sorted(filter(itemgetter(0), ((end_of(path), path) for path in ends.values())))
    if not numbered:
        return RunFiles(name, ends.get("sender"), ends.get("receiver"), ends.get("other"))
    senders = tuple(path for end, path in numbered if end is not None and end[0] == "sender")
    receivers = tuple(path for end, path in numbered if end is not None and end[0] != "sender")
    return RunFiles(name, senders=senders, receivers=receivers)


def is_url(word: str) -> bool:
    """Say whether a word is the URL of files, not their path."""
    return "://" in word


def local_name(word: str) -> str:
    """Return the path that a ``file:`` URL names, and any other word as it is."""
    found = _OF_FILE.match(word)
    return word if found is None else word[found.end() :]


def _files(word: str) -> list[Path]:
    found = _named(word)
    for path in found:
        check_regular(path)
    return found


def _named(word: str) -> list[Path]:
    path = Path(word)
    if path.is_dir():
        found = search(path)
        if not found:
            raise UsageError(f"no records ({PATTERNS_TEXT}) in '{word}'")
        return found
    if path.exists():
        return [path]
    found = matches(word)
    if not found:
        raise UsageError(f"'{word}': no such file, directory or match")
    return [file for match in found for file in _named(str(match))]


def matches(pattern: str) -> list[Path]:
    """Return the paths that a glob pattern matches, in order; hidden ones if it names them.

    ``**`` does not follow symbolic links, of which two would make a loop without an end.

    Raises:
        UsageError: it is no pattern.
    """
    path = Path(pattern)
    top, below = Path(path.anchor), path.relative_to(path.anchor)
    hidden = any(part.startswith(".") for part in below.parts)
    try:
        found = sorted(top.glob(str(below)))
    except ValueError as error:
        raise UsageError(f"'{pattern}': {error}") from None
    if hidden:
        return found
    return [one for one in found if not any(part.startswith(".") for part in one.parts)]


def search(directory: Path) -> list[Path]:
    """Return the files of records in ``directory`` and those below it, not those behind links.

    Raises:
        OSError: a directory cannot be read.
        RecordError: a link leads back to a directory that it is in.
        UsageError: a file is there in two forms.
    """
    files = []
    for folder, folders, names in os.walk(directory, onerror=_raise):
        for name in folders:
            _check_no_loop(Path(folder, name))
        files += [Path(folder, name) for name in names if _is_named_as_records(name)]
    return without_remainders(sorted(files))


def _check_no_loop(path: Path) -> None:
    if path.is_symlink():
        target = path.resolve()
        if path.parent.resolve().is_relative_to(target):
            raise RecordError(f"{path} is a loop: it leads back to {target}")


def _is_named_as_records(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in RECORD_FILES)


def _raise(error: OSError) -> None:
    raise error


def without_remainders(files: list[AnyPath]) -> list[AnyPath]:
    """Leave out hidden files, and those that :func:`_one_form` does.

    Raises:
        UsageError: as there.
    """
    return _one_form(file for file in files if not file.name.startswith("."))


def _one_form(files: Iterable[AnyPath]) -> list[AnyPath]:
    """Return each file once that is there in several forms.

    Our tools rename a compressed file when it is whole, and then remove the plain one. The
    others write under the last name, and remove the plain one at the end: it is the whole one.

    Raises:
        UsageError: a file is there in two forms, of which neither is better.
    """
    found: dict[Any, dict[str, AnyPath]] = {}
    for file in files:
        plain = without_suffix(file.name)
        suffix = file.name.removeprefix(plain)
        found.setdefault(file.with_name(plain), {})[suffix] = file
    return [_better(forms) for forms in found.values()]


def _better(forms: dict[str, AnyPath]) -> AnyPath:
    for suffix in (ZSTD.suffix, ""):
        if suffix in forms:
            return forms[suffix]
    first, *others = forms.values()
    if others:
        raise UsageError(f"'{first}' and '{others[0]}' are one file in two forms: name one")
    return first


def role_of(path: Named) -> str | None:
    """Return ``sender`` or ``receiver`` as the file's name tells it, or None."""
    named = [role for role in _ROLES if role in path.name]
    return named[0] if len(named) == 1 else None


def end_of(path: Named) -> tuple[str, int] | None:
    """Return the role and the number of the end that a file of a run of many ends is of."""
    match = _END.fullmatch(without_suffix(path.name))
    return None if match is None else (match[1], int(match[2]))


def _name(paths: list[Path]) -> str:
    path = paths[0]
    if any(path.match(pattern) for pattern in RECORD_FILES):
        return str(path.parent)
    return str(path)
