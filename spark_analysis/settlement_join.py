"""Joining the settlements of a split to its sends, as runs of ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.tables.id_table import cut_blocks, keys_of
from quiver_fast.analysis.tables.key_runs import UInt64Array, as_keys, disjoint, split_at
from quiver_fast.analysis.tables.sorted_rows import Rows, SortedRows, aligned
from quiver_fast.records.transfers import RunBatch

# The columns of a row: the block of ids that it is sorted by, and a run of ids.
_BLOCK, _FIRST, _LENGTH, _TIME, _SAMPLED = range(5)


def located(
    keys: UInt64Array, firsts: UInt64Array, ends: UInt64Array
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Find keys in runs that ascend and do not overlap.

    Returns:
        (row, hit): whether each key is in a run, and in which; a row without a hit means
        nothing.
    """
    row = np.searchsorted(firsts, keys, "right") - 1
    hit = row >= 0
    hit[hit] = keys[hit] < ends[row[hit]]
    return row, hit


class IdNumbers:
    """Numbers by which the ids of some rows are compared, and the way back to the ids.

    Attributes:
        sent: of the first id of each row of sends.
        settled: of settlements likewise.
    """

    def __init__(self, sends: Rows, settled: Rows) -> None:
        self.sent, self.settled = keys_of(sends, settled)
        self._ids = np.concatenate((sends[:, :_LENGTH], settled[:, :_LENGTH]))

    def ids(self, numbers: UInt64Array) -> tuple[Int64Array | None, Int64Array]:
        """Return the upper halves, None where all are numbers, and the lower ones of ids."""
        high = np.minimum(self._ids[:, _BLOCK], 0)
        if not high.any():
            return None, numbers.view(np.int64)
        known = np.concatenate((self.sent, self.settled))
        order = np.argsort(known, kind="stable")
        # A number that begins no row is within the row that begins before it.
        row = order[np.searchsorted(known, numbers, "right", sorter=order) - 1]
        return high[row], self._ids[row, _FIRST] + (numbers - known[row]).view(np.int64)


@dataclass(frozen=True, eq=False)
class Sends:
    """Sends as runs of ids that ascend and do not overlap.

    Attributes:
        firsts: the first id of each run, as one of ``numbers``.
        ends: the id after its last.
        times: its send time.
        numbers: the ids of the numbers.
    """

    firsts: UInt64Array
    ends: UInt64Array
    times: Int64Array
    numbers: IdNumbers

    @classmethod
    def of(cls, rows: Rows, numbers: IdNumbers) -> Sends:
        """Return the sends of rows; of an id that several have the earliest counts."""
        firsts, lengths, origin, _ = disjoint(numbers.sent, as_keys(rows[:, _LENGTH].copy()))
        return cls(firsts, firsts + lengths, rows[origin, _TIME], numbers)

    @property
    def ids(self) -> tuple[Int64Array | None, Int64Array]:
        """Both halves of the first id of each run."""
        return self.numbers.ids(self.firsts)

    def match(self, settled: Settled) -> tuple[Settled, Int64Array, Settled]:
        """Return the settlements of these sends, the times of these, and the other ones."""
        settled = settled.cut(np.unique(np.concatenate((self.firsts, self.ends))))
        row, hit = located(settled.firsts, self.firsts, self.ends)
        return settled.only(hit), self.times[row[hit]], settled.only(~hit)

    def without(self, settled: Settled) -> Sends:
        """Return the sends that none of these settlements, all of them matched, are of."""
        firsts, lengths, _, _ = disjoint(settled.firsts, settled.lengths)
        ends = firsts + lengths
        borders = np.unique(np.concatenate((firsts, ends)))
        pieces, sizes, origin = split_at(self.firsts, self.ends - self.firsts, borders)
        left = ~located(pieces, firsts, ends)[1]
        times = self.times[origin[left]]
        return Sends(pieces[left], (pieces + sizes)[left], times, self.numbers)


@dataclass(frozen=True, eq=False)
class Settled:
    """Runs of settlement lines with ids that count up and equal times and prefixes.

    Attributes:
        firsts: the first id of each run, as one of ``numbers``.
        lengths: its number of ids.
        times: its settlement time.
        sampled: whether the lines have the prefix ``S``.
        numbers: the ids of the numbers.
    """

    firsts: UInt64Array
    lengths: UInt64Array
    times: Int64Array
    sampled: NDArray[np.bool_]
    numbers: IdNumbers

    @classmethod
    def of(cls, rows: Rows, numbers: IdNumbers) -> Settled:
        """Return the settlements of rows."""
        counts = as_keys(rows[:, _LENGTH].copy())
        return cls(numbers.settled, counts, rows[:, _TIME], rows[:, _SAMPLED] > 0, numbers)

    @property
    def ids(self) -> tuple[Int64Array | None, Int64Array]:
        """Both halves of the first id of each run."""
        return self.numbers.ids(self.firsts)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.firsts)

    def cut(self, borders: UInt64Array) -> Settled:
        """Cut runs wherever a border lies inside of them."""
        firsts, lengths, origin = split_at(self.firsts, self.lengths, borders)
        return replace(self.only(origin), firsts=firsts, lengths=lengths)

    def only(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Settled:
        """Return the runs that ``rows`` says, by mask or by number."""
        return replace(
            self,
            firsts=self.firsts[rows],
            lengths=self.lengths[rows],
            times=self.times[rows],
            sampled=self.sampled[rows],
        )


@dataclass(frozen=True, eq=False)
class Joined:
    """The settlements of some blocks of ids in a split.

    Attributes:
        found: settlements of ids that the split sends.
        sent: the send time of each of them.
        late: settlements of other ids.
        left: sends without a settlement.
    """

    found: Settled
    sent: Int64Array
    late: Settled
    left: Sends


class SplitJoin:
    """Joins the settlements of a split to its sends, in constant memory.

    Both are sorted by blocks of ids, in files where they are many: at low rates a split of
    256 MB has twelve million.
    """

    def __init__(self) -> None:
        self._sends = SortedRows(4)
        self._settled = SortedRows(5)

    def add(self, batch: RunBatch) -> None:
        """Add the split's next records, which are a sender's with ids."""
        if batch.ids is not None and len(batch):
            self._sends.add(*_rows(batch.ids, batch.ids_high, batch.count, batch.sent))
        if len(batch.settled_ids):
            sampled = batch.settled_sampled.astype(np.int64)
            ids = batch.settled_ids, batch.settled_ids_high
            self._settled.add(*_rows(*ids, batch.settled_count, batch.settled_times, sampled))

    def parts(self) -> Iterator[Joined]:
        """Yield the joined settlements, by blocks of ids."""
        for sends, settled in aligned(self._sends, self._settled):
            numbers = IdNumbers(sends, settled)
            own = Sends.of(sends, numbers)
            found, sent, late = own.match(Settled.of(settled, numbers))
            yield Joined(found, sent, late, own.without(found))


def _rows(
    ids: Int64Array, highs: Int64Array | None, counts: Int64Array, *values: Int64Array
) -> list[Int64Array]:
    """Return the columns of rows for runs of ids, cut where blocks end."""
    block, firsts, lengths, origin, _ = cut_blocks(as_keys(ids), as_keys(counts), highs)
    numbers = [firsts.view(np.int64), lengths.view(np.int64)]
    return [block, *numbers, *(column[origin] for column in values)]
