"""Files of records, and the splits of them that tasks read independently."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import FileIO
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from quiver_fast.analysis.read.discovery import end_of, local_name, matches, role_of, search
from quiver_fast.analysis.read.summary_file import check_regular
from quiver_fast.errors import UsageError
from quiver_fast.records import formats
from quiver_fast.records.compression import without_suffix
from quiver_fast.records.frames import open_records
from quiver_fast.records.ids import key_or_own
from quiver_fast.records.layout import layout_of
from quiver_fast.records.runs import scan_runs
from quiver_fast.records.sources import Place, is_compressed, open_place, open_source
from quiver_fast.records.transfers import RunBatch
from spark_analysis import schema
from spark_analysis.file_systems import RemotePath, Settings, is_remote, remote_path
from spark_analysis.schema import RECEIVER, SENDER

_OPERATIONS = {SENDER: formats.SEND, RECEIVER: formats.RECEIVE}

SPLIT_SIZE = 256 << 20
# About the bytes of text whose messages one task has after a shuffle.
_PART_SIZE = 32 << 20
# A longer line is no record; the rest of it is not looked at.
_BLOCK_SIZE = 1 << 16
# More tasks cost the driver more time than they save.
_MOST_TASKS = 10_000
_SUFFIXES = (".csv", "-transfers")
_BRACES = re.compile(r"\{([^{}]*)\}")

AnyPath: TypeAlias = "Path | RemotePath"


@dataclass(frozen=True)
class RecordFile:
    """One file of records.

    Attributes:
        number: its index in the job.
        path: where every executor finds it: a path, or a URL.
        run: the run that it belongs to.
        arrow: the arrow's name, unique within the run.
        record_format: ``"v1"``, ``"v2"`` or ``"v3"``; None where no line tells it. A v2
            file is ``"v1"`` where its first line does not tell the difference.
        operation: ``"send"`` or ``"receive"``; None where neither name nor line tells it.
        unit: ``"ms"``, ``"us"`` or ``"ns"``.
        compressed: whether it is compressed.
        id_key: by which ids that are no numbers are hashed (:mod:`quiver_fast.records.ids`);
            the driver's own by default, so that all tasks of a job have one.
        remote: the path that opens it, if ``path`` is a URL.
        members: how many ends recorded in it.
        first: the number of the first of them.
    """

    number: int
    path: str
    run: str
    arrow: str
    record_format: str | None
    operation: str | None
    unit: str
    compressed: bool
    id_key: bytes = field(default_factory=partial(key_or_own, None), repr=False)
    remote: RemotePath | None = field(default=None, repr=False)
    members: int = 1
    first: int = 0

    @property
    def location(self) -> AnyPath:
        """The path, as a path."""
        return Path(self.path) if self.remote is None else self.remote

    @property
    def role(self) -> str:
        """``"sender"``, or ``"receiver"``, also where it cannot be told."""
        return SENDER if self.operation == formats.SEND else RECEIVER

    @property
    def has_ids(self) -> bool:
        """Whether its lines carry message ids."""
        return self.record_format is not None and formats.has_ids(self.record_format)

    @property
    def scanned_format(self) -> str | None:
        """v1 and v2 differ in nothing but settlements, which may come in any split."""
        if self.operation == formats.SEND and self.record_format == formats.V1:
            return formats.V2
        return self.record_format

    @property
    def columns(self) -> dict[str, Any]:
        """The values that all of its rows have in common, by column."""
        values = (self.number, self.arrow, self.unit, self.run, self.role)
        return dict(zip(schema.OF_FILE, values, strict=True))


@dataclass(frozen=True)
class Split:
    """The part of a file that one task reads: bytes ``start`` to ``end`` of ``file``."""

    file: RecordFile
    start: int
    end: int

    @property
    def place(self) -> Place:
        """The place from which the parser reads the file."""
        remote = self.file.remote
        return self.file.path if remote is None else replace(remote, end=self.end)

    def records(self) -> Iterator[RunBatch]:
        """Yield the records of the split as the compiled parser gives them.

        Raises:
            OSError: the file cannot be read.
            RecordError: compressed data is damaged.
        """
        file = self.file
        return scan_runs(
            self.place,
            start=self.start,
            end=self.end,
            record_format=file.scanned_format,
            operation=file.operation,
            id_key=file.id_key,
            unit=file.unit,
        )


def discover(paths: Iterable[str], settings: Settings = ()) -> list[RecordFile]:
    """Find and describe the files of records under ``paths``.

    A file's folder, seen from the folder asked for, is its run; its name without
    ``-transfers.csv`` is its arrow.

    Args:
        paths: files, folders (searched with those below for ``*transfers.csv``, plain or
            compressed), and glob patterns of either; here or as URLs.
        settings: Hadoop's, for URLs.

    Raises:
        OSError: a file cannot be read.
        UsageError: nothing is there, two files are one arrow of one run, or a file is of a run of
            many ends, whose senders would have to be taken for one.
    """
    found: dict[tuple[str, str], AnyPath] = {}
    for top, path in find(paths, settings):
        if end_of(path) is not None:
            raise UsageError(
                f"'{path}' is of a run of many ends, which this job does not analyse: "
                "quiver-analyze --engine spark does"
            )
        key = (_pure(path).parent.relative_to(top.parent).as_posix(), _arrow(path))
        if found.setdefault(key, path) != path:
            other = f"'{path}' and '{found[key]}'"
            raise UsageError(f"{other} are both arrow '{key[1]}' of run '{key[0]}'")
    return [describe(path, number, *key) for number, (key, path) in enumerate(found.items())]


def describe(
    path: AnyPath, number: int, run: str, arrow: str, operation: str | None = None
) -> RecordFile:
    """Describe a file by its beginning, up to its first record.

    Args:
        path: the file.
        number: its index in the job.
        run: the run that it belongs to.
        arrow: the arrow's name.
        operation: "send" or "receive"; by default the file's name or first record tells.

    Raises:
        OSError: the file cannot be read.
        RecordError: compressed data is damaged.
    """
    operation = operation or _OPERATIONS.get(role_of(path) or "")
    with open_place(path) as file:
        compressed = is_compressed(file)
        layout, unit = layout_of(_lines(file), None, operation)
    record_format, operation = layout or (None, operation)
    remote = path if isinstance(path, RemotePath) else None
    what = record_format, operation, unit or "ms", compressed
    return RecordFile(number, str(path), run, arrow, *what, remote=remote)


def splits_of(file: RecordFile, size: int = SPLIT_SIZE) -> list[Split]:
    """Cut a file into splits of about ``size`` bytes of text.

    Raises:
        OSError: the file cannot be read.
    """
    with open_records(file.remote or file.path) as records:
        return [Split(file, start, end) for start, end in records.splits(size)]


def parts_of(files: Iterable[RecordFile]) -> int:
    """Return into how many tasks' work the messages of ``files`` are cut after a shuffle.

    Raises:
        OSError: a file cannot be read.
    """
    return sum(len(splits_of(file, _PART_SIZE)) for file in files)


def by_splits(
    spark: SparkSession,
    splits: Sequence[Split],
    read: Callable[[Split], Iterator[pa.RecordBatch]],
    columns: StructType,
) -> DataFrame:
    """Return the rows that ``read`` makes of each split, a task for each.

    Args:
        spark: the session.
        splits: the splits.
        read: yields rows of ``columns``.
        columns: those of the rows.
    """

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(splits[number])

    # The numbers of the splits are a range: no shuffle has to spread them over the tasks.
    tasks = max(1, min(len(splits), _MOST_TASKS))
    return spark.range(0, len(splits), 1, tasks).mapInArrow(rows, columns)


def can_be_folded(files: Sequence[RecordFile]) -> bool:
    """Say whether no message of ``files`` has to meet another."""
    return foldable_runs(files) == {file.run for file in files}


def foldable_runs(files: Sequence[RecordFile]) -> set[str]:
    """Return the runs of which no message has to meet another: no ids, and one end."""
    roles: dict[str, set[str]] = {}
    for file in files:
        roles.setdefault(file.run, set()).add(file.role)
    ids = {file.run for file in files if file.has_ids}
    return {run for run, ends in roles.items() if len(ends) == 1} - ids


def receivers_of(files: Iterable[RecordFile]) -> list[tuple[str, str, str]]:
    """Return run, name and unit of each receiver."""
    return [(file.run, file.arrow, file.unit) for file in files if file.role == RECEIVER]


def runs_with_both_ends(files: Sequence[RecordFile]) -> list[str]:
    """Return the runs that have a sender and a receiver."""
    ends = {role: {f.run for f in files if f.role == role} for role in (SENDER, RECEIVER)}
    return sorted(ends[SENDER] & ends[RECEIVER])


def find(paths: Iterable[str], settings: Settings = ()) -> list[tuple[PurePath, AnyPath]]:
    """Return (the folder asked for, a file in it) of all files, in a stable order.

    The folder of a file that was asked for itself is the one that it is in.

    Args:
        paths: files, folders and patterns, here or as URLs.
        settings: Hadoop's, for URLs.

    Raises:
        OSError: a file system cannot be reached, a folder or file not be read.
        UsageError: there are none at one of the paths.
        RecordError: a name is that of a pipe or a device, not of a file; links make a loop.
    """
    files = []
    for pattern in paths:
        found = [(root, path) for root in _roots(pattern, settings) for path in _files_in(root)]
        if not found:
            raise UsageError(f"no files of records at '{pattern}'")
        for _, path in found:
            if isinstance(path, Path):
                check_regular(path)
        files += found
    return [(_pure(path.parent if root == path else root), path) for root, path in files]


def _roots(pattern: str, settings: Settings) -> list[AnyPath]:
    """Return the file or folder of this name, or else all that it matches."""
    remote = is_remote(pattern)
    pattern = local_name(pattern)
    itself = remote_path(pattern, settings) if remote else Path(pattern)
    if itself.exists():
        # Only a file that exists: a link to itself has no end.
        return [itself.resolve() if isinstance(itself, Path) else itself]
    found: set[AnyPath] = set()
    for name in _alternatives(pattern):
        if remote:
            found.update(remote_path(name, settings).glob())
        else:
            found.update(match.resolve() for match in matches(name))
    return sorted(found, key=str)


def _alternatives(pattern: str) -> list[str]:
    """Return the patterns that one with ``{a,b}``, which Hadoop knows, stands for."""
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    begin, end = pattern[: braces.start()], pattern[braces.end() :]
    return [name for word in braces[1].split(",") for name in _alternatives(begin + word + end)]


def _files_in(root: AnyPath) -> list[AnyPath]:
    if not root.is_dir():
        return [root]
    return [*root.search()] if isinstance(root, RemotePath) else [*search(root)]


def _pure(path: AnyPath) -> PurePath:
    return path.pure if isinstance(path, RemotePath) else path


def _arrow(path: AnyPath) -> str:
    """Return the arrow's name: the file's without the common suffixes."""
    name = without_suffix(path.name)
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _lines(file: FileIO) -> Iterator[bytes]:
    """Yield the whole lines of a file without their newlines."""
    block = bytearray(_BLOCK_SIZE)
    source = open_source(file)
    begun = b""
    while size := source.readinto(memoryview(block)):
        *lines, begun = (begun + block[:size]).split(b"\n")
        yield from lines
        begun = begun[:_BLOCK_SIZE]
