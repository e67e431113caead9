"""The receipts that may be of a run, by their send times (`analysis/figures/run_filter.py`).

The sender's first time is known from a few rows. Ids and ticks are compared
where sends and receipts meet (:mod:`spark_analysis.reconcile`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from quiver_fast.analysis.figures.run_filter import own_times
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.model.units import per_millisecond
from spark_analysis import schema
from spark_analysis.columns import quotient, ticks_per_second
from spark_analysis.schema import ARROW, PLACE

Receiver = tuple[str, str, str]
"""Run, name and unit of a receiver."""

_LIMITS = StructType(
    [
        StructField("run", StringType(), nullable=False),
        StructField("arrow", StringType(), nullable=False),
        StructField("lowest", LongType(), nullable=False),
        StructField("known_start", LongType(), nullable=False),
        StructField("last_time", LongType(), nullable=False),
    ]
)
_ASKED = StructType(
    [
        StructField("run", StringType(), nullable=False),
        StructField("count", LongType(), nullable=False),
        StructField("duration_ms", LongType(), nullable=False),
        StructField("timed", BooleanType(), nullable=False),
        StructField("copies", LongType(), nullable=False),
    ]
)


def receipt() -> Column:
    """Return whether a row of ``RECORDS`` is of receipts."""
    return (F.col("kind") == schema.TRANSFER) & F.col("received").isNotNull()


def run_start(run: RunBounds, unit: str) -> int | None:
    """Return the start of a run in ``unit``, where it is known."""
    return None if run.run_start is None else run.run_start * per_millisecond(unit)


def ends_of_runs(records: DataFrame, bounds: Mapping[str, RunBounds]) -> DataFrame:
    """Return a row for each run that has records of both ends.

    Args:
        records: rows of ``RECORDS``.
        bounds: the bounds of each run, by its name.

    Returns:
        run, ``by_ids``; ``coarse``, the ticks per second of the coarser clock, and ``start``,
        the smallest time of a send in it; ``end`` of the sending, null unless by the duration
        (:func:`quiver_fast.analysis.figures.sender_rate.end_of_sending`); ``end_ticks``, the
        ticks per second of the sender's clock; ``first``, that of its first record; and ``copies``
        (:class:`quiver_fast.analysis.model.bounds.RunBounds`).
    """
    kinds = F.col("kind").isin(schema.EXTENT, schema.CLOCK)
    splits = records.where(kinds & F.col("sent").isNotNull())
    ends = splits.select(
        "run", "role", *PLACE, "kind", "id", "sent", "received", ticks_per_second().alias("ticks")
    )
    extent = F.col("kind") == schema.EXTENT
    # A row without a place is neither the first nor the last.
    place = F.when(extent, F.struct("split", "position"))
    files = ends.groupBy("run", "role", "file").agg(
        F.every(F.when(extent, F.col("id").isNotNull())).alias("by_ids"),
        F.min("sent").alias("earliest"),
        F.min("ticks").alias("ticks"),
        F.min_by("sent", place).alias("first"),
        F.max_by("received", place).alias("last"),
    )
    send = F.col("role") == "sender"
    # The sending of several senders begins with the first of them, and ends with the last.
    found = files.groupBy("run").agg(
        F.every("by_ids").alias("by_ids"),
        F.min("ticks").alias("coarse"),
        F.min(F.when(send, F.col("first"))).alias("first"),
        F.min(F.when(send, F.col("earliest"))).alias("earliest"),
        F.max(F.when(send, F.col("last"))).alias("last"),
        F.min(F.when(send, F.col("ticks"))).alias("end_ticks"),
        F.bool_or(send).alias("sends"),
        F.bool_or(~send).alias("receives"),
    )
    both = found.where("sends and receives").drop("sends", "receives")
    asked = records.sparkSession.createDataFrame(
        [
            (name, run.count, int(run.duration * 1000), run.complete is True, run.copies)
            for name, run in bounds.items()
        ],
        _ASKED,
    )
    transfers = records.where((F.col("kind") == schema.TRANSFER) & F.col("received").isNull())
    sent = transfers.groupBy("run").agg(F.sum("n").alias("sent_count"))
    known = both.join(F.broadcast(asked), "run").join(F.broadcast(sent), "run")
    counted_out = (F.col("count") > 0) & (F.col("sent_count") >= F.col("count"))
    timed = F.col("timed") & (F.col("duration_ms") > 0) & ~counted_out
    duration = F.col("duration_ms") * quotient(F.col("end_ticks"), F.lit(1000))
    return known.select(
        "run",
        "by_ids",
        "coarse",
        quotient(F.col("earliest"), quotient(F.col("end_ticks"), F.col("coarse"))).alias("start"),
        F.when(timed, F.greatest(F.col("last"), F.col("first") + duration)).alias("end"),
        "end_ticks",
        "first",
        "copies",
    )


def timely(
    rows: DataFrame,
    receivers: Iterable[Receiver],
    bounds: Mapping[str, RunBounds],
    runs: DataFrame,
) -> DataFrame:
    """Return the rows with ``timely``: whether their send times are of the run.

    Args:
        rows: rows of ``RECORDS``, of receivers, with send times.
        receivers: those that they are from.
        bounds: the bounds of each run, by its name.
        runs: :func:`ends_of_runs` of them.
    """
    limits = rows.sparkSession.createDataFrame(list(_limits(receivers, bounds)), _LIMITS)
    starts = F.broadcast(runs.select("run", "start", "coarse"))
    known = F.broadcast(limits.join(starts, "run", "left"))
    factor = quotient(ticks_per_second(), F.col("coarse"))
    begun = F.greatest(F.col("lowest"), F.col("start") * factor)
    start = F.when(F.col("start").isNull(), F.col("known_start")).otherwise(begun)
    sent = F.col("sent")
    own: Column = (sent >= start) & (sent <= F.col("last_time"))
    found = rows.join(known, list(ARROW)).withColumn("timely", own)
    return found.select(*schema.RECORDS.fieldNames(), "timely")


def at_sent_ticks(rows: DataFrame, records: DataFrame, runs: DataFrame) -> DataFrame:
    """Return the rows whose send times are ticks at which their run's sender sent something.

    Args:
        rows: rows of ``RECORDS``, of receivers.
        records: rows of ``RECORDS`` with all sends.
        runs: :func:`ends_of_runs` of them.
    """
    sends = records.where((F.col("kind") == schema.TRANSFER) & F.col("received").isNull())
    ticks = stamped(sends, runs).select("run", "stamp").distinct()
    return stamped(rows, runs).join(ticks, ["run", "stamp"], "semi").select(*rows.columns)


def stamped(rows: DataFrame, runs: DataFrame) -> DataFrame:
    """Return the rows with ``stamp``: the send time in ticks of the coarser clock, ``coarse``."""
    clocks = F.broadcast(runs.select("run", "coarse"))
    factor = quotient(ticks_per_second(), F.col("coarse"))
    return rows.join(clocks, "run").withColumn("stamp", quotient(F.col("sent"), factor))


def _limits(
    receivers: Iterable[Receiver], bounds: Mapping[str, RunBounds]
) -> Iterable[tuple[str, str, int, int, int]]:
    for run, arrow, unit in receivers:
        lowest, end = own_times(unit, None)
        start, _ = own_times(unit, run_start(bounds[run], unit))
        yield run, arrow, lowest, start, end - 1
