"""Joining the settlements of a split to its sends, as runs of ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.key_runs import UInt64Array, as_keys, disjoint, split_at
from quiver_fast.records.transfers import RunBatch

__all__ = ["Sends", "Settled", "located"]

Int64Array = NDArray[np.int64]


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
    def of(cls, batches: Sequence[RunBatch]) -> Sends:
        """Return the sends of batches; of an id that several have the earliest counts."""
        ids, counts, times = (
            np.concatenate([getattr(batch, name) for batch in batches])
            for name in ("ids", "count", "sent")
        )
        firsts, lengths, origin, _ = disjoint(as_keys(ids), as_keys(counts))
        return cls(firsts, firsts + lengths, times[origin])

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
    def of(cls, batches: Sequence[RunBatch]) -> Settled:
        """Return the settlements of batches."""
        ids, counts, times, sampled = (
            np.concatenate([getattr(batch, f"settled_{name}") for batch in batches])
            for name in ("ids", "count", "times", "sampled")
        )
        return cls(as_keys(ids), as_keys(counts), times, sampled.astype(np.bool_))

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
