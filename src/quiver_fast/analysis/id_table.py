"""Message ids by the thousand million: how often each occurs, and when first.

Ids that senders count up make runs (:mod:`quiver_fast.analysis.key_runs`), a row each.
Rows are cut into blocks of ids, by which they are sorted, so that however the ids of two
ends are scattered, those of one block meet in memory, and the rest can be in files.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.key_runs import UInt64Array, as_keys, split_at
from quiver_fast.analysis.order import Order
from quiver_fast.analysis.sorted_rows import Rows, SortedRows, aligned
from quiver_fast.analysis.tally import joined_runs

__all__ = ["IdTable", "balance", "cut_blocks"]

Int64Array = NDArray[np.int64]

_BLOCK_BITS = 16
_BLOCK, _FIRST, _LENGTH, _ORDER, _COUNT, _MARKED = range(6)


def cut_blocks(
    firsts: UInt64Array, lengths: UInt64Array
) -> tuple[Int64Array, UInt64Array, UInt64Array, NDArray[np.intp], Int64Array]:
    """Cut runs of ids where a block of ids ends.

    Returns:
        (block, first id, length, origin, offset) of the pieces, those of a run in its
        order; ``origin`` tells the run that each was cut from, ``offset`` how far into it.
    """
    bits = np.uint64(_BLOCK_BITS)
    blocks = firsts >> bits
    pieces = ((firsts + (lengths - np.uint64(1))) >> bits) - blocks + np.uint64(1)
    if len(firsts) and int(pieces.max()) == 1:
        nothing = np.zeros(len(firsts), np.int64)
        return blocks.view(np.int64), firsts, lengths, np.arange(len(firsts)), nothing
    origin = np.repeat(np.arange(len(firsts)), pieces.astype(np.int64))
    before = np.cumsum(pieces) - pieces
    block = blocks[origin] + np.arange(len(origin), dtype=np.uint64) - before[origin]
    starts = np.maximum(firsts[origin], block << bits)
    stops = np.minimum((firsts + lengths)[origin], (block + np.uint64(1)) << bits)
    offset = (starts - firsts[origin]).view(np.int64)
    return block.view(np.int64), starts, stops - starts, origin, offset


def _combined(rows: Rows) -> Rows:
    """Make of rows that overlap ones that do not, with counts added up, the first order kept."""
    firsts, lengths = rows[:, _FIRST].view(np.uint64), rows[:, _LENGTH].view(np.uint64)
    if len(rows) < 2 or bool(np.all(firsts[1:] >= firsts[:-1] + lengths[:-1])):
        return rows
    borders = np.unique(np.concatenate((firsts, firsts + lengths)))
    pieces, sizes, origin = split_at(firsts, lengths, borders)
    cut = rows[origin]
    cut[:, _FIRST], cut[:, _LENGTH] = pieces.view(np.int64), sizes.view(np.int64)
    cut[:, _ORDER] += (pieces - firsts[origin]).view(np.int64)
    cut = cut[np.argsort(pieces, kind="stable")]
    starts = np.flatnonzero(np.append(True, cut[1:, _FIRST] != cut[:-1, _FIRST]))
    found = cut[starts]
    found[:, _ORDER] = np.minimum.reduceat(cut[:, _ORDER], starts)
    for column in (_COUNT, _MARKED):
        found[:, column] = np.add.reduceat(cut[:, column], starts)
    return found


class IdTable:
    """The ids of one end, in the order of its records."""

    def __init__(self) -> None:
        self._rows = SortedRows(6, combine=_combined)
        self._seen = 0

    def add(
        self, ids: Int64Array, counts: Int64Array, marks: NDArray[np.bool_] | None = None
    ) -> None:
        """Add runs of ids that follow those before.

        Args:
            ids: int64[n], the first id of each run, which then counts up.
            counts: int64[n], ids in each run.
            marks: bool[n], whether to count the ids of the run as marked; None for no.
        """
        firsts, lengths, marked = joined_runs(as_keys(ids), as_keys(counts), marks)
        orders = self._seen + (np.cumsum(lengths) - lengths).astype(np.int64)
        self._seen += int(lengths.sum())
        block, firsts, lengths, origin, offset = cut_blocks(firsts, lengths)
        ones = np.ones(len(block), np.int64)
        flags = 0 * ones if marked is None else marked[origin].astype(np.int64)
        orders = orders[origin] + offset
        self._rows.add(block, firsts.view(np.int64), lengths.view(np.int64), orders, ones, flags)

    @property
    def distinct(self) -> int:
        """The number of different ids."""
        return sum(int(rows[:, _LENGTH].sum()) for rows in self._rows.chunks())

    def beside(self, other: IdTable) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows of both tables, those of one block in one pair, cut at equal ids."""
        for own, others in aligned(self._rows, other._rows):
            yield _cut_alike(own, others), _cut_alike(others, own)


def _cut_alike(rows: Rows, others: Rows) -> Rows:
    firsts, lengths = (others[:, column].view(np.uint64) for column in (_FIRST, _LENGTH))
    borders = np.unique(np.concatenate((firsts, firsts + lengths)))
    own = rows[:, _FIRST].view(np.uint64)
    pieces, sizes, origin = split_at(own, rows[:, _LENGTH].view(np.uint64), borders)
    cut = rows[origin]
    cut[:, _ORDER] += (pieces - own[origin]).view(np.int64)
    cut[:, _FIRST], cut[:, _LENGTH] = pieces.view(np.int64), sizes.view(np.int64)
    return cut


def balance(sent: IdTable, received: IdTable) -> dict[str, int]:
    """Compare the ids of a receiver, marked where the latency is negative, with its sender's.

    Returns:
        ``foreign``, ``lost``, ``duplicate``, ``reordered`` and ``negative_latency``, as
        :meth:`quiver_fast.analysis.delivery.Reconciliation.result` defines them.
    """
    found = dict.fromkeys(("foreign", "lost", "duplicate", "negative_latency"), 0)
    arrivals = SortedRows(3)
    for sends, receipts in sent.beside(received):
        known, places = _matches(receipts, sends)
        arrived, times = receipts[known], np.zeros(len(sends), np.int64)
        times[places] = arrived[:, _COUNT]
        missing = (sends[:, _COUNT] - times) * sends[:, _LENGTH]
        unknown = receipts[~known]
        found["foreign"] += int((unknown[:, _COUNT] * unknown[:, _LENGTH]).sum())
        found["lost"] += int(missing[missing > 0].sum())
        found["duplicate"] -= int(missing[missing < 0].sum())
        found["negative_latency"] += int((arrived[:, _MARKED] * arrived[:, _LENGTH]).sum())
        arrivals.add(arrived[:, _ORDER], sends[places, _ORDER], arrived[:, _LENGTH])
    return found | {"reordered": _reordered(arrivals)}


def _matches(rows: Rows, others: Rows) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Say which rows have one of the same ids among the others, and for these, where."""
    if len(others) == 0:
        return np.zeros(len(rows), np.bool_), np.empty(0, np.intp)
    places = np.minimum(np.searchsorted(others[:, _FIRST], rows[:, _FIRST]), len(others) - 1)
    known = others[places, _FIRST] == rows[:, _FIRST]
    return known, places[known]


def _reordered(arrivals: SortedRows) -> int:
    """Count first arrivals, (order of arrival, order of sending, ids), behind a later send."""
    order = Order()
    for rows in arrivals.chunks():
        order.add(rows[:, 1].copy(), rows[:, 2].copy(), None)
    return order.behind
