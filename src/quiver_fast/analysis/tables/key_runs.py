"""Message ids as runs: ``firsts[i]``, ``firsts[i] + 1``, ... ``firsts[i] + lengths[i] - 1``.

Ids that senders count up make long runs, so that sets of a thousand million of them are
a handful of rows. Ids are unsigned here, because one past the largest may end a run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.distribution import Int64Array, distinct

UInt64Array = NDArray[np.uint64]


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
    borders = distinct(np.concatenate((firsts, firsts + lengths)))
    # Cut at every border, pieces are equal or do not overlap.
    pieces, sizes, origin = split_at(firsts, lengths, borders)
    _, earliest = np.unique(pieces, return_index=True)
    pieces, sizes, origin = pieces[earliest], sizes[earliest], origin[earliest]
    return pieces, sizes, origin, pieces - firsts[origin]
