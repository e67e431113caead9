"""Pure DataFrame to DataFrame transforms: from ``RECORDS`` to ``FACTS``.

Nothing here reads, writes or collects. Every aggregate over messages weighs rows with
``n``; integers stay integers, so that the results equal the local backend's.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from spark_analysis import fact_names, schema
from spark_analysis.columns import id_high, quotient, ticks_per_second, together
from spark_analysis.schema import ARROW, SENDER, as_facts

# A message is identified by both halves of its id, the upper one by id_high().
_ID = ("id", "id_high")
# The binary logarithm of the ranges of ids in which repeated settlements are looked for.
_RANGE_BITS = 10


def sums(records: DataFrame) -> DataFrame:
    """Return the facts that are sums over the rows of each arrow: one aggregation.

    Those of receipts are the rows of :class:`quiver_fast.analysis.model.histogram.SecondHistogram`.
    """
    kind = F.col("kind")
    transfer, settled = kind == schema.TRANSFER, kind == schema.SETTLED
    receipt = F.col("received").isNotNull()
    fact = (
        F.when(transfer, F.when(receipt, fact_names.LATENCY).otherwise(fact_names.SENT))
        .when(settled, F.when(F.col("sampled"), fact_names.SAMPLED).otherwise(fact_names.SETTLED))
        .when(kind == schema.BAD, fact_names.MALFORMED)
        .when(kind == schema.TRUNCATED, fact_names.TRUNCATED)
    )
    own = F.coalesce("received", "sent")
    second = F.when(transfer, quotient(own, ticks_per_second()))
    value = F.when(transfer & receipt, F.col("received") - F.col("sent")).when(
        settled, F.col("settled") - F.col("sent")
    )
    rows = records.select(
        *ARROW, fact.alias("fact"), second.alias("second"), value.alias("value"), "n"
    )
    return _summed(rows.where(F.col("fact").isNotNull()))


def _summed(rows: DataFrame) -> DataFrame:
    """Add up rows of (run, arrow, fact, second, value, n) to ``FACTS``."""
    total = rows.groupBy(*ARROW, "fact", "second", "value").agg(F.sum("n").alias("n"))
    return total.withColumn("text", F.lit(None).cast("string"))


def extents(records: DataFrame) -> DataFrame:
    """Return the facts of each split with its place in the file: a few rows, not summed up."""
    splits = records.where(F.col("kind").isin(schema.EXTENT, schema.CLOCK))
    extent = F.col("kind") == schema.EXTENT
    nothing = F.lit(None).cast("bigint"), F.lit(None).cast("string")
    sending = extent & (F.col("role") == SENDER)
    said = {
        fact_names.LINES: (F.when(extent, F.col("n")), nothing[1]),
        fact_names.FIRST: (F.when(sending, F.col("sent")), nothing[1]),
        fact_names.LAST: (F.when(sending, F.col("received")), nothing[1]),
        fact_names.LOWEST: (F.col("sent"), nothing[1]),
        fact_names.HIGHEST: (F.col("received"), nothing[1]),
        fact_names.SET_BACK: (F.when(~extent, F.col("n")), nothing[1]),
        fact_names.HASHED_IDS: (F.col("id_high"), nothing[1]),
        fact_names.FIRST_BAD: (F.when(F.col("text").isNotNull(), F.col("position")), F.col("text")),
    }
    facts = [
        F.struct(F.lit(fact).alias("fact"), value.alias("value"), text.alias("text"))
        for fact, (value, text) in said.items()
    ]
    each = splits.select(*ARROW, "split", F.explode(F.array(*facts)).alias("it"))
    return each.where("it.value is not null").select(
        *ARROW,
        "it.fact",
        F.col("split").alias("second"),
        "it.value",
        nothing[0].alias("n"),
        "it.text",
    )


def streams(lines: DataFrame) -> DataFrame:
    """Return the facts of the lines of streaming mode.

    Args:
        lines: of messages of their runs.
    """
    total = lines.groupBy(*ARROW).agg(
        F.sum("n").alias("n"), F.min("received").alias("start"), F.max("settled").alias("end")
    )
    nowhere = F.lit(0).cast("bigint")
    whole = lines.where("sampled").withColumn("value", F.col("received") - F.col("sent"))
    latencies = whole.groupBy(*ARROW, "value").agg(F.count("*").alias("n"))
    return together(
        [
            as_facts(total, fact_names.BODY_BYTES, n=F.col("n")),
            as_facts(total, fact_names.STREAM_START, second=nowhere, value=F.col("start")),
            as_facts(total, fact_names.STREAM_END, second=nowhere, value=F.col("end")),
            as_facts(latencies, fact_names.FIRST_BYTE, value=F.col("value"), n=F.col("n")),
        ]
    )


def counted(receipts: DataFrame, fact: str) -> DataFrame:
    """Return the facts of how many receipts there are."""
    total = receipts.groupBy(*ARROW).agg(F.sum("n").alias("n"))
    return as_facts(total, fact, n=F.col("n"))


def edges(receipts: DataFrame) -> DataFrame:
    """Return the facts of the first, the last and the latest sent of the receipts.

    The first and the last are those by their places in the file.

    Args:
        receipts: of messages of their runs.
    """
    place = F.struct("file", "split", "position")
    found = receipts.groupBy(*ARROW).agg(
        F.min_by("received", place).alias("first"),
        F.max_by("received", place).alias("last"),
        F.max("sent").alias(fact_names.TOP),
    )
    nowhere = F.lit(0).cast("bigint")
    return together(
        [
            as_facts(found, fact, second=nowhere, value=F.col(f"`{fact}`"))
            for fact in (fact_names.FIRST, fact_names.LAST, fact_names.TOP)
        ]
    )


def _settlement_residuals(records: DataFrame, *, all_settle: bool) -> DataFrame:
    """Return (run, arrow, id, id_high, sent, settled, sampled) that splits could not join.

    A send without ``settled`` was never settled; a settlement without ``sent`` has no
    send of its id. Only these rows are shuffled.
    """
    settling = records.where(F.col("kind").isin(schema.SETTLED, schema.UNMATCHED))
    sends = records.where(F.col("kind") == schema.UNSETTLED)
    if not all_settle:
        sends = sends.join(settling.select(*ARROW).distinct(), list(ARROW), "semi")
    late = settling.where(F.col("kind") == schema.UNMATCHED)
    each = F.explode(F.sequence("id", F.col("id") + F.col("n") - 1)).alias("id")
    return sends.select(*ARROW, each, id_high(), "sent").join(
        late.select(*ARROW, each, id_high(), "settled", "sampled"), [*ARROW, *_ID], "full"
    )


def settlements_across(records: DataFrame, *, all_settle: bool = False) -> DataFrame:
    """Return the facts of settlements whose send was in another split, and of halves.

    As in :class:`quiver_fast.analysis.figures.settlement.SettlementJoin` every settlement of an id
    that was sent counts, one that repeats another too.

    Args:
        records: rows of ``RECORDS``.
        all_settle: whether all of these arrows have settlements; otherwise the records tell
            which do.
    """
    residuals = _settlement_residuals(records, all_settle=all_settle)
    unsent = residuals.where(F.col("sent").isNull()).drop("sent")
    again = unsent.join(_sends_settled(records, unsent), [*ARROW, *_ID], "left")
    halves = residuals.where(F.col("sent").isNotNull()).unionByName(again)
    both = F.col("sent").isNotNull() & F.col("settled").isNotNull()
    fact = (
        F.when(both, F.when(F.col("sampled"), fact_names.SAMPLED).otherwise(fact_names.SETTLED))
        .when(F.col("settled").isNull(), fact_names.UNSETTLED)
        .otherwise(fact_names.UNMATCHED)
    )
    return _summed(
        halves.select(
            *ARROW,
            fact.alias("fact"),
            F.lit(None).cast("bigint").alias("second"),
            F.when(both, F.col("settled") - F.col("sent")).alias("value"),
            F.lit(1).cast("bigint").alias("n"),
        )
    )


def _sends_settled(records: DataFrame, settlements: DataFrame) -> DataFrame:
    """Return (run, arrow, id, id_high, sent) of sends settled in their split, as far as asked for.

    Only rows that share a range of ids with ``settlements``, mostly none, are shuffled.
    """
    ranges = settlements.select(*ARROW, _id_range(F.col("id")).alias("range")).distinct()
    last = F.col("id") + F.col("n") - 1
    every = F.explode(F.sequence(_id_range(F.col("id")), _id_range(last))).alias("range")
    sends = records.where(F.col("kind") == schema.SETTLED)
    near = sends.select(*ARROW, every, "id", id_high(), last.alias("last"), "sent").join(
        F.broadcast(ranges), [*ARROW, "range"], "semi"
    )
    begin = F.call_function("shiftleft", F.col("range"), F.lit(_RANGE_BITS))
    ids = F.sequence(
        F.greatest(F.col("id"), begin), F.least(F.col("last"), begin + (1 << _RANGE_BITS) - 1)
    )
    each = near.select(*ARROW, F.explode(ids).alias("id"), "id_high", "sent")
    return each.groupBy(*ARROW, *_ID).agg(F.min("sent").alias("sent"))


def _id_range(ids: Column) -> Column:
    return F.call_function("shiftright", ids, F.lit(_RANGE_BITS))
