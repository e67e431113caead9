"""Delivery truth, distributed.

The counts mean what :class:`quiver_fast.analysis.figures.delivery.Reconciliation` says, and
they equal its counts. The senders and receivers of one run are its two ends. Runs whose files
all carry ids are reconciled by id. Other runs are reconciled by the tick of the coarser clock,
which gives lower bounds.

Sends and receipts meet by their keys (ids or ticks): runs of messages are cut at the
borders of ranges of keys and shuffled by range, and :mod:`spark_analysis.reconcile` compares
what is in a range. Arrivals then go back into the order of the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.model.units import PER_SECOND
from spark_analysis import schema
from spark_analysis.own import PLACE
from spark_analysis.reconcile import (
    COUNTS,
    MISSING,
    RECONCILED,
    RESULT,
    count_ids,
    reconcile,
    reconcile_ranges,
)
from spark_analysis.stepping import numbered
from spark_analysis.transforms import (
    ARROW,
    FIRST,
    FOREIGN,
    LAST,
    LATE,
    LATENCY,
    REORDERED,
    as_facts,
    id_high,
    quotient,
    ticks_per_second,
    together,
)

# A fact of a run (arrow ""). text: one of the counts of Reconciliation.result, or
DELIVERY = "delivery"
IDS = "ids"  # n is 1 or 0: the method
TICKS = "ticks"  # n: those of the coarser clock per second
GAPS = "gaps"  # n: messages not received although one sent later was
# A fact of a sender of several: n of its messages were received.
DELIVERED = "delivered"
# A fact of a receiver without a sender.
DISTINCT_IDS = "distinct ids"

# A range of keys, which a task holds: ids, or ticks of a quarter of a second to a second.
_ID_BITS = 16
TICK_BITS = {"ms": 10, "us": 18, "ns": 28}


def reconciled(
    records: DataFrame,
    receipts: DataFrame,
    runs: DataFrame,
    skew: Column | None = None,
    steps: DataFrame | None = None,
) -> DataFrame:
    """Return the rows of ``RECONCILED``, which are read more than once.

    Args:
        records: of runs with both ends.
        receipts: those of messages of the runs, as far as send times tell.
        runs: :func:`.own.ends_of_runs` of them.
        skew: as of :func:`in_ranges`.
        steps: likewise.
    """
    rows = in_ranges(records, receipts, runs, skew=skew, steps=steps)
    return _together(rows, "run").mapInArrow(reconcile, RECONCILED)


def reconciled_ranges(rows: DataFrame, touched: Mapping[str, Set[int]] | None) -> DataFrame:
    """Return the rows of ``RECONCILED``, each with its range.

    Args:
        rows: :func:`in_ranges` of all records of these ranges.
        touched: the ranges of each run that are compared; None for all.
    """
    return _together(rows, "run").mapInArrow(reconcile_ranges(touched), RECONCILED)


def in_ranges(
    records: DataFrame,
    receipts: DataFrame,
    runs: DataFrame,
    id_bits: int = _ID_BITS,
    skew: Column | None = None,
    steps: DataFrame | None = None,
) -> DataFrame:
    """Return sends and receipts with what they are compared by, cut where ranges of keys meet.

    Args:
        records: of runs with both ends.
        receipts: those of messages of the runs, as far as send times tell.
        runs: :func:`.own.ends_of_runs` of them.
        id_bits: the binary logarithm of the length of a range of ids.
        skew: of each receipt, how far its receiver's clock is ahead of its sender's, in the
            unit of its times; None where latencies are not corrected.
        steps: :func:`.stepping.steps_of_runs`; None where no run has any.
    """
    latency = F.col("received") - F.col("sent")
    latency = latency if skew is None else latency - skew
    sends = records.where((F.col("kind") == schema.TRANSFER) & F.col("received").isNull())
    messages = sends.unionByName(receipts)
    known = (
        (messages if steps is None else numbered(messages, steps))
        .withColumn("ticks", ticks_per_second())
        .join(F.broadcast(runs), "run")
    )
    by_ids, receipt = F.col("by_ids"), F.col("received").isNotNull()
    nothing = F.lit(0).cast("bigint")
    rows = known.select(
        "run", "by_ids", *PLACE, "n",
        F.when(by_ids, F.col("id")).otherwise(_in_coarse(F.col("sent"))).alias("key"),
        _high(by_ids),
        receipt.alias("receipt"),
        F.coalesce(F.col("member"), nothing).alias("member"),
        F.coalesce(F.col("received") > _end(), F.lit(False)).alias("late"),
        F.coalesce(F.col("received"), nothing).alias("received"),
        F.coalesce(latency, nothing).alias("latency"),
        "ticks",
        F.when(by_ids, F.lit(id_bits)).otherwise(tick_bits()).alias("bits"),
        *([] if steps is None else ["step"]),
    )  # fmt: skip
    return cut_at_ranges(rows)


def _high(by_ids: Column) -> Column:
    """Return the upper half of each row's id; 0 where messages are not told apart by ids."""
    return F.when(by_ids, id_high()).otherwise(F.lit(0).cast("bigint")).alias("high")


