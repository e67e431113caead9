"""``spark.read.format("quiver")`` and ``spark.readStream.format("quiver")``.

Register once, then load files, folders or glob patterns::

    spark.dataSource.register(QuiverSource)
    spark.read.format("quiver").load("runs/")

Both give rows of ``RECORDS``. The stream follows plain files as they grow (Spark's own
text stream ignores what is appended); its offsets are bytes per file, always at the
beginning of a line, so a restart from a checkpoint loses and repeats nothing.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from quiver_fast.errors import RecordError, UsageError
from quiver_fast.records.ids import key_or_own
from spark_analysis.files import SPLIT_SIZE, RecordFile, Split, discover, splits_of
from spark_analysis.reading import as_records
from spark_analysis.schema import RECORDS

__all__ = ["QuiverSource", "numbered"]

_STEP = 1 << 16
# A stream that goes on, and tables that are read apart, need equal ids.
_ID_KEY = "0" * 32


class QuiverSource(DataSource):
    """The data source ``quiver``.

    Options: ``path`` (a file, folder or pattern; several on several lines), ``splitSize`` in
    bytes of text, and ``idKey``, 32 hexadecimal digits by which ids that are no numbers are
    hashed. Ids of one key can be compared, whatever read them, at any time; who knows the key
    could choose ids that are taken for one.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "quiver"

    def schema(self) -> StructType:
        """Return ``RECORDS``."""
        return RECORDS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of whole files."""
        return _Reader(self._paths(), self._split_size(), self._id_key())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of growing files."""
        return _StreamReader(self._paths(), self._split_size(), self._id_key())

    def _paths(self) -> list[str]:
        paths = self.options.get("path", "").splitlines()
        if not paths:
            raise UsageError("the source 'quiver' needs a path")
        return paths

    def _split_size(self) -> int:
        return int(self.options.get("splitSize", SPLIT_SIZE))

    def _id_key(self) -> bytes:
        text = self.options.get("idKey", _ID_KEY)
        try:
            return key_or_own(bytes.fromhex(text))
        except ValueError:
            raise UsageError(f"the option idKey is not 32 hexadecimal digits: '{text}'") from None


class _Part(InputPartition):
    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.split = split


class _Reader(DataSourceReader):
    def __init__(self, paths: list[str], split_size: int, id_key: bytes) -> None:
        self._paths = paths
        self._split_size = split_size
        self._id_key = id_key

    def partitions(self) -> list[InputPartition]:
        files = numbered(discover(self._paths), self._id_key)
        return [_Part(split) for file in files for split in splits_of(file, self._split_size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _records(partition)


class _StreamReader(DataSourceStreamReader):
    def __init__(self, paths: list[str], split_size: int, id_key: bytes) -> None:
        self._paths = paths
        self._split_size = split_size
        self._id_key = id_key

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {}

    # The signature of Spark 4.0 and 4.1, which the later ones take as well.
    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        files = discover(self._paths)
        return {file.path: _end_of_lines(file.path) for file in files if not file.compressed}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        parts: list[InputPartition] = []
        for file in numbered(discover(self._paths), self._id_key):
            first, last = start.get(file.path, 0), end.get(file.path, 0)
            if last < first:
                raise RecordError(f"{file.path}: became shorter while it was followed")
            step = self._split_size
            parts += [_Part(Split(file, s, min(s + step, last))) for s in range(first, last, step)]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _records(partition)


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


def _end_of_lines(path: str) -> int:
    """Return the position after the file's last newline."""
    with Path(path).open("rb") as file:
        position = file.seek(0, 2)
        while position > 0:
            begin = max(0, position - _STEP)
            file.seek(begin)
            newline = file.read(position - begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            position = begin
    return 0


def _records(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, _Part):
        raise TypeError(f"not a partition of this source: {partition!r}")
    yield from as_records(partition.split)
