"""Facts of runs whose messages meet, kept so that a batch costs only the records near its own.

Sends and receipts meet by ranges of keys (:mod:`spark_analysis.delivery`), and the rows of a
range follow from the records of that range alone. So it is kept range by range. Only the
ranges that new records are in are compared again; the earlier records of these
come from Parquet, which finds them by their ids or times. Everything else adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.model.units import PER_SECOND
from spark_analysis import fact_names, schema, transforms
from spark_analysis.columns import ID_BITS, TICK_BITS, cut_at_ranges, tick_bits
from spark_analysis.delivery import delivery, in_ranges, own_facts, sends_and_receipts
from spark_analysis.fact_names import DELIVERY
from spark_analysis.files import RecordFile, receivers_of, runs_with_both_ends
from spark_analysis.reconcile import distinct_ids, filters_of, reconciled_ranges
from spark_analysis.run_filter import at_sent_ticks, ends_of_runs, receipt, stamped, timely
from spark_analysis.schema import RECEIVER, SENDER

# A range is compared again as a whole if any part of it is new.
_ID_BITS = ID_BITS
MOST_RANGES = 256
"""Ranges of a run that a batch may touch: one that touches more is not near anything."""
# About the number of conditions in one query.
_MOST_CONDITIONS = 1024

_RUNS = StructType(
    [
        StructField("run", StringType(), nullable=False),
        StructField("by_ids", BooleanType(), nullable=False),
        StructField("coarse", LongType(), nullable=False),
        StructField("start", LongType(), nullable=False),
        StructField("end_ticks", LongType(), nullable=False),
        StructField("end", LongType()),
    ]
)
_RANGES = "run string, range bigint"
_ARROWS = "file bigint, run string, arrow string"
# Facts of receivers that follow from the ranges.
_OF_RANGES = (
    fact_names.LATENCY, fact_names.FOREIGN, fact_names.LATE, fact_names.FIRST, fact_names.LAST,
    fact_names.REORDERED,
)  # fmt: skip
_SETTLEMENTS = (schema.SETTLED, schema.UNSETTLED, schema.UNMATCHED)

Touched = Mapping[str, set[int]]


@dataclass(frozen=True)
class Ends:
    """The facts that the first records of a run's ends tell: see :func:`.run_filter.ends_of_runs`.

    It holds for good, unless the sender's clock is set back to before its first send.
    """

    by_ids: bool
    coarse: int
    start: int
    end_ticks: int

    def is_before(self, sent: int | None) -> bool:
        """Say whether a send time is before the start; None is not."""
        return sent is not None and sent // (self.end_ticks // self.coarse) < self.start


def can_have_ranges(files: Sequence[RecordFile], bounds: RunBounds) -> bool:
    """Say whether the rows of ranges stay true while a run grows.

    It does not where the last send, or the time asked for, ends the sending.

    Args:
        files: those of the run.
        bounds: its bounds.
    """
    timed = bounds.complete is True and bounds.duration > 0
    return bool(runs_with_both_ends(files)) and not timed


def ends_known(records: DataFrame, bounds: Mapping[str, RunBounds]) -> dict[str, Ends]:
    """Return the ends of the runs that have records of both.

    Args:
        records: all of these runs.
        bounds: the bounds of each run, by its name.
    """
    found = ends_of_runs(records, bounds).collect()
    return {row.run: Ends(row.by_ids, row.coarse, row.start, row.end_ticks) for row in found}


class RangeFacts:
    """The facts of runs whose messages meet, kept by ranges.

    Args:
        spark: the session.
        files: the files of these runs.
        bounds: the bounds of each run, by its name.
        ends: the ends of each.
    """

    def __init__(
        self,
        spark: SparkSession,
        files: Sequence[RecordFile],
        bounds: Mapping[str, RunBounds],
        ends: Mapping[str, Ends],
    ) -> None:
        self._files, self._bounds, self._ends = files, bounds, ends
        rows = [(run, e.by_ids, e.coarse, e.start, e.end_ticks, None) for run, e in ends.items()]
        self._runs = spark.createDataFrame(rows, _RUNS)
        receivers = [(f.number, f.run, f.arrow) for f in files if f.role == RECEIVER]
        self._arrows = spark.createDataFrame(receivers, _ARROWS)
        self._receivers = receivers_of(files)

    def touched(self, new: DataFrame) -> dict[str, set[int]]:
        """Return the ranges of each run that have new records: of many, one above the most.

        Args:
            new: new records of these runs.
        """
        found = _ranges_of(self._cut(new), MOST_RANGES)
        return {run: found.get(run, set()) for run in self._ends}

    def touched_ids(self, new: DataFrame) -> dict[str, set[int]]:
        """Return the ranges of ids of new receipts and settlements: of many, one above the most.

        Args:
            new: new records of runs with one end.
        """
        return _ranges_of(self._own_ids(new).unionByName(_settling(new)), MOST_RANGES)

    def near(self, records: DataFrame, touched: Touched, longest: Mapping[str, int]) -> DataFrame:
        """Return the transfers in some ranges, and perhaps some others.

        Args:
            records: all of these runs.
            touched: the ranges.
            longest: the most messages of a row, by run.
        """
        conditions = [
            condition
            for run, ranges in touched.items()
            for first, last in _intervals(ranges, _MOST_CONDITIONS // len(touched))
            for condition in self._between(run, first, last, longest[run])
        ]
        return records.where((F.col("kind") == schema.TRANSFER) & _any(conditions))

    def found(self, records: DataFrame, touched: Touched | None) -> DataFrame:
        """Return the rows of ``RECONCILED`` of ranges.

        Args:
            records: all transfers of these ranges.
            touched: the ranges; None for all.
        """
        return reconciled_ranges(self._cut(records), touched, filters_of(self._bounds))

    def of_ranges(self, found: DataFrame) -> list[DataFrame]:
        """Return the facts that follow from the rows of all ranges."""
        return [delivery(found, self._runs), own_facts(found, self._arrows)]

    def without_ranges(self, facts: DataFrame) -> DataFrame:
        """Return facts but those that :meth:`of_ranges` gives."""
        receives = self._arrows.select("run", "arrow", F.lit(True).alias("receives"))
        known = facts.join(F.broadcast(receives), ["run", "arrow"], "left")
        fact = F.col("fact")
        replaced = F.coalesce("receives", F.lit(False)) & fact.isin(*_OF_RANGES)
        return known.where(~(replaced | (fact == DELIVERY))).drop("receives")

    def added(self, new: DataFrame) -> list[DataFrame]:
        """Return the facts of new records that add up, but those of settlements."""
        late = self._receipts(new).where("not timely")
        return [
            transforms.extents(new),
            transforms.sums(new.where(~receipt())),
            transforms.counted(late, fact_names.OLDER),
        ]

    def settlements(self, old: DataFrame, new: DataFrame, longest: Mapping[str, int]) -> DataFrame:
        """Return by how much new records change the facts of settlements over splits.

        Args:
            old: all records before, of runs that settle.
            new: the new ones.
            longest: the most messages of a row, by run.
        """
        fresh = _settling(new)
        across = partial(transforms.settlements_across, all_settle=True)
        return _change(_settling, old, fresh, _ranges_of(fresh, None), longest, across)

    def distinct(
        self, old: DataFrame, new: DataFrame, touched: Touched, longest: Mapping[str, int]
    ) -> DataFrame:
        """Return by how much new records change the facts of how many ids receivers have.

        Args:
            old: all records before, of runs with one end, a receiver.
            new: the new ones.
            touched: the ranges of ids that these are in.
            longest: the most messages of a row, by run.
        """
        fresh = self._own_ids(new)
        return _change(self._own_ids, old, fresh, touched, longest, distinct_ids)

    def streams(self, old: DataFrame, new: DataFrame) -> DataFrame:
        """Return by how much new records change the facts of lines of streaming mode.

        A receiver's line counts once its tick is one at which the sender sent: lines at
        the ticks of new lines and sends are looked at again. Earlier records at other ticks
        that come with them change nothing, because they are in both sums.

        Args:
            old: all records before.
            new: the new ones.
        """
        line, sending = F.col("kind") == schema.STREAM, F.col("role") == SENDER
        ticks = stamped(new.where((line & ~sending) | _is_send()), self._runs)
        numbers = F.call_function("shiftright", F.col("stamp"), tick_bits())
        touched = _ranges_of(ticks.withColumn("range", numbers), MOST_RANGES)
        conditions = [
            condition
            for run, ranges in touched.items()
            for first, last in _intervals(ranges, _MOST_CONDITIONS // len(touched))
            for condition in self._at_ticks(run, first, last)
        ]
        # If there are very many ranges, only some are listed.
        conditions += [
            F.col("run") == run for run, found in touched.items() if len(found) > MOST_RANGES
        ]
        before = old.where((line | _is_send()) & _any(conditions))
        mine = new.where(line | _is_send())
        sent = transforms.streams(new.where(line & sending))
        return _less(before, mine, self._own_streams).unionByName(sent)

    def _own_streams(self, records: DataFrame) -> DataFrame:
        """Return the facts of the lines of streaming mode that receivers have of their runs."""
        lines = records.where((F.col("kind") == schema.STREAM) & (F.col("role") == RECEIVER))
        own = (
            timely(lines, self._receivers, self._bounds, self._runs).where("timely").drop("timely")
        )
        return transforms.streams(at_sent_ticks(own, records, self._runs))

    def _own_ids(self, records: DataFrame) -> DataFrame:
        """Return the receipts of messages of their runs, cut at ranges of ids."""
        own = self._receipts(records).where("timely").drop("timely")
        return _cut_at_ids(own.where(F.col("id").isNotNull()))

    def _cut(self, records: DataFrame) -> DataFrame:
        """Return the transfers that may be of their runs, cut where ranges meet."""
        own = self._receipts(records).where("timely").drop("timely")
        return in_ranges(sends_and_receipts(records, own), self._runs, _ID_BITS)

    def _receipts(self, records: DataFrame) -> DataFrame:
        return timely(records.where(receipt()), self._receivers, self._bounds, self._runs)

    def _between(self, run: str, first: int, last: int, longest: int) -> list[Column]:
        """Return the conditions that rows are in ranges of a run, by their ids or times."""
        if self._ends[run].by_ids:
            return [_ids_in(run, first, last, longest)]
        return self._at_ticks(run, first, last)

    def _at_ticks(self, run: str, first: int, last: int) -> list[Column]:
        """Return the conditions that send times are in ranges of ticks."""
        coarse, of_run = self._ends[run].coarse, F.col("run") == run
        [bits] = [TICK_BITS[unit] for unit, ticks in PER_SECOND.items() if ticks == coarse]
        sent, found = F.col("sent"), []
        for unit in {file.unit for file in self._files if file.run == run}:
            ticks = PER_SECOND[unit] // coarse
            begin, end = (first << bits) * ticks, ((last + 1) << bits) * ticks - 1
            found.append(of_run & (F.col("unit") == unit) & (sent >= begin) & (sent <= end))
        return found


def _is_send() -> Column:
    return (F.col("kind") == schema.TRANSFER) & (F.col("role") == SENDER)


def _ranges_of(rows: DataFrame, most: int | None) -> dict[str, set[int]]:
    """Return the ranges that the rows of each run are in; of more than ``most`` one above."""
    found = F.collect_set("range")
    each = found if most is None else F.slice(found, 1, most + 1)
    return {
        row.run: set(row.ranges) for row in rows.groupBy("run").agg(each.alias("ranges")).collect()
    }


def _change(
    cut: Callable[[DataFrame], DataFrame],
    old: DataFrame,
    fresh: DataFrame,
    touched: Touched,
    longest: Mapping[str, int],
    facts: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Return by how much new rows change facts that follow from the rows of each range of ids.

    Args:
        cut: chooses rows, and cuts them at ranges.
        old: all records before.
        fresh: the new rows, cut.
        touched: the ranges that these are in.
        longest: the most messages of a row, by run.
        facts: returns the facts of rows.
    """
    conditions = [
        _ids_in(run, first, last, longest[run])
        for run, numbers in touched.items()
        for first, last in _intervals(numbers, _MOST_CONDITIONS // len(touched))
    ]
    before = cut(old.where(_any(conditions)))
    pairs = [(run, number) for run, numbers in touched.items() for number in numbers]
    wanted = F.broadcast(old.sparkSession.createDataFrame(pairs, _RANGES))
    return _less(before.join(wanted, ["run", "range"], "semi"), fresh, facts)


def _less(
    before: DataFrame, fresh: DataFrame, facts: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Return the facts of all rows, less those of the rows before."""
    names = before.columns
    now = facts(before.unionByName(fresh.select(*names)))
    return now.unionByName(facts(before).withColumn("n", -F.col("n")))


def _ids_in(run: str, first: int, last: int, longest: int) -> Column:
    """Return whether a row of a run, ``longest`` ids at most, may have ids of these ranges."""
    begin, end = first << _ID_BITS, ((last + 1) << _ID_BITS) - 1
    ids = F.col("id")
    return (F.col("run") == run) & (ids > begin - longest) & (ids <= end)


def _settling(records: DataFrame) -> DataFrame:
    """Return the rows of settlements and of sends that settle, cut at ranges of ids."""
    return _cut_at_ids(records.where(F.col("kind").isin(*_SETTLEMENTS)))


def _cut_at_ids(records: DataFrame) -> DataFrame:
    rows = records.select(
        *schema.RECORDS.fieldNames(),
        F.lit(True).alias("by_ids"),
        F.col("id").alias("key"),
        F.lit(0).cast("bigint").alias("high"),
        F.lit(_ID_BITS).alias("bits"),
    )
    pieces = cut_at_ranges(rows).withColumn("id", F.col("key"))
    return pieces.select(*schema.RECORDS.fieldNames(), "range")


def _intervals(ranges: set[int], most: int) -> list[tuple[int, int]]:
    """Return (first, last) of ranges that follow each other, all in one if these are too many."""
    found: list[tuple[int, int]] = []
    for number in sorted(ranges):
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found if len(found) <= most else [(found[0][0], found[-1][1])]


def _any(conditions: Sequence[Column]) -> Column:
    """Return whether one of many conditions holds, as a tree that is not deep."""
    if not conditions:
        return F.lit(False)
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return _any(conditions[:half]) | _any(conditions[half:])
