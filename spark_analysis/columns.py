"""Expressions over columns, and cuts of rows at ranges of keys, that the transforms share."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.model.units import PER_SECOND

# The binary logarithms of ranges of keys: of ids, and of ticks of up to a second.
ID_BITS = 16
TICK_BITS = {"ms": 10, "us": 18, "ns": 28}


def ticks_per_second() -> Column:
    """Return the ticks in one second of each row's ``unit``."""
    units = [F.lit(word) for pair in PER_SECOND.items() for word in pair]
    return F.element_at(F.create_map(*units), F.col("unit"))


def quotient(number: Column, divisor: Column) -> Column:
    """Return the integer quotient; Spark's `/` is of doubles, too coarse for nanoseconds."""
    return F.call_function("div", number, divisor)


def together(tables: list[DataFrame]) -> DataFrame:
    """Return the rows of all tables, which have the same columns."""
    return reduce(DataFrame.unionByName, tables)


def id_high() -> Column:
    """Return the upper half of each row's id, 0 of a number: joins need a value, not null."""
    return F.coalesce(F.col("id_high"), F.lit(0).cast("bigint")).alias("id_high")


def tick_bits() -> Column:
    """Return the binary logarithm of the length of a range of ticks of the coarser clock."""
    bits = [F.lit(word) for unit, bits in TICK_BITS.items() for word in (PER_SECOND[unit], bits)]
    return F.element_at(F.create_map(*bits), F.col("coarse"))


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
