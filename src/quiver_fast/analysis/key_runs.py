"""Message ids as runs: ``firsts[i]``, ``firsts[i] + 1``, ... ``firsts[i] + lengths[i] - 1``.

Ids that senders count up make long runs, so that sets of a thousand million of them are
a handful of rows. Ids are unsigned here, because one past the largest may end a run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["KeyCounts", "UInt64Array", "as_keys", "disjoint", "split_at"]

Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]

_NO_KEYS = np.empty(0, np.uint64)


def as_keys(ids: Int64Array) -> UInt64Array:
    """Return int64 numbers, none of them negative, as uint64 without a copy."""
    return ids.view(np.uint64)


def split_at(
    firsts: UInt64Array, lengths: UInt64Array, borders: UInt64Array
) -> tuple[UInt64Array, UInt64Array, NDArray[np.intp]]:
    """Cut runs wherever a border lies inside of them.

    Args:
        firsts: uint64[n], the first key of each run.
        lengths: uint64[n], at least 1.
        borders: uint64, ascending.

    Returns:
        (firsts, lengths, origin) of the m >= n pieces, those of a run in its order;
        ``origin`` tells the run that each was cut from.
    """
    ends = firsts + lengths
    after = np.searchsorted(borders, firsts, "right")
    pieces = np.searchsorted(borders, ends, "left") - after + 1
    pieces = np.maximum(pieces, 1)
    if int(pieces.sum()) == len(firsts):
        return firsts, lengths, np.arange(len(firsts))
    origin = np.repeat(np.arange(len(firsts)), pieces)
    within = np.arange(len(origin)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    border = borders[np.maximum(after[origin] + within - 1, 0)]
    starts = np.where(within == 0, firsts[origin], border)
    stops = np.append(starts[1:], ends[-1:])
    last = np.append(origin[1:] != origin[:-1], True)
    stops[last] = ends
    return starts, stops - starts, origin


def disjoint(
    firsts: UInt64Array, lengths: UInt64Array
) -> tuple[UInt64Array, UInt64Array, NDArray[np.intp], UInt64Array]:
    """Sort runs by key and keep of a key that several have only the earliest.

    Returns:
        (firsts, lengths, origin, offset) of runs that do not overlap, ascending, with the
        run that each was cut from, and how far into that run it begins.
    """
    if np.all(firsts[1:] >= firsts[:-1] + lengths[:-1]):
        return firsts, lengths, np.arange(len(firsts)), np.zeros(len(firsts), np.uint64)
    borders = np.unique(np.concatenate((firsts, firsts + lengths)))
    # Cut at every border, pieces are equal or do not overlap.
    pieces, sizes, origin = split_at(firsts, lengths, borders)
    _, earliest = np.unique(pieces, return_index=True)
    pieces, sizes, origin = pieces[earliest], sizes[earliest], origin[earliest]
    return pieces, sizes, origin, pieces - firsts[origin]


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """How often each key occurs: a step function over the keys.

    Attributes:
        edges: uint64, ascending, the keys at which the number of occurrences changes.
        steps: int64, by how much; never 0, and 0 in sum.
    """

    edges: UInt64Array
    steps: Int64Array

    @classmethod
    def none(cls) -> KeyCounts:
        """Return the counts of no keys."""
        return cls(_NO_KEYS, np.empty(0, np.int64))

    @classmethod
    def of(cls, firsts: UInt64Array, lengths: UInt64Array) -> KeyCounts:
        """Count the keys of runs."""
        ups = np.ones(len(firsts), np.int64)
        return cls._summed(np.concatenate((firsts, firsts + lengths)), np.concatenate((ups, -ups)))

    @classmethod
    def _summed(cls, edges: UInt64Array, steps: Int64Array) -> KeyCounts:
        if len(edges) == 0:
            return cls.none()
        order = np.argsort(edges, kind="stable")
        edges, steps = edges[order], steps[order]
        starts = np.flatnonzero(np.append(True, edges[1:] != edges[:-1]))
        sums = np.add.reduceat(steps, starts)
        changes = sums != 0
        return cls(edges[starts][changes], sums[changes])

    def __len__(self) -> int:
        """Return the number of steps: the memory that the counts take."""
        return len(self.edges)

    def merged(self, other: KeyCounts) -> KeyCounts:
        """Return the counts of both together."""
        return self._summed(
            np.concatenate((self.edges, other.edges)), np.concatenate((self.steps, other.steps))
        )

    def at(self, keys: UInt64Array) -> Int64Array:
        """Return how often each of ``keys`` occurs."""
        levels = np.append(0, np.cumsum(self.steps))
        found: Int64Array = levels[np.searchsorted(self.edges, keys, "right")]
        return found

    def pieces(self) -> tuple[UInt64Array, Int64Array, Int64Array]:
        """Return (first key, number of keys, occurrences of each) where there are any."""
        levels = np.cumsum(self.steps)[:-1]
        lengths = np.diff(self.edges).astype(np.int64)
        there = levels > 0
        return self.edges[:-1][there], lengths[there], levels[there]

    @property
    def distinct(self) -> int:
        """The number of different keys."""
        return int(self.pieces()[1].sum())
