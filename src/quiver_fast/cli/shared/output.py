"""Output directories and files: private, never overwritten unasked, complete or absent."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from quiver_fast.analysis.export.json_text import json_pieces
from quiver_fast.errors import SignalError, UsageError
from quiver_fast.output_file import part_of, write_file
from quiver_fast.records.compression import SUFFIXES
from quiver_fast.records.frames import FRAME_SIZE, write_frames

# Patterns of the files of numbered ends, named as in `ArrowFiles`, hidden ones included.
_OF_ENDS = tuple(
    f"{hidden}{role}.[0-9]*-{kind}*"
    for role in ("sender", "receiver")
    for hidden, kinds in (
        ("", ("transfers", "snapshots", "summary")),
        (".", ("report", "reserve", "transfers", "summary")),
    )
    for kind in kinds
)
# Sizes of a summary: without its series, and of its series for each second.
_SUMMARY_SIZE = 1 << 20
_SECOND_SIZE = 128
# A run of more than a day reserves no more: it would be hundreds of megabytes.
_MOST_SECONDS = 86_400


class ArrowFiles:
    """The names of one arrow's files in an output directory."""

    def __init__(self, directory: Path, role: str) -> None:
        self.transfers = directory / f"{role}-transfers.csv"
        self.compressed = directory / f"{role}-transfers.csv.zst"
        self.snapshots = directory / f"{role}-snapshots.csv"
        self.summary = directory / f"{role}-summary.json"
        self.report = directory / f".{role}-report.json"
        self.reserve = directory / f".{role}-reserve"

    @property
    def records(self) -> Path:
        """The file of records: the compressed one if it exists."""
        return self.compressed if self.compressed.exists() else self.transfers

    def remove(self) -> None:
        """Remove the files of an earlier run, so that none is taken for this one's."""
        # Other tools compress records too.
        forms = [self.transfers.with_name(self.transfers.name + suffix) for suffix in SUFFIXES]
        for file in (self.transfers, *forms, self.snapshots, self.summary):
            file.unlink(missing_ok=True)
            part_of(file).unlink(missing_ok=True)
        self.remove_hidden()

    def remove_hidden(self) -> None:
        """Remove the files that only a running arrow needs; one that was killed left them."""
        # An arrow writes its report beside it and renames it.
        reports = self.report.parent.glob(f"{self.report.name}*")
        for file in (self.reserve, *reports):
            file.unlink(missing_ok=True)


def remove_ends(directory: Path) -> None:
    """Remove the files of an earlier run of many ends, so that none is taken for this run's."""
    for pattern in _OF_ENDS:
        for file in directory.glob(pattern):
            file.unlink()


@contextmanager
def keeping_records(directory: Path, leave: Callable[[], None]) -> Iterator[None]:
    """Say where the records of a run are if Ctrl-C ends their analysis.

    Args:
        directory: has the records.
        leave: saves the results that are known without the records.

    Raises:
        SignalError: Ctrl-C came.
    """
    try:
        yield
    except KeyboardInterrupt:
        leave()
        raise SignalError(
            f"interrupted: the records are in '{directory}', for quiver-analyze", signal.SIGINT
        ) from None


def reserve_space(file: Path, seconds: int) -> None:
    """Reserve disk space for the summary of a run of ``seconds``, until ``file`` is removed.

    So a run that fills the disk can still write its summary.

    Raises:
        OSError: the disk has not that much space; ``file`` does not exist then.
    """
    size = _SUMMARY_SIZE + _SECOND_SIZE * min(seconds, _MOST_SECONDS)
    try:
        with file.open("wb") as out:
            os.posix_fallocate(out.fileno(), 0, size)
    except OSError as error:
        file.unlink(missing_ok=True)
        # An error of the system call does not name the file.
        error.filename = str(file)
        raise


def check_output_dir(name: str | None, roles: tuple[str, ...], force: bool) -> None:
    """Check that the directory asked for can take the files of ``roles``.

    Args:
        name: the directory, or None for a new temporary one.
        roles: the arrows that will write files ("sender", "receiver"). Files of the other
            role do not count as content: two arrows may share a directory.
        force: allow a directory that is not empty.

    Raises:
        UsageError: the directory is not empty, or not a directory.
    """
    if name is None:
        return
    directory = Path(name)
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"'{name}' is not a directory")
    if directory.is_dir() and not force and not _is_free(directory, roles):
        raise UsageError(f"output directory '{name}' is not empty (--force replaces its files)")


def make_output_dir(name: str | None) -> Path:
    """Return the directory ``name``, or a new temporary one; a new one has mode 0700."""
    if name is None:
        return Path(tempfile.mkdtemp(prefix="quiver-"))
    directory = Path(name)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _is_free(directory: Path, roles: tuple[str, ...]) -> bool:
    others = tuple(f"{role}-" for role in ("sender", "receiver") if role not in roles)
    hidden = tuple(f".{prefix}" for prefix in others)
    return all(entry.name.startswith(others + hidden) for entry in directory.iterdir())


def write_json(file: Path, document: dict[str, Any]) -> None:
    """Write ``document`` to ``file``, which appears complete or not at all."""

    def write(out: BinaryIO) -> None:
        out.writelines(piece.encode() for piece in json_pieces(document))
        out.write(b"\n")

    write_file(file, write)


def write_text(file: Path, text: str) -> None:
    """Write ``text`` to ``file``, which appears complete or not at all."""
    write_file(file, lambda out: out.write(text.encode(errors="backslashreplace")))


def compress(
    source: Path, target: Path, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> None:
    """Compress ``source`` into ``target`` and remove it.

    The result is a sequence of independent zstd frames with an index
    (:mod:`quiver_fast.records.frames`), so that readers can split the work between them.

    Args:
        source: lines of text.
        target: appears complete or not at all.
        progress: called with the bytes done and the bytes in all.
    """

    def write(out: BinaryIO) -> None:
        write_frames(source, out, frame_size=FRAME_SIZE, progress=progress)

    write_file(target, write)
    source.unlink()
