"""Every table, as Spark declares it; nothing is ever inferred.

``PARSED`` is what reading a split gives. ``RECORDS`` is the same with its run and
arrow, and is what Parquet keeps. The columns:

===========  ==================================================================
file         number of the file in the job (``FILES``)
kind         one of ``KINDS``
split        where the split begins in the file, bytes; orders splits
position     lines of the kind's own count before it in the split; orders rows
id           id of the first message (v1, v2), else null
sent         send time in the file's unit
received     receive time (receiver's transfers)
settled      settlement time (settlements)
sampled      whether the settlement's line had the prefix ``S``
n            how many neighbouring messages this row stands for
text         beginning of a bad line
===========  ==================================================================

A row is a run: ``n`` neighbouring messages with equal times and, where there are
ids, with ids that count up by one. Nothing is lost by that.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

__all__ = [
    "BAD", "FILES", "KINDS", "PARSED", "PARSED_ARROW", "RECORDS", "RECORDS_ARROW", "SETTLED",
    "SPLITS", "TRANSFER", "TRUNCATED", "UNMATCHED", "UNSETTLED", "arrow",
]  # fmt: skip

TRANSFER = "transfer"
SETTLED = "settled"  # a settlement with its send, found in one split
UNSETTLED = "unsettled"  # a send whose settlement is not in its split
UNMATCHED = "unmatched"  # a settlement whose send is not in its split
BAD = "bad"  # lines that are no record; the side table
TRUNCATED = "truncated"  # the file ends within a line
KINDS = (TRANSFER, SETTLED, UNSETTLED, UNMATCHED, BAD, TRUNCATED)

FILES = StructType(
    [
        StructField("file", IntegerType(), nullable=False),
        StructField("run", StringType(), nullable=False),
        StructField("arrow", StringType(), nullable=False),
        StructField("role", StringType(), nullable=False),
        StructField("format", StringType()),
        StructField("unit", StringType(), nullable=False),
        StructField("path", StringType(), nullable=False),
    ]
)

# One row per split, under the number that spreads them over the tasks.
SPLITS = StructType(
    [
        StructField("task", LongType(), nullable=False),
        StructField("path", StringType(), nullable=False),
        StructField("file", IntegerType(), nullable=False),
        StructField("format", StringType()),
        StructField("operation", StringType()),
        StructField("unit", StringType(), nullable=False),
        StructField("compressed", BooleanType(), nullable=False),
        StructField("start", LongType(), nullable=False),
        StructField("end", LongType(), nullable=False),
    ]
)

_VALUES = [
    StructField("kind", StringType(), nullable=False),
    StructField("split", LongType(), nullable=False),
    StructField("position", LongType(), nullable=False),
    StructField("id", LongType()),
    StructField("sent", LongType()),
    StructField("received", LongType()),
    StructField("settled", LongType()),
    StructField("sampled", BooleanType()),
    StructField("n", LongType(), nullable=False),
    StructField("text", StringType()),
]
PARSED = StructType([StructField("file", IntegerType(), nullable=False), *_VALUES])
RECORDS = StructType(
    [
        *PARSED.fields,
        StructField("arrow", StringType(), nullable=False),
        StructField("unit", StringType(), nullable=False),
        StructField("run", StringType(), nullable=False),
        StructField("role", StringType(), nullable=False),
    ]
)

_ARROW_TYPES: dict[DataType, pa.DataType] = {
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    BooleanType(): pa.bool_(),
    StringType(): pa.string(),
}


def arrow(table: StructType) -> pa.Schema:
    """Return the same schema for Arrow."""
    return pa.schema(
        [pa.field(field.name, _ARROW_TYPES[field.dataType], field.nullable) for field in table]
    )


PARSED_ARROW = arrow(PARSED)
RECORDS_ARROW = arrow(RECORDS)
