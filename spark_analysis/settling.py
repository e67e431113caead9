"""Joining the settlements of a split to its sends, as runs of ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.id_table import cut_blocks
from quiver_fast.analysis.key_runs import UInt64Array, as_keys, disjoint, split_at
from quiver_fast.analysis.sorted_rows import Rows, SortedRows, aligned
from quiver_fast.records.transfers import RunBatch

__all__ = ["Joined", "Sends", "Settled", "SplitJoin", "located"]

Int64Array = NDArray[np.int64]

# The columns of a row: the block of ids that it is sorted by, and a run of ids.
_FIRST, _LENGTH, _TIME, _SAMPLED = range(1, 5)


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


@dataclass(frozen=True, eq=False)
class Sends:
    """Sends as runs of ids that ascend and do not overlap.

    Attributes:
        firsts: the first id of each run.
        ends: the id after its last.
        times: its send time.
    """

    firsts: UInt64Array
    ends: UInt64Array
    times: Int64Array

    @classmethod
    def of(cls, rows: Rows) -> Sends:
        """Return the sends of rows; of an id that several have the earliest counts."""
        ids, counts = (as_keys(rows[:, column].copy()) for column in (_FIRST, _LENGTH))
        firsts, lengths, origin, _ = disjoint(ids, counts)
        return cls(firsts, firsts + lengths, rows[origin, _TIME])

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
        return Sends(pieces[left], (pieces + sizes)[left], self.times[origin[left]])


@dataclass(frozen=True, eq=False)
class Settled:
    """Runs of settlement lines with ids that count up and equal times and prefixes.

    Attributes:
        firsts: the first id of each run.
        lengths: its number of ids.
        times: its settlement time.
        sampled: whether the lines have the prefix ``S``.
    """

    firsts: UInt64Array
    lengths: UInt64Array
    times: Int64Array
    sampled: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Rows) -> Settled:
        """Return the settlements of rows."""
        ids, counts = (as_keys(rows[:, column].copy()) for column in (_FIRST, _LENGTH))
        return cls(ids, counts, rows[:, _TIME], rows[:, _SAMPLED] > 0)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.firsts)

    def cut(self, borders: UInt64Array) -> Settled:
        """Cut runs wherever a border lies inside of them."""
        firsts, lengths, origin = split_at(self.firsts, self.lengths, borders)
        return Settled(firsts, lengths, self.times[origin], self.sampled[origin])

    def only(self, rows: NDArray[np.bool_]) -> Settled:
        """Return the runs that ``rows`` says."""
        return Settled(self.firsts[rows], self.lengths[rows], self.times[rows], self.sampled[rows])


@dataclass(frozen=True, eq=False)
class Joined:
    """What a split says of the settlements of some blocks of ids.

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
            self._sends.add(*_rows(batch.ids, batch.count, batch.sent))
        if len(batch.settled_ids):
            sampled = batch.settled_sampled.astype(np.int64)
            columns = batch.settled_ids, batch.settled_count, batch.settled_times, sampled
            self._settled.add(*_rows(*columns))

    def parts(self) -> Iterator[Joined]:
        """Yield what was joined, by blocks of ids."""
        for sends, settled in aligned(self._sends, self._settled):
            own = Sends.of(sends)
            found, sent, late = own.match(Settled.of(settled))
            yield Joined(found, sent, late, own.without(found))


def _rows(ids: Int64Array, counts: Int64Array, *values: Int64Array) -> list[Int64Array]:
    """Return the columns of rows for runs of ids, cut where blocks end."""
    block, firsts, lengths, origin, _ = cut_blocks(as_keys(ids), as_keys(counts))
    numbers = [firsts.view(np.int64), lengths.view(np.int64)]
    return [block, *numbers, *(column[origin] for column in values)]
