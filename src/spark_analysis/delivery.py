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
    by_ids, by_times = messages.where("by_ids"), messages.where("not by_ids")
    ids, times = _by_id(by_ids), _by_time(by_times)
    known = ids.where((F.col("sends") > 0) & F.col("arrival").isNotNull())
    arrivals = known.select("run", "arrival.*", F.col("position").alias("value"), _one())
    # What is sent at no known time is foreign, whatever else it may be.
    sent_times = times.where(F.col("sends") > 0).select("run", F.col("key").alias("stamp"))
    stamps = by_times.where("receipt and stamp >= start").join(sent_times, ["run", "stamp"])
    arrivals = arrivals.unionByName(
        stamps.select("run", "file", "index", F.col("stamp").alias("value"), "n")
    )
    counts = _counts(ids.drop("position", "arrival")).unionByName(_counts(times))
    return counts.join(_reordered(arrivals), "run", "left").fillna(0, ["reordered"])


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


def _by_id(messages: DataFrame) -> DataFrame:
    """Count sends and receipts of each id.

    Ranges of ids, not hashes: neighbours in a file stay neighbours, and a partition's
    rows compress. The aggregation needs no further shuffle.
    """
    step = F.explode(F.sequence(F.lit(0).cast("bigint"), F.col("n") - 1)).alias("step")
    each = messages.select("*", step).select(
        "run", "unit", "by_ids", "receipt", "negative", "stamp", "start", "file",
        (F.col("id") + F.col("step")).alias("key"),
        (F.col("index") + F.col("step")).alias("index"),
        _one(),
    )  # fmt: skip
    ranged = each.repartitionByRange("run", "key").sortWithinPartitions("run", "key")
    own = F.col("receipt") & (F.col("stamp") >= F.col("start"))
    return _keyed(
        ranged,
        F.min(F.when(~F.col("receipt"), F.col("index"))).alias("position"),
        F.min(F.when(own, F.struct("file", "index"))).alias("arrival"),
    )


def _by_time(messages: DataFrame) -> DataFrame:
    """Count sends and receipts of each tick of the send time: a full outer join, by union."""
    return _keyed(messages.withColumn("key", F.col("stamp")))


def _keyed(messages: DataFrame, *more: Column) -> DataFrame:
    own = F.col("receipt") & (F.col("stamp") >= F.col("start"))
    return messages.groupBy("run", "unit", "by_ids", "key").agg(
        _total(~F.col("receipt")).alias("sends"),
        _total(F.col("receipt")).alias("receipts"),
        _total(own).alias("own"),
        _total(own & F.col("negative")).alias("negative"),
        *more,
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


def _one() -> Column:
    return F.lit(1).cast("bigint").alias("n")
