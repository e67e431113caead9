"""Delivery truth as DataFrame transforms; what each count means is said in quiver_fast.analysis.

See :func:`quiver_fast.analysis.delivery.reconcile`, which these equal. The senders and
receivers of one run are its two ends. Runs whose files all carry ids are reconciled by
id; the others by the tick of the coarser clock, which gives lower bounds.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from spark_analysis import schema
from spark_analysis.transforms import quotient, ticks_per_second

__all__ = ["delivery"]

_FIRST = Window.unboundedPreceding
# A million arrivals are sorted at a time.
_BLOCK_BITS = 20


def delivery(records: DataFrame) -> DataFrame:
    """Return one row of counts for each run that has a sender and a receiver.

    Columns: run, unit, by_ids, sent, received, foreign, lost, duplicate,
    negative_latency, reordered.
    """
    messages = _messages(records)
    keyed = _by_key(messages)
    counts = _counts(keyed.drop("position", "arrival"))
    return counts.join(_reordered(_arrivals(messages, keyed)), "run", "left").fillna(
        0, ["reordered"]
    )


def _arrivals(messages: DataFrame, keyed: DataFrame) -> DataFrame:
    """Return (run, file, index, value, n): own arrivals, ``value`` in sending order.

    By id, the first arrival of each message, a duplicate being no reordering (RFC 4737,
    section 3.4), and its place among the sends; by time, every arrival and its send time.
    """
    known = keyed.where("sends > 0")
    first = known.where("by_ids and arrival is not null").select(
        "run", "arrival.*", F.col("position").alias("value"), F.lit(1).cast("bigint").alias("n")
    )
    times = known.where("not by_ids").select("run", F.col("key").alias("stamp"))
    own = messages.where("not by_ids and receipt and stamp >= start")
    every = own.join(times, ["run", "stamp"])
    return first.unionByName(
        every.select("run", "file", "index", F.col("stamp").alias("value"), "n")
    )


def _messages(records: DataFrame) -> DataFrame:
    """Return the transfers of runs with both ends, with what is known of their run.

    Adds ``receipt``; ``index``, messages of the file before it; ``by_ids``; ``unit``, the
    coarser one; ``stamp``, the send time in it; ``start``, the first send's, in the order
    of the records.
    """
    transfers = records.where(F.col("kind") == schema.TRANSFER).select(
        "run", "unit", "file", "split", "position", "id", "sent", "received", "n",
        F.col("received").isNotNull().alias("receipt"),
        ticks_per_second().alias("ticks"),
    )  # fmt: skip
    send_place = F.when(~F.col("receipt"), F.struct("file", "split", "position"))
    runs = transfers.groupBy("run").agg(
        F.min("ticks").alias("coarse"),
        F.min_by("unit", "ticks").alias("coarse_unit"),
        F.every(F.col("id").isNotNull()).alias("by_ids"),
        F.min_by("sent", send_place).alias("first_sent"),
        F.min_by("ticks", send_place).alias("first_ticks"),
        F.bool_or("receipt").alias("has_receiver"),
    )
    runs = runs.where(F.col("has_receiver") & F.col("first_sent").isNotNull())
    known = transfers.join(F.broadcast(runs), "run").join(
        F.broadcast(_split_starts(transfers)), ["file", "split"]
    )
    return known.select(
        "run", "file", "id", "n", "receipt", "by_ids",
        F.col("coarse_unit").alias("unit"),
        (F.col("before") + F.col("position")).alias("index"),
        _in_coarse(F.col("sent"), F.col("ticks")).alias("stamp"),
        _in_coarse(F.col("first_sent"), F.col("first_ticks")).alias("start"),
        F.coalesce(F.col("received") < F.col("sent"), F.lit(False)).alias("negative"),
    )  # fmt: skip


def _in_coarse(time: Column, ticks: Column) -> Column:
    return quotient(time, quotient(ticks, F.col("coarse")))


def _split_starts(transfers: DataFrame) -> DataFrame:
    """Return (file, split, before): the messages in earlier splits of the file."""
    sizes = transfers.groupBy("file", "split").agg(F.sum("n").alias("size"))
    earlier = Window.partitionBy("file").orderBy("split").rowsBetween(_FIRST, -1)
    before = F.coalesce(F.sum("size").over(earlier), F.lit(0)).alias("before")
    return sizes.select("file", "split", before)


def _by_key(messages: DataFrame) -> DataFrame:
    """Count sends and receipts of each key: the id, or the tick of the send time.

    ``position`` is the first send's place, ``arrival`` the first receipt's (file, index).
    Partitions are ranges of keys, not hashes: neighbours in a file stay neighbours, and
    the aggregation needs no further shuffle. The sum over both ends is a full outer join.
    """
    by_ids = F.col("by_ids")
    steps = F.when(by_ids, F.col("n") - 1).otherwise(0)
    step = F.explode(F.sequence(F.lit(0).cast("bigint"), steps)).alias("step")
    each = messages.select("*", step).select(
        "run", "unit", "by_ids", "receipt", "negative", "stamp", "start", "file",
        F.when(by_ids, F.col("id") + F.col("step")).otherwise(F.col("stamp")).alias("key"),
        (F.col("index") + F.col("step")).alias("index"),
        F.when(by_ids, 1).otherwise(F.col("n")).alias("n"),
    )  # fmt: skip
    ranged = each.repartitionByRange("run", "key").sortWithinPartitions("run", "key")
    own = F.col("receipt") & (F.col("stamp") >= F.col("start"))
    return ranged.groupBy("run", "unit", "by_ids", "key").agg(
        _total(~F.col("receipt")).alias("sends"),
        _total(F.col("receipt")).alias("receipts"),
        _total(own).alias("own"),
        _total(own & F.col("negative")).alias("negative"),
        F.min(F.when(~F.col("receipt"), F.col("index"))).alias("position"),
        F.min(F.when(own, F.struct("file", "index"))).alias("arrival"),
    )


def _total(condition: Column) -> Column:
    return F.sum(F.when(condition, F.col("n")).otherwise(0))


def _counts(keyed: DataFrame) -> DataFrame:
    known = F.col("sends") > 0
    own = F.when(known, F.col("own")).otherwise(0)
    zero = F.lit(0).cast("bigint")
    return keyed.groupBy("run", "unit", "by_ids").agg(
        F.sum("sends").alias("sent"),
        F.sum("receipts").alias("received"),
        F.sum(F.col("receipts") - own).alias("foreign"),
        F.sum(F.greatest(F.col("sends") - own, zero)).alias("lost"),
        F.sum(F.greatest(own - F.col("sends"), zero)).alias("duplicate"),
        F.sum(F.when(known, F.col("negative")).otherwise(0)).alias("negative_latency"),
    )


def _reordered(arrivals: DataFrame) -> DataFrame:
    """Return (run, reordered): messages whose ``value`` is below that of an earlier arrival.

    The running maximum is taken within blocks of arrivals, and over the blocks' maxima:
    no task holds a whole file.

    Args:
        arrivals: rows of (run, file, index, value, n); ``index`` orders those of a file.
    """
    blocks = arrivals.withColumn("block", F.shiftright("index", _BLOCK_BITS))
    place = ["run", "file", "block"]
    tops = blocks.groupBy(*place).agg(F.max("value").alias("top"))
    earlier = Window.partitionBy("run", "file").orderBy("block").rowsBetween(_FIRST, -1)
    tops = tops.select(*place, F.max("top").over(earlier).alias("before"))
    inside = Window.partitionBy(*place).orderBy("index").rowsBetween(_FIRST, -1)
    furthest = F.greatest(F.max("value").over(inside), F.col("before"))
    late = blocks.join(tops, place).withColumn("furthest", furthest)
    return late.groupBy("run").agg(_total(F.col("value") < F.col("furthest")).alias("reordered"))
