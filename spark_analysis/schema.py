"""Every table, as Spark declares it; nothing is ever inferred.

``PARSED`` are the rows of a split. ``RECORDS`` are the same with run and arrow, as Parquet
keeps them. The columns:

===========  ==================================================================
file         number of the file in the job
kind         one of ``KINDS``
split        where the split begins in the file, bytes; orders splits
position     messages before it in the split; of a bad line, the lines before it
id           id of the first message (v1, v2), else null
id_high      of an id that is a hash, its upper half, below 0; null of a number
sent         send time in the file's unit
received     receive time (receiver's transfers); of a stream, its first byte
settled      settlement time (settlements)
sampled      whether the settlement's line had the prefix ``S``
member       number of the end that has the message (transfers), where the file tells
             which of several ends that is; else null
n            how many neighbouring messages (or lines) this row stands for
text         beginning of a bad line
===========  ==================================================================

``id`` and ``id_high`` are the halves of :mod:`quiver_fast.records.ids`: ids are equal where
both are, and a number is one half. Hashes of one ``RecordFile.id_key`` can be compared.

A row is a run: ``n`` neighbouring messages with equal times and, where there are
ids, with ids that count up by one. Nothing is lost by that. Each split has one row of
kind ``extent``: ``n`` is its number of lines, ``sent`` and ``received`` are the arrow's own
times of its first and last transfer, ``id`` is one of its ids, ``id_high`` is below 0 if some
id is a hash, ``position`` and ``text`` are
the number (from 1) and the beginning of its first bad line. A split in which the arrow's own
times go back has one row of kind ``clock``: ``sent`` and ``received`` are the lowest and the
highest of them, ``n`` is the most by which one is below an earlier one. Each line of
streaming mode is a row of kind ``stream``: the bytes of the body are ``n``, the time of its first
byte ``received``, the line's own ``settled``; ``sampled`` says that the message is whole.

``FACTS`` is all that the statistics need of the records: integers that add up, or that
are one per arrow. ``ARROWS`` is the statistics, a row per arrow.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

SENDER = "sender"
RECEIVER = "receiver"

TRANSFER = "transfer"
SETTLED = "settled"  # a settlement with its send, found in one split
UNSETTLED = "unsettled"  # a send whose settlement is not in its split
UNMATCHED = "unmatched"  # a settlement whose send is not in its split
BAD = "bad"  # lines that are no record; the side table
STREAM = "stream"  # a line of streaming mode
TRUNCATED = "truncated"  # the file ends within a line or a frame
EXTENT = "extent"
CLOCK = "clock"  # of a split whose times go back
KINDS = (
    TRANSFER, SETTLED, UNSETTLED, UNMATCHED, STREAM, BAD, TRUNCATED, EXTENT, CLOCK,
)  # fmt: skip

# Columns with one value for all rows of a file.
OF_FILE = ("file", "arrow", "unit", "run", "role")
# The columns that tell an arrow, and those of the place of a message in its file.
ARROW = ("run", "arrow")
PLACE = ("file", "split", "position")

_VALUES = [
    StructField("kind", StringType(), nullable=False),
    StructField("split", LongType(), nullable=False),
    StructField("position", LongType(), nullable=False),
    StructField("id", LongType()),
    StructField("id_high", LongType()),
    StructField("sent", LongType()),
    StructField("received", LongType()),
    StructField("settled", LongType()),
    StructField("sampled", BooleanType()),
    StructField("member", LongType()),
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

# The fact defines second, value and n (fact_names.py).
FACTS = StructType(
    [
        StructField("run", StringType(), nullable=False),
        StructField("arrow", StringType(), nullable=False),
        StructField("fact", StringType(), nullable=False),
        StructField("second", LongType()),
        StructField("value", LongType()),
        StructField("n", LongType()),
        StructField("text", StringType()),
    ]
)

# With a name: n of one of ``COUNTS``, or a fact of the receiver's file, the
# second of receipt standing as the split. Without one, arrivals of messages that were sent:
# ``length`` of them from (file, split, position) of the receiver on, ``n`` times each. They
# were sent by ``source`` from (send_split, value) on; ``sender`` is the number of one that shares
# its file with others, else -1, and ``receiver`` that of such a receiver. Without ids ``length``
# is 1, and ``n`` are arrivals in order, the last of them sent at the time ``value``
# (:func:`.reconcile._in_order`). ``range`` is that of the keys, where ranges were
# compared one by one.
RECONCILED = StructType(
    [
        StructField("run", StringType(), nullable=False),
        StructField("name", StringType()),
        StructField("source", LongType()),
        StructField("sender", LongType()),
        StructField("receiver", LongType()),
        StructField("file", LongType()),
        StructField("split", LongType()),
        StructField("position", LongType()),
        StructField("send_split", LongType()),
        StructField("value", LongType()),
        StructField("length", LongType()),
        StructField("n", LongType(), nullable=False),
        StructField("range", LongType()),
    ]
)
RESULT = StructType(
    [
        StructField("run", StringType(), nullable=False),
        StructField("arrow", StringType(), nullable=False),
        StructField("n", LongType(), nullable=False),
    ]
)
COUNTS = (
    "sent", "received", "unreceived", "filtered", "unmatched", "duplicate", "negative_latency",
)  # fmt: skip
"""The counts that add up over the ranges of a run, named as in Reconciliation.result."""
STEP = "step"
END = "end"
"""Latencies of a receiver that shares its file with others."""

# Times and latencies in ``unit``; ``summary`` and ``figures`` are JSON.
ARROWS = StructType(
    [
        StructField("run", StringType(), nullable=False),
        StructField("arrow", StringType(), nullable=False),
        StructField("role", StringType(), nullable=False),
        StructField("unit", StringType(), nullable=False),
        StructField("messages", LongType(), nullable=False),
        StructField("rate", DoubleType()),
        StructField("mean", DoubleType()),
        StructField("stddev", DoubleType()),
        StructField("percentiles", ArrayType(DoubleType())),
        StructField("figures", StringType()),
        StructField("summary", StringType(), nullable=False),
    ]
)

_ARROW_TYPES: dict[DataType, pa.DataType] = {
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    BooleanType(): pa.bool_(),
    StringType(): pa.string(),
    DoubleType(): pa.float64(),
    ArrayType(DoubleType()): pa.list_(pa.float64()),
}


def to_arrow(table: StructType) -> pa.Schema:
    """Return the same schema for Arrow."""
    return pa.schema(
        [pa.field(field.name, _ARROW_TYPES[field.dataType], field.nullable) for field in table]
    )


PARSED_ARROW = to_arrow(PARSED)
RECORDS_ARROW = to_arrow(RECORDS)


def as_facts(table: DataFrame, fact: str, **columns: Column) -> DataFrame:
    """Return rows of ``FACTS`` that say ``fact``; a column that is not given is null."""
    names = [field.name for field in FACTS if field.name not in (*ARROW, "fact")]
    nothing = {name: F.lit(None).cast(FACTS[name].dataType) for name in names}
    values = nothing | columns
    return table.select(
        *ARROW, F.lit(fact).alias("fact"), *(values[name].alias(name) for name in names)
    )