def tick_bits() -> Column:
    """Return the binary logarithm of the length of a range of ticks of the coarser clock."""
    bits = [F.lit(word) for unit, bits in TICK_BITS.items() for word in (PER_SECOND[unit], bits)]
    return F.element_at(F.create_map(*bits), F.col("coarse"))


def _in_coarse(time: Column) -> Column:
    return quotient(time, quotient(F.col("ticks"), F.col("coarse")))


def _end() -> Column:
    """Return the end of the sending by the clock of each row."""
    ticks, end_ticks = F.col("ticks"), F.col("end_ticks")
    finer = F.col("end") * quotient(ticks, end_ticks)
    # The branch that is not taken must not divide by zero either.
    coarser = quotient(F.col("end"), F.greatest(quotient(end_ticks, ticks), F.lit(1)))
    return F.when(ticks >= end_ticks, finer).otherwise(coarser)


def cut_at_ranges(rows: DataFrame) -> DataFrame:
    """Cut rows where ranges of keys meet.

    The range of an id that is a hash is its upper half, which is below 0: so ``range`` and
    ``key`` together are the whole id.

    Args:
        rows: ``n`` messages from ``key`` on where ``by_ids``, else all with this key;
            ``high``, the upper half of ids; ``bits``, the binary logarithm of the length of
            a range.
    """
    last = F.when(F.col("by_ids"), F.col("key") + F.col("n") - 1).otherwise(F.col("key"))
    hashed = F.col("high") < 0
    ends = (
        F.when(hashed, F.col("high")).otherwise(F.call_function("shiftright", end, F.col("bits")))
        for end in (F.col("key"), last)
    )
    each = rows.select("*", last.alias("last"), F.explode(F.sequence(*ends)).alias("range"))
    shifted = F.call_function("shiftleft", F.col("range"), F.col("bits"))
    begin = F.when(hashed, F.col("key")).otherwise(shifted)
    cut = F.greatest(F.col("key"), begin)
    size = F.call_function("shiftleft", F.lit(1).cast("bigint"), F.col("bits"))
    within = F.least(F.col("last") - cut, begin - cut + size - 1) + 1
    return each.select(
        *(name for name in rows.columns if name not in ("key", "high", "position", "n", "bits")),
        "range",
        cut.alias("key"),
        (F.col("position") + cut - F.col("key")).alias("position"),
        F.when(F.col("by_ids"), within).otherwise(F.col("n")).alias("n"),
    )


def _together(rows: DataFrame, *keys: str) -> DataFrame:
    """Bring each range together, in the order of ``keys``, which have ranges of their own."""
    return rows.repartition(*keys, "range").sortWithinPartitions(*keys, "range")


def delivery(found: DataFrame, runs: DataFrame) -> DataFrame:
    """Return the facts of what became of the messages of each run with both ends.

    Args:
        found: the rows of :func:`reconciled`.
        runs: :func:`.own.ends_of_runs`.
    """
    counted = found.where(F.col("name").isin(*COUNTS))
    counts = counted.groupBy("run", "name").agg(F.sum("n").alias("n"))
    how = runs.select(
        "run", F.explode(F.array(_named(IDS, F.col("by_ids").cast("bigint")),
                                 _named(TICKS, F.col("coarse")))).alias("it"),
    ).select("run", "it.name", "it.n")  # fmt: skip
    rows = counts.unionByName(how).unionByName(_gaps(found))
    return as_facts(rows.withColumn("arrow", F.lit("")), DELIVERY, text=F.col("name"), n=F.col("n"))


def _gaps(found: DataFrame) -> DataFrame:
    """Return (run, name, n): messages not received though one that was sent later was."""
    side = ["run", "source", "sender"]
    end = F.col("value") + F.col("length")
    latest = (
        found.where("name is null")
        .groupBy(*side)
        .agg(F.max(F.struct("send_split", end.alias("end"))).alias("latest"))
    )
    missing = found.where(F.col("name") == MISSING).join(F.broadcast(latest), side)
    before = F.when(F.col("latest.send_split") > F.col("send_split"), F.col("length")).when(
        F.col("latest.send_split") == F.col("send_split"),
        F.greatest(F.lit(0), F.least(F.col("latest.end") - F.col("value"), F.col("length"))),
    )
    total = F.sum(F.coalesce(before, F.lit(0))).alias("n")
    return missing.groupBy("run").agg(total).select("run", F.lit(GAPS).alias("name"), "n")


