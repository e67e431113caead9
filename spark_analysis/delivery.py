"""The delivery of messages, distributed.

The counts are those of :class:`quiver_fast.analysis.figures.delivery.Reconciliation`. The
senders and receivers of one run are its two ends. Runs whose files all carry ids are reconciled
by id, others by the tick of the coarser clock, which gives lower bounds.

Sends and receipts meet by their keys (ids or ticks): runs of messages are cut at the
borders of ranges of keys and shuffled by range, and :mod:`spark_analysis.reconcile` compares
those of a range. Arrivals then go back into the order of the records.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from spark_analysis import fact_names, schema
from spark_analysis.columns import (
    ID_BITS,
    cut_at_ranges,
    id_high,
    quotient,
    tick_bits,
    ticks_per_second,
    together,
)
from spark_analysis.schema import ARROW, COUNTS, PLACE, RECEIVER, SENDER, as_facts


def sends_and_receipts(records: DataFrame, receipts: DataFrame) -> DataFrame:
    """Return the messages that are compared.

    Args:
        records: of runs with both ends.
        receipts: those of messages of the runs, as far as send times tell.
    """
    sends = records.where((F.col("kind") == schema.TRANSFER) & F.col("received").isNull())
    return sends.unionByName(receipts)


def in_ranges(
    messages: DataFrame, runs: DataFrame, id_bits: int = ID_BITS, skew: Column | None = None
) -> DataFrame:
    """Return messages with the keys that they are compared by, cut where ranges of keys meet.

    Args:
        messages: :func:`sends_and_receipts`; with ``step`` where some run has steps.
        runs: :func:`.run_filter.ends_of_runs` of them.
        id_bits: the binary logarithm of the length of a range of ids.
        skew: of each receipt, how far its receiver's clock is ahead of its sender's, in the
            unit of its times; None where latencies are not corrected.
    """
    latency = F.col("received") - F.col("sent")
    latency = latency if skew is None else latency - skew
    known = messages.withColumn("ticks", ticks_per_second()).join(F.broadcast(runs), "run")
    by_ids, receipt = F.col("by_ids"), F.col("received").isNotNull()
    nothing = F.lit(0).cast("bigint")
    rows = known.select(
        "run", "by_ids", *PLACE, "n",
        F.when(by_ids, F.col("id")).otherwise(_in_coarse(F.col("sent"))).alias("key"),
        F.when(by_ids, id_high()).otherwise(nothing).alias("high"),
        receipt.alias("receipt"),
        F.coalesce(F.col("member"), F.lit(-1).cast("bigint")).alias("member"),
        F.coalesce(F.col("received") > _end(), F.lit(False)).alias("late"),
        F.coalesce(F.col("received"), nothing).alias("received"),
        F.coalesce(latency, nothing).alias("latency"),
        "ticks",
        F.when(by_ids, F.lit(id_bits)).otherwise(tick_bits()).alias("bits"),
        *(["step"] if "step" in messages.columns else []),
        *(["copies"] if "copies" in runs.columns else []),
    )  # fmt: skip
    return cut_at_ranges(rows)


def _in_coarse(time: Column) -> Column:
    return quotient(time, quotient(F.col("ticks"), F.col("coarse")))


def _end() -> Column:
    """Return the end of the sending by the clock of each row."""
    ticks, end_ticks = F.col("ticks"), F.col("end_ticks")
    finer = F.col("end") * quotient(ticks, end_ticks)
    # The branch that is not taken must not divide by zero either.
    coarser = quotient(F.col("end"), F.greatest(quotient(end_ticks, ticks), F.lit(1)))
    return F.when(ticks >= end_ticks, finer).otherwise(coarser)


def delivery(found: DataFrame, runs: DataFrame) -> DataFrame:
    """Return the facts of the delivery of each run with both ends.

    Args:
        found: the rows of :func:`.reconcile.reconciled`.
        runs: :func:`.run_filter.ends_of_runs`.
    """
    counted = found.where(F.col("name").isin(*COUNTS))
    counts = counted.groupBy("run", "name").agg(F.sum("n").alias("n"))
    how = runs.select(
        "run", F.explode(F.array(_named(fact_names.IDS, F.col("by_ids").cast("bigint")),
                                 _named(fact_names.TICKS, F.col("coarse")))).alias("it"),
    ).select("run", "it.name", "it.n")  # fmt: skip
    rows = counts.unionByName(how)
    return as_facts(
        rows.withColumn("arrow", F.lit("")), fact_names.DELIVERY, text=F.col("name"), n=F.col("n")
    )


def own_facts(found: DataFrame, arrows: DataFrame) -> DataFrame:
    """Return the facts of the receivers of runs with both ends.

    Args:
        found: the rows of :func:`.reconcile.reconciled`.
        arrows: (file, run, arrow) of them.
    """
    rows = found.join(F.broadcast(arrows), ["run", "file"])
    latencies = rows.where(F.col("name") == fact_names.LATENCY)
    each = latencies.groupBy(*ARROW, "split", "value").agg(F.sum("n").alias("n"))
    tables = [
        as_facts(
            each, fact_names.LATENCY, second=F.col("split"), value=F.col("value"), n=F.col("n")
        )
    ]
    foreign = (
        rows.where(F.col("name") == fact_names.FOREIGN).groupBy(*ARROW).agg(F.sum("n").alias("n"))
    )
    tables.append(as_facts(foreign, fact_names.FOREIGN, n=F.col("n")))
    late = rows.where(F.col("name") == fact_names.LATE).groupBy(*ARROW)
    latest = late.agg(F.sum("n").alias("n"), F.max("value").alias("value"))
    tables.append(as_facts(latest, fact_names.LATE, value=F.col("value"), n=F.col("n")))
    place = F.struct("split", "position")
    for fact, choose in ((fact_names.FIRST, F.min_by), (fact_names.LAST, F.max_by)):
        edge = rows.where(F.col("name") == fact).groupBy(*ARROW)
        found_edge = edge.agg(choose("value", place).alias("value"))
        tables.append(
            as_facts(found_edge, fact, second=F.lit(0).cast("bigint"), value=F.col("value"))
        )
    # By the order of each sender at each receiver: messages of two senders have no order.
    sides = ("run", "source", "sender", "receiver")
    behind = _reordered(found.where("name is null"), *sides, by=("run", "file", "receiver"))
    of_arrows = behind.join(F.broadcast(arrows), ["run", "file"])
    member = _told("receiver")
    tables.append(as_facts(of_arrows, fact_names.REORDERED, value=member, n=F.col("n")))
    return together(tables)


def _told(member: str) -> Column:
    return F.when(F.col(member) >= 0, F.col(member))


def shares(found: DataFrame, arrows: DataFrame) -> DataFrame:
    """Return the facts of the first receipts, by ids, of each sender and of each receiver.

    Args:
        found: the rows of :func:`.reconcile.reconciled`.
        arrows: (file, run, arrow) of runs of many ends.
    """
    arrivals, tables = found.where("name is null"), []
    for fact, file, member in (
        (fact_names.DELIVERED, "source", "sender"), (fact_names.ARRIVED, "file", "receiver"),
    ):  # fmt: skip
        sums = arrivals.groupBy("run", file, member).agg(F.sum("length").alias("n"))
        named = sums.withColumnRenamed(file, "file").join(F.broadcast(arrows), ["run", "file"])
        tables.append(as_facts(named, fact, value=_told(member), n=F.col("n")))
    return together(tables)


def facts_of_ends(found: DataFrame, sends: DataFrame) -> DataFrame:
    """Return the facts of each end that shares its file, as those of one more arrow.

    Args:
        found: the rows of :func:`.reconcile.reconciled`.
        sends: the sends of the runs, rows of ``RECORDS``.
    """
    nowhere, place = F.lit(0).cast("bigint"), F.struct("split", "position")
    receivers = _as_arrows(found.where("name is not null"), RECEIVER, "receiver")
    latencies = receivers.where(F.col("name") == schema.END).groupBy(*ARROW, "value")
    each = latencies.agg(F.sum("n").alias("n"))
    late = receivers.where(F.col("name") == fact_names.LATE).groupBy(*ARROW)
    latest = late.agg(F.sum("n").alias("n"), F.max("value").alias("value"))
    senders = _as_arrows(sends, SENDER, "member").groupBy(*ARROW)
    sent = senders.agg(
        F.sum("n").alias("n"), F.min_by("sent", place).alias("first"),
        F.max_by("sent", place).alias("last"),
    )  # fmt: skip
    columns = {"second": nowhere, "n": F.col("n")}
    tables = [
        as_facts(each, fact_names.LATENCY, value=F.col("value"), **columns),
        as_facts(latest, fact_names.LATE, value=F.col("value"), n=F.col("n")),
        as_facts(sent, fact_names.SENT, **columns),
    ]
    for fact, choose in ((fact_names.FIRST, F.min_by), (fact_names.LAST, F.max_by)):
        edge = receivers.where(F.col("name") == fact).groupBy(*ARROW)
        received = edge.agg(choose("value", place).alias("value"))
        tables.append(as_facts(received, fact, second=nowhere, value=F.col("value")))
        tables.append(as_facts(sent, fact, second=nowhere, value=F.col(f"`{fact}`")))
    return together(tables)


def _as_arrows(rows: DataFrame, role: str, member: str) -> DataFrame:
    """Return the rows of ends that share a file, each with the arrow of its end."""
    prefix = fact_names.end_arrow(role, "")
    arrow = F.concat(F.lit(prefix), F.col(member).cast("string"))
    return rows.where(F.col(member) >= 0).withColumn("arrow", arrow)


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
    return as_facts(behind, fact_names.REORDERED, n=F.col("n"))


def _reordered(arrivals: DataFrame, *keys: str, by: Sequence[str] = ()) -> DataFrame:
    """Return (by, n): messages that were sent before one that had already arrived.

    The running maximum is taken within splits, and over the maxima of the splits: no
    task holds a whole file.

    Args:
        arrivals: at ``place`` of the receiver's file: ``length`` arrivals, sent at
            (``send_split``, ``value``), then ``value`` + 1, ..., each ``n`` times.
        keys: columns of which each value has an order of its own.
        by: columns to count by; by default ``keys``.
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
