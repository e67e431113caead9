"""Pure DataFrame to DataFrame transforms: the statistics of quiver_fast.analysis, distributed.

Input is ``RECORDS`` (see :mod:`spark_analysis.schema`). Nothing here reads, writes or
collects. Every aggregate over messages weighs rows with ``n``; integers stay integers,
so that the results equal the local engine's.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.units import PER_SECOND
from spark_analysis import schema

__all__ = [
    "ARROW", "comparison", "delay_floors", "extents", "histograms", "moments", "percentiles",
    "quotient", "send_counts", "series", "settlement_histograms", "settlement_residuals",
    "steady_state", "ticks_per_second", "unsettled", "with_files",
]  # fmt: skip

ARROW = ("run", "arrow", "unit")
# Sums of squares of nanoseconds exceed 64 bits.
_EXACT = "decimal(20,0)"


def with_files(parsed: DataFrame, files: DataFrame) -> DataFrame:
    """Give rows of ``PARSED`` their run, arrow, unit and role: rows of ``RECORDS``."""
    known = F.broadcast(files.select("file", "arrow", "unit", "run", "role"))
    return parsed.join(known, "file").select(*schema.RECORDS.fieldNames())


def ticks_per_second() -> Column:
    """Return the ticks in one second of each row's ``unit``."""
    units = [F.lit(word) for pair in PER_SECOND.items() for word in pair]
    return F.element_at(F.create_map(*units), F.col("unit"))


def quotient(number: Column, divisor: Column) -> Column:
    """Return the integer quotient; Spark's `/` is of doubles, too coarse for nanoseconds."""
    return F.call_function("div", number, divisor)


def histograms(records: DataFrame) -> DataFrame:
    """Return (run, arrow, unit, second, latency, n) of the received messages.

    These are the rows of :class:`quiver_fast.analysis.histogram.SecondHistogram`:
    second of the receive time; signed latency in ``unit``; number of messages.
    """
    received = records.where((F.col("kind") == schema.TRANSFER) & F.col("received").isNotNull())
    return _summed(
        received.select(
            *ARROW,
            quotient(F.col("received"), ticks_per_second()).alias("second"),
            (F.col("received") - F.col("sent")).alias("latency"),
            "n",
        ),
        *ARROW,
        "second",
        "latency",
    )


def send_counts(records: DataFrame) -> DataFrame:
    """Return (run, arrow, unit, second, n) of the sent messages, by second of the send time."""
    sent = records.where((F.col("kind") == schema.TRANSFER) & F.col("received").isNull())
    second = quotient(F.col("sent"), ticks_per_second()).alias("second")
    return _summed(sent.select(*ARROW, second, "n"), *ARROW, "second")


def extents(records: DataFrame) -> DataFrame:
    """Return (run, arrow, unit, role, n, first, last) of each arrow's transfers.

    ``first`` and ``last`` are the times that the arrow itself took, of its first and last
    record in the order of the file, as upstream has them; not the least and greatest.
    """
    own = F.coalesce("received", "sent")
    place = F.struct("split", "position")
    return (
        records.where(F.col("kind") == schema.TRANSFER)
        .groupBy(*ARROW, "role")
        .agg(
            F.sum("n").alias("n"),
            F.min_by(own, place).alias("first"),
            F.max_by(own, place).alias("last"),
        )
    )


def moments(histogram: DataFrame, keys: Sequence[str] = ARROW) -> DataFrame:
    """Return, for each of ``keys``: count, negative, mean and stddev of ``latency``.

    mean = sum(x) / n with the sum exact; stddev = sqrt(sum((x - mean)^2) / n), of the
    population; negative counts samples below zero.
    """
    latency = F.col("latency").cast(_EXACT)
    means = histogram.groupBy(*keys).agg(
        F.sum("n").alias("count"),
        F.sum(F.when(F.col("latency") < 0, F.col("n")).otherwise(0)).alias("negative"),
        (F.sum(latency * F.col("n")).cast("double") / F.sum("n")).alias("mean"),
    )
    deviation = F.col("latency") - F.col("mean")
    squares = (
        histogram.join(means, list(keys))
        .groupBy(*keys)
        .agg((F.sqrt(F.sum(deviation * deviation * F.col("n")) / F.sum("n"))).alias("stddev"))
    )
    return means.join(squares, list(keys))


def percentiles(
    histogram: DataFrame, ranks: Sequence[float], keys: Sequence[str] = ARROW
) -> DataFrame:
    """Return, for each of ``keys``, an array ``percentiles`` of the latencies at ``ranks``.

    The order statistics come from the cumulative counts; interpolation repeats the
    floating-point steps of :func:`numpy.percentile`, as
    :meth:`quiver_fast.analysis.distribution.Distribution.percentiles` does, so that
    results are equal bit for bit.
    """
    whole = Window.partitionBy(*keys)
    below = whole.orderBy("latency").rowsBetween(Window.unboundedPreceding, 0)
    counted = _summed(histogram, *keys, "latency").select(
        *keys,
        "latency",
        F.sum("n").over(below).alias("upto"),
        F.sum("n").over(whole).alias("total"),
    )
    wanted: list[Column] = []
    for number, rank in enumerate(ranks):
        position = (F.col("total") - 1) * F.lit(rank / 100)
        index = F.floor(position)
        above = F.least(index + 1, F.col("total") - 1)
        wanted.append(_at(index).alias(f"low{number}"))
        wanted.append(_at(above).alias(f"high{number}"))
    found = counted.groupBy(*keys, "total").agg(*wanted)
    values = [_interpolated(number, rank) for number, rank in enumerate(ranks)]
    return found.select(*keys, F.array(*values).alias("percentiles"))