def own_facts(found: DataFrame, arrows: DataFrame) -> DataFrame:
    """Return the facts of the receivers of runs with both ends.

    Args:
        found: the rows of :func:`reconciled`.
        arrows: (file, run, arrow) of them.
    """
    rows = found.join(F.broadcast(arrows), ["run", "file"])
    latencies = rows.where(F.col("name") == LATENCY)
    each = latencies.groupBy(*ARROW, "split", "value").agg(F.sum("n").alias("n"))
    tables = [as_facts(each, LATENCY, second=F.col("split"), value=F.col("value"), n=F.col("n"))]
    foreign = rows.where(F.col("name") == FOREIGN).groupBy(*ARROW).agg(F.sum("n").alias("n"))
    tables.append(as_facts(foreign, FOREIGN, n=F.col("n")))
    late = rows.where(F.col("name") == LATE).groupBy(*ARROW)
    latest = late.agg(F.sum("n").alias("n"), F.max("value").alias("value"))
    tables.append(as_facts(latest, LATE, value=F.col("value"), n=F.col("n")))
    place = F.struct("split", "position")
    for fact, choose in ((FIRST, F.min_by), (LAST, F.max_by)):
        edge = rows.where(F.col("name") == fact).groupBy(*ARROW)
        found_edge = edge.agg(choose("value", place).alias("value"))
        tables.append(
            as_facts(found_edge, fact, second=F.lit(0).cast("bigint"), value=F.col("value"))
        )
    # By the order of each sender at each receiver: who sends at the same time has no order.
    sides = ("run", "source", "sender", "receiver")
    behind = _reordered(found.where("name is null"), *sides, by=("run", "file"))
    of_arrows = behind.join(F.broadcast(arrows), ["run", "file"])
    tables.append(as_facts(of_arrows, REORDERED, n=F.col("n")))
    return together(tables)


def delivered(found: DataFrame, arrows: DataFrame) -> DataFrame:
    """Return the facts of how many messages of each sender were received, by ids.

    ``value`` is the number of a sender that shares its file with others; else 0.

    Args:
        found: the rows of :func:`reconciled`.
        arrows: (file, run, arrow) of senders.
    """
    arrivals = found.where("name is null").groupBy("run", "source", "sender")
    sums = arrivals.agg(F.sum("length").alias("n")).withColumnRenamed("source", "file")
    named = sums.join(F.broadcast(arrows), ["run", "file"])
    return as_facts(named, DELIVERED, value=F.col("sender"), n=F.col("n"))


def _named(name: str, n: Column) -> Column:
    return F.struct(F.lit(name).alias("name"), n.alias("n"))


def reordered_alone(records: DataFrame) -> DataFrame:
    """Return the facts of how many receipts have a smaller send time than an earlier one.

    Args:
        records: of receivers.
    """
    transfers = records.where(F.col("kind") == schema.TRANSFER)
    arrivals = transfers.select(
        *ARROW, *PLACE, F.lit(0).alias("send_split"), F.col("sent").alias("value"),
        F.lit(1).alias("length"), "n", F.coalesce(F.col("member"), F.lit(0)).alias("member"),
    )  # fmt: skip
    behind = _reordered(arrivals, *ARROW, "member", by=ARROW)
    return as_facts(behind, REORDERED, n=F.col("n"))


def distinct_ids(records: DataFrame) -> DataFrame:
    """Return the facts of how many different ids receivers have.

    Args:
        records: of receivers.
    """
    rows = records.where((F.col("kind") == schema.TRANSFER) & F.col("id").isNotNull()).select(
        *ARROW, "position", F.lit(True).alias("by_ids"), F.col("id").alias("key"), "n",
        _high(F.lit(True)), F.lit(_ID_BITS).alias("bits"),
    )  # fmt: skip
    counted = _together(cut_at_ranges(rows), *ARROW).mapInArrow(count_ids, RESULT)
    total = counted.groupBy(*ARROW).agg(F.sum("n").alias("n"))
    return as_facts(total, DISTINCT_IDS, n=F.col("n"))


def _reordered(arrivals: DataFrame, *keys: str, by: Sequence[str] = ()) -> DataFrame:
    """Return (by, n): messages that were sent before one that had already arrived.

    The running maximum is taken within splits, and over the maxima of the splits: no
    task holds a whole file.

    Args:
        arrivals: at ``place`` of the receiver's file: ``length`` arrivals, sent at
            (``send_split``, ``value``), then ``value`` + 1, ..., each ``n`` times.
        keys: what has an order of its own.
        by: what to count for; by default ``keys``.
    """
    split = [*keys, "file", "split"]
    earlier = Window.unboundedPreceding, -1
    last = F.struct("send_split", (F.col("value") + F.col("length") - 1).alias("value"))
    ends = arrivals.withColumn("last", last)
    tops = ends.groupBy(*split).agg(F.max("last").alias("top"))
    over_splits = Window.partitionBy(*keys, "file").orderBy("split").rowsBetween(*earlier)
    before = tops.select(*split, F.max("top").over(over_splits).alias("before"))
    inside = Window.partitionBy(*split).orderBy("position").rowsBetween(*earlier)
    furthest = F.greatest(F.max("last").over(inside), F.col("before"))
    placed = ends.join(F.broadcast(before), split).withColumn("furthest", furthest)
    behind = F.when(
        F.col("furthest.send_split") == F.col("send_split"),
        F.greatest(F.lit(0), F.least(F.col("furthest.value") - F.col("value"), F.col("length"))),
    ).when(F.col("furthest.send_split") > F.col("send_split"), F.col("length"))
    total = F.sum(F.coalesce(behind, F.lit(0)) * F.col("n"))
    return placed.groupBy(*(by or keys)).agg(total.alias("n"))
