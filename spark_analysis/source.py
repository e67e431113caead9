"""``spark.read.format("quiver")`` and ``spark.readStream.format("quiver")``.

Register once, then load files, folders or patterns, here or as URLs::

    register(spark)
    spark.read.format("quiver").load("runs/")

Both give rows of ``RECORDS``, or those of its columns that a schema names. The stream
follows plain files as they grow (Spark's own text stream ignores appended lines); its
offsets are bytes per file, always at the beginning of a line, so a restart from a
checkpoint loses and repeats nothing.
"""

from __future__ import annotations

import dataclasses
import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from quiver_fast.errors import RecordError, UsageError
from quiver_fast.records.sources import open_place
from spark_analysis import schema
from spark_analysis.file_systems import Settings, hadoop_settings
from spark_analysis.files import RecordFile, Split, discover, splits_of
from spark_analysis.options import DROP, FAIL, SourceOptions, checked_columns
from spark_analysis.record_rows import as_records
from spark_analysis.selection import Selection, select

_STEP = 1 << 16
_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"

Offsets = dict[str, int]
"""Bytes by path: all before them was read."""


class QuiverSource(DataSource):
    """The data source ``quiver``; docs/spark.md has its options.

    :func:`register` makes it one that knows the session's file systems, and applies filters
    itself.
    """

    settings: Settings = ()

    def __init__(self, options: Any) -> None:
        """Take the options.

        Raises:
            UsageError: one of them is wrong.
        """
        super().__init__(options)
        self._options = SourceOptions.of(dict(options), self.settings)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "quiver"

    def schema(self) -> StructType:
        """Return ``RECORDS``."""
        return schema.RECORDS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of whole files."""
        return _Reader(self._options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of growing files."""
        return _StreamReader(self._options, schema)


def register(spark: SparkSession) -> None:
    """Make ``format("quiver")`` known to a session.

    The session's present settings of file systems (``spark.hadoop.fs.s3a.*``) hold for it,
    and Spark hands filters to sources in Python from now on.
    """
    known = hadoop_settings(spark)

    # A class that is made here is pickled whole for Spark's other processes, not by its name.
    class Source(QuiverSource):
        settings = known

        def reader(self, schema: StructType) -> DataSourceReader:
            return _FilteringReader(self._options, schema)

    spark.conf.set(_PUSH_DOWN, "true")
    spark.dataSource.register(Source)


class _Part(InputPartition):
    """The split that a task reads."""

    value: Split


class _Reader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: StructType) -> None:
        self._options = options
        self._columns = checked_columns(columns)
        self._wanted = _wanted(options, self._columns, [])[0]

    def partitions(self) -> list[InputPartition]:
        files = numbered(
            discover(self._options.paths, self._options.settings), self._options.id_key
        )
        chosen = [file for file in files if self._wanted.kinds and self._wanted.has(file.columns)]
        return [_Part(s) for file in chosen for s in splits_of(file, self._options.split_size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(partition, self._wanted, self._columns)


class _FilteringReader(_Reader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._wanted, left = _wanted(self._options, self._columns, filters)
        return left


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, columns: StructType) -> None:
        self._options = options
        self._columns = checked_columns(columns)
        self._wanted = _wanted(options, self._columns, [])[0]
        self._last: Offsets | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return one of the limits; where it is asked for, both hold."""
        if self._options.most_files is not None:
            return ReadMaxFiles(self._options.most_files)
        if self._options.most_bytes is not None:
            return ReadMaxBytes(self._options.most_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = _ends(self._files())

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        files = self._files()
        ends = _ends(files) if self._last is None else self._last
        if isinstance(limit, ReadAllAvailable):
            return start | ends
        return start | self._limited(files, start, ends)

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        parts: list[InputPartition] = []
        files = {file.path: file for file in numbered(self._files(), self._options.id_key)}
        for path, last in end.items():
            first = start.get(path, 0)
            if last < first:
                raise RecordError(f"{path}: became shorter while it was followed")
            if last == first:
                continue
            if path not in files:
                raise RecordError(f"{path}: is gone, and {last - first:,} bytes are not read")
            step = self._options.split_size
            splits = (Split(files[path], s, min(s + step, last)) for s in range(first, last, step))
            parts += [_Part(split) for split in splits]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(partition, self._wanted, self._columns)

    def _files(self) -> list[RecordFile]:
        found = discover(self._options.paths, self._options.settings)
        return [file for file in found if not file.compressed]

    def _limited(self, files: list[RecordFile], start: Offsets, ends: Offsets) -> Offsets:
        """Return how far the files that were read least are read next."""
        begun = {file: start.get(file.path, 0) for file in files}
        grown = [file for file in files if ends.get(file.path, 0) > begun[file]]
        grown.sort(key=lambda file: begun[file])
        left = self._options.most_bytes or sys.maxsize
        found: Offsets = {}
        for file in grown[: self._options.most_files]:
            first, end = begun[file], ends[file.path]
            if end - first > left:
                end = _end_of_lines(file, first, first + left)
                # Lines are whole, and the first one of a batch is read however long it is.
                if end == first and not found:
                    end = _end_of_next_line(file, first)
            if end > first:
                found[file.path] = end
            left -= end - first
            if left <= 0:
                break
        return found


def numbered(files: list[RecordFile], id_key: bytes) -> list[RecordFile]:
    """Number files by their paths, so that a new one does not change the others' numbers.

    Args:
        files: the files.
        id_key: of the source; its processes would draw a key each.
    """
    numbered = [
        dataclasses.replace(file, number=zlib.crc32(file.path.encode()) >> 1, id_key=id_key)
        for file in files
    ]
    if len({file.number for file in numbered}) < len(numbered):
        raise UsageError("two of the paths have the same number; rename one")
    return numbered


def _wanted(
    options: SourceOptions, columns: pa.Schema, filters: list[Filter]
) -> tuple[Selection, list[Filter]]:
    """Return the selection of a query, and the filters that are left to Spark."""
    found, left = select(columns.names, filters)
    kinds = found.kinds
    if options.mode == DROP:
        kinds = tuple(kind for kind in kinds if kind != schema.BAD)
    return dataclasses.replace(found, kinds=kinds, fail_fast=options.mode == FAIL), left


def _ends(files: list[RecordFile]) -> Offsets:
    return {file.path: _end_of_lines(file) for file in files}


def _end_of_lines(file: RecordFile, start: int = 0, end: int | None = None) -> int:
    """Return the position after the last newline between two places, or ``start``."""
    with open_place(file.remote or file.path) as text:
        position = text.seek(0, 2) if end is None else end
        while position > start:
            begin = max(start, position - _STEP)
            text.seek(begin)
            newline = text.read(position - begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            position = begin
    return start


def _end_of_next_line(file: RecordFile, start: int) -> int:
    """Return the position after the first newline from ``start`` on, of which there is one."""
    with open_place(file.remote or file.path) as text:
        position = text.seek(start)
        while block := text.read(_STEP):
            newline = block.find(b"\n")
            if newline >= 0:
                return position + newline + 1
            position += len(block)
    return start


def _rows(
    partition: InputPartition, wanted: Selection, columns: pa.Schema
) -> Iterator[pa.RecordBatch]:
    # If there is nothing to read, Spark makes a partition without a value.
    if isinstance(partition, _Part):
        for batch in as_records(partition.value, wanted):
            # A user's schema also names the columns that may be null.
            yield pa.RecordBatch.from_arrays(batch.columns, schema=columns)
