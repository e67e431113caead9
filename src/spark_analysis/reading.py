"""From files to ``RECORDS``: every split is parsed where an executor has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from quiver_fast.records import formats
from spark_analysis import schema
from spark_analysis.parse import parse_split
from spark_analysis.splits import SPLIT_SIZE, RecordFile, Split, splits_of
from spark_analysis.transforms import with_files

__all__ = ["files_table", "read_records", "read_splits", "role_of"]

# More tasks than this cost the driver more than they spread the work.
_MOST_TASKS = 10_000


def role_of(file: RecordFile) -> str:
    """Return ``"sender"`` or ``"receiver"``: by the records, else by the file's name."""
    if file.operation is not None:
        return "sender" if file.operation == formats.SEND else "receiver"
    return "sender" if file.arrow.startswith("send") else "receiver"


def files_table(spark: SparkSession, files: Sequence[RecordFile]) -> DataFrame:
    """Return the rows of ``FILES``."""
    rows = [(f.number, f.run, f.arrow, role_of(f), f.record_format, f.unit, f.path) for f in files]
    return _table(spark, rows, schema.FILES)


def read_records(
    spark: SparkSession, files: Sequence[RecordFile], split_size: int = SPLIT_SIZE
) -> DataFrame:
    """Return the rows of ``RECORDS`` of all ``files``, read in parallel and lazily.

    Raises:
        OSError: a file cannot be read.
        RecordError: zstd data is damaged.
    """
    splits = [split for file in files for split in splits_of(file, split_size)]
    return with_files(read_splits(spark, splits), files_table(spark, files))


def read_splits(spark: SparkSession, splits: Sequence[Split]) -> DataFrame:
    """Return the rows of ``PARSED`` of ``splits``, one task for each."""
    rows = [
        (
            task, s.file.path, s.file.number, s.file.record_format, s.file.operation,
            s.file.unit, s.file.compressed, s.start, s.end,
        )
        for task, s in enumerate(splits)
    ]  # fmt: skip
    tasks = max(1, min(len(rows), _MOST_TASKS))
    # By range: hashes or round robin would put several splits into one task.
    table = _table(spark, rows, schema.SPLITS).repartitionByRange(tasks, "task")
    return table.mapInArrow(_parse, schema.PARSED)


def _table(spark: SparkSession, rows: list[tuple[Any, ...]], columns: StructType) -> DataFrame:
    """Make a table of a few rows; through Arrow, no Python worker has to start for it."""
    names = columns.fieldNames()
    dicts = [dict(zip(names, row, strict=True)) for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(dicts, schema.arrow(columns)))


def _parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            file = RecordFile(
                number=row["file"],
                path=row["path"],
                run="",
                arrow="",
                record_format=row["format"],
                operation=row["operation"],
                unit=row["unit"],
                compressed=row["compressed"],
            )
            yield from parse_split(Split(file, row["start"], row["end"]))
