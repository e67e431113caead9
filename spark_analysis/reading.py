"""From files to ``RECORDS``: every split is parsed where an executor has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_analysis import schema
from spark_analysis.files import SPLIT_SIZE, RecordFile, Split, splits_of
from spark_analysis.filtering import EVERYTHING, Selection, file_columns
from spark_analysis.parse import parse_split

# More tasks than this cost the driver more than they spread the work.
_MOST_TASKS = 10_000


def read_records(
    spark: SparkSession, files: Sequence[RecordFile], split_size: int = SPLIT_SIZE
) -> DataFrame:
    """Return the rows of ``RECORDS`` of all ``files``, read in parallel and lazily.

    Args:
        spark: the session; its executors see the files by the same paths.
        files: what to read.
        split_size: bytes of text of each split, about.

    Raises:
        OSError: a file cannot be read.
        RecordError: compressed data is damaged.
    """
    splits = [split for file in files for split in splits_of(file, split_size)]
    return by_splits(spark, splits, as_records, schema.RECORDS)


def by_splits(
    spark: SparkSession,
    splits: Sequence[Split],
    read: Callable[[Split], Iterator[pa.RecordBatch]],
    columns: StructType,
) -> DataFrame:
    """Return the rows that ``read`` makes of each split, a task for each.

    Args:
        spark: the session.
        splits: what to read.
        read: yields rows of ``columns``.
        columns: what the rows have.
    """

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(splits[number])

    # The numbers of the splits are a range: no shuffle has to spread them over the tasks.
    tasks = max(1, min(len(splits), _MOST_TASKS))
    return spark.range(0, len(splits), 1, tasks).mapInArrow(rows, columns)


def as_records(split: Split, wanted: Selection = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """Yield a split's rows of ``PARSED`` with the columns that make them ``RECORDS``.

    Args:
        split: what to read.
        wanted: which of its rows and columns.
    """
    fixed = file_columns(split.file)
    fields = [field for field in schema.RECORDS_ARROW if field.name in wanted.needed]
    for batch in parse_split(split, wanted):
        columns = [
            batch.column(field.name)
            if field.name in batch.schema.names
            else pa.repeat(pa.scalar(fixed[field.name], field.type), batch.num_rows)
            for field in fields
        ]
        rows = wanted.rows(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))
        if rows.num_rows:
            yield rows
