"""Delivery truth, distributed; what each count means is said in quiver_fast.analysis.

See :class:`quiver_fast.analysis.delivery.Reconciliation`, which these equal. The senders and
receivers of one run are its two ends. Runs whose files all carry ids are reconciled by
id; the others by the tick of the coarser clock, which gives lower bounds.

Sends and receipts meet by their keys (ids or ticks): runs of messages are cut at the
borders of ranges of keys and shuffled by range, and :mod:`spark_analysis.reconcile` compares
what is in a range. Arrivals then go back into the order of the records.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from spark_analysis import schema
from spark_analysis.reconcile import RECONCILED, RESULT, count_ids, reconcile
from spark_analysis.transforms import ARROW, REORDERED, as_facts, quotient, ticks_per_second

__all__ = [
    "DELIVERY", "DISTINCT_IDS", "IDS", "TICKS", "delivery", "distinct_ids",
    "reconciled", "reordered_alone",
]  # fmt: skip

# A fact of a run (arrow ""). text: one of the counts of Reconciliation.result, or
DELIVERY = "delivery"
IDS = "ids"  # n is 1 or 0: the method
TICKS = "ticks"  # n: those of the coarser clock per second
# A fact of a receiver without a sender.
DISTINCT_IDS = "distinct ids"

_PLACE = ("file", "split", "position")
# A range of keys: a million ids, or a second of milliseconds.
_ID_BITS = 20
_TICK_BITS = 10


def reconciled(records: DataFrame) -> DataFrame:
    """Return the rows of ``RECONCILED``, which :func:`delivery` reads twice.

    Args:
        records: of runs with both ends.
    """
    runs = _runs(records)
    transfers = records.where(F.col("kind") == schema.TRANSFER)
    known = transfers.select(
        "run", *_PLACE, "id", "sent", "received", "n", ticks_per_second().alias("ticks")
    ).join(F.broadcast(runs), "run")
    stamp = _in_coarse(F.col("sent"), F.col("ticks"))
    receipt = F.col("received").isNotNull()
    bits = F.when(F.col("by_ids"), _ID_BITS).otherwise(_TICK_BITS)
    rows = known.select(
        "run", "by_ids", *_PLACE, "n",
        F.when(F.col("by_ids"), F.col("id")).otherwise(stamp).alias("key"),
        receipt.alias("receipt"),
        (receipt & (stamp >= F.col("start"))).alias("own"),
        F.coalesce(F.col("received") < F.col("sent"), F.lit(False)).alias("negative"),
        bits.alias("bits"),
    )  # fmt: skip
    return _by_range(rows, "run").mapInArrow(reconcile, RECONCILED)


def _runs(records: DataFrame) -> DataFrame:
    """Return (run, by_ids, coarse, start) of the runs that have records of both ends.

    ``coarse`` is the ticks per second of the coarser clock, ``start`` in it the time of
    the first send in the order of the records.
    """
    splits = records.where((F.col("kind") == schema.EXTENT) & F.col("sent").isNotNull())
    ends = splits.select("run", "role", *_PLACE, "id", "sent", ticks_per_second().alias("ticks"))
    send = F.col("role") == "sender"
    place = F.when(send, F.struct(*_PLACE))
    found = ends.groupBy("run").agg(
        F.every(F.col("id").isNotNull()).alias("by_ids"),
        F.min("ticks").alias("coarse"),
        F.min_by("sent", place).alias("first"),
        F.min_by("ticks", place).alias("first_ticks"),
        F.bool_or(send).alias("sends"),
        F.bool_or(~send).alias("receives"),
    )
    start = _in_coarse(F.col("first"), F.col("first_ticks")).alias("start")
    return found.where("sends and receives").select("run", "by_ids", "coarse", start)


def _in_coarse(time: Column, ticks: Column) -> Column:
    return quotient(time, quotient(ticks, F.col("coarse")))


def _by_range(rows: DataFrame, *keys: str) -> DataFrame:
    """Cut rows where ranges of keys meet; bring each range together, in the order of ``keys``.

    Args:
        rows: ``n`` messages from ``key`` on where ``by_ids``, else all with this key;
            ``bits``, the binary logarithm of the length of a range.
        keys: what has ranges of its own.
    """
    last = F.when(F.col("by_ids"), F.col("key") + F.col("n") - 1).otherwise(F.col("key"))
    first_range = F.call_function("shiftright", F.col("key"), F.col("bits"))
    ranges = F.sequence(first_range, F.call_function("shiftright", last, F.col("bits")))
    each = rows.select("*", last.alias("last"), F.explode(ranges).alias("range"))
    begin = F.call_function("shiftleft", F.col("range"), F.col("bits"))
    cut = F.greatest(F.col("key"), begin)
    size = F.call_function("shiftleft", F.lit(1).cast("bigint"), F.col("bits"))
    within = F.least(F.col("last") - cut, begin - cut + size - 1) + 1
    pieces = each.select(
        *(name for name in rows.columns if name not in ("key", "position", "n", "bits")),
        "range",
        cut.alias("key"),
        (F.col("position") + cut - F.col("key")).alias("position"),
        F.when(F.col("by_ids"), within).otherwise(F.col("n")).alias("n"),
    )
    return pieces.repartition(*keys, "range").sortWithinPartitions(*keys, "range")


def delivery(records: DataFrame, found: DataFrame) -> DataFrame:
    """Return the facts of what became of the messages of each run with both ends.

    Args:
        records: of runs with both ends.
        found: :func:`reconciled` of them.
    """
    counts = found.where("name is not null").groupBy("run", "name").agg(F.sum("n").alias("n"))
    arrivals = found.where("name is null")
    late = _reordered(arrivals, "run", "source").select("run", F.lit(REORDERED).alias("name"), "n")
    how = _runs(records).select(
        "run", F.explode(F.array(_named(IDS, F.col("by_ids").cast("bigint")),
                                 _named(TICKS, F.col("coarse")))).alias("it"),
    ).select("run", "it.name", "it.n")  # fmt: skip
    rows = counts.unionByName(late).unionByName(how)
    return as_facts(rows.withColumn("arrow", F.lit("")), DELIVERY, text=F.col("name"), n=F.col("n"))


def _named(name: str, n: Column) -> Column:
    return F.struct(F.lit(name).alias("name"), n.alias("n"))


def reordered_alone(records: DataFrame) -> DataFrame:
    """Return the facts of how many receipts have a smaller send time than an earlier one.

    Args:
        records: of receivers.
    """
    transfers = records.where(F.col("kind") == schema.TRANSFER)
    arrivals = transfers.select(
        *ARROW, *_PLACE, F.lit(0).alias("send_split"), F.col("sent").alias("value"),
        F.lit(1).alias("length"), "n",
    )  # fmt: skip
    return as_facts(_reordered(arrivals, *ARROW), REORDERED, n=F.col("n"))


def distinct_ids(records: DataFrame) -> DataFrame:
    """Return the facts of how many different ids receivers have.

    Args:
        records: of receivers.
    """
    rows = records.where((F.col("kind") == schema.TRANSFER) & F.col("id").isNotNull()).select(
        *ARROW, "position", F.lit(True).alias("by_ids"), F.col("id").alias("key"), "n",
        F.lit(_ID_BITS).alias("bits"),
    )  # fmt: skip
    counted = _by_range(rows, *ARROW).mapInArrow(count_ids, RESULT)
    total = counted.groupBy(*ARROW).agg(F.sum("n").alias("n"))
    return as_facts(total, DISTINCT_IDS, n=F.col("n"))


def _reordered(arrivals: DataFrame, *keys: str) -> DataFrame:
    """Return (keys, n): messages that were sent before one that had already arrived.

    The running maximum is taken within splits, and over the maxima of the splits: no
    task holds a whole file.

    Args:
        arrivals: at ``place`` of the receiver's file: ``length`` arrivals, sent at
            (``send_split``, ``value``), then ``value`` + 1, ..., each ``n`` times.
        keys: what to count for.
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
    return placed.groupBy(*keys).agg(F.sum(F.coalesce(behind, F.lit(0)) * F.col("n")).alias("n"))