def _at(index: Column) -> Column:
    """Return the order statistic ``index`` (from 0): the least latency that reaches it."""
    return F.min(F.when(F.col("upto") > index, F.col("latency")))


def _interpolated(number: int, rank: float) -> Column:
    low, high = F.col(f"low{number}"), F.col(f"high{number}")
    position = (F.col("total") - 1) * F.lit(rank / 100)
    fraction = position - F.floor(position)
    # NumPy interpolates from the nearer end (its `_lerp`).
    from_high = high - (high - low) * (F.lit(1.0) - fraction)
    return F.when(fraction >= 0.5, from_high).otherwise(low + (high - low) * fraction)


def series(histogram: DataFrame) -> DataFrame:
    """Return (run, arrow, unit, second, count, latency_p50, latency_p99, latency_max)."""
    keys = (*ARROW, "second")
    counts = histogram.groupBy(*keys).agg(F.sum("n").alias("count"))
    ranked = percentiles(histogram, (50, 99, 100), keys)
    names = ("latency_p50", "latency_p99", "latency_max")
    columns = [F.col("percentiles")[place].alias(name) for place, name in enumerate(names)]
    return counts.join(ranked, list(keys)).select(*keys, "count", *columns)


def settlement_residuals(records: DataFrame) -> DataFrame:
    """Return (run, arrow, unit, id, sent, settled, sampled): what splits could not join.

    A send without ``settled`` was never settled; a settlement without ``sent`` has no
    send of its id. Only these rows are shuffled.
    """
    settling = _settling(records)
    sends = records.where(F.col("kind") == schema.UNSETTLED).join(settling, list(ARROW), "semi")
    sends = sends.select(*ARROW, *_each_id(), "sent")
    late = records.where(F.col("kind") == schema.UNMATCHED)
    late = late.select(*ARROW, "id", "settled", "sampled")
    return sends.join(late, [*ARROW, "id"], "full")


def _settling(records: DataFrame) -> DataFrame:
    """Return the arrows that recorded settlements at all."""
    settled = F.col("kind").isin(schema.SETTLED, schema.UNMATCHED)
    return records.where(settled).select(*ARROW).distinct()


def _each_id() -> list[Column]:
    """Return the ids that a row of ``n`` messages stands for, one row each."""
    return [F.explode(F.sequence("id", F.col("id") + F.col("n") - 1)).alias("id")]


def settlement_histograms(records: DataFrame, residuals: DataFrame) -> DataFrame:
    """Return (run, arrow, unit, sampled, latency, n) of settlement latencies.

    Args:
        records: rows of ``RECORDS``.
        residuals: :func:`settlement_residuals` of them.
    """
    inside = records.where(F.col("kind") == schema.SETTLED).select(
        *ARROW, "sampled", (F.col("settled") - F.col("sent")).alias("latency"), "n"
    )
    across = residuals.where(F.col("sent").isNotNull() & F.col("settled").isNotNull()).select(
        *ARROW,
        "sampled",
        (F.col("settled") - F.col("sent")).alias("latency"),
        F.lit(1).cast("bigint").alias("n"),
    )
    return _summed(inside.unionByName(across), *ARROW, "sampled", "latency")


def unsettled(residuals: DataFrame) -> DataFrame:
    """Return (run, arrow, unit, unsettled, unmatched): counts of what has no other half."""
    return residuals.groupBy(*ARROW).agg(
        F.count(F.when(F.col("settled").isNull(), 1)).alias("unsettled"),
        F.count(F.when(F.col("sent").isNull(), 1)).alias("unmatched"),
    )


def steady_state(histogram: DataFrame, warm_up: int, ramp_down: int) -> DataFrame:
    """Leave out each arrow's first ``warm_up`` and last ``ramp_down`` seconds."""
    whole = Window.partitionBy(*ARROW)
    first, last = F.min("second").over(whole), F.max("second").over(whole)
    return (
        histogram.withColumn("_first", first)
        .withColumn("_last", last)
        .where(F.col("second") >= F.col("_first") + warm_up)
        .where(F.col("second") <= F.col("_last") - ramp_down)
        .drop("_first", "_last")
    )


def delay_floors(histogram: DataFrame, seconds: int = 10) -> DataFrame:
    """Return (run, arrow, unit, window, floor): the least one-way delay of each window.

    Offset and drift of the clocks show in the lower hull of these points. ``window`` is
    the epoch second that it begins with.
    """
    window = (quotient(F.col("second"), F.lit(seconds)) * seconds).alias("window")
    return histogram.groupBy(*ARROW, window).agg(F.min("latency").alias("floor"))


def comparison(base: DataFrame, candidate: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return each arrow's figures ``names`` in both summaries, and candidate / base - 1.

    Arrows are matched by run and name; one that is missing on one side has nulls there.
    """
    joined = base.alias("a").join(candidate.alias("b"), ["run", "arrow"], "full")
    columns = []
    for name in names:
        before, after = F.col(f"a.{name}"), F.col(f"b.{name}")
        columns += [before.alias(f"{name}_base"), after.alias(f"{name}_candidate")]
        columns.append((F.try_divide(after, before) - 1).alias(f"{name}_change"))
    return joined.select("run", "arrow", *columns)


def _summed(rows: DataFrame, *keys: str) -> DataFrame:
    return rows.groupBy(*keys).agg(F.sum("n").alias("n"))
