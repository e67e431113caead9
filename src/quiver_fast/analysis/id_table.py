"""Message ids by the thousand million: how often each occurs, and when first.

Ids that senders count up make runs (:mod:`quiver_fast.analysis.key_runs`), a row each.
Rows are cut into blocks of ids, by which they are sorted, so that however the ids of two
ends are scattered, those of one block meet in memory, and the rest can be in files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.key_runs import UInt64Array, as_keys, split_at
from quiver_fast.analysis.order import Order
from quiver_fast.analysis.sorted_rows import Rows, SortedRows, aligned
from quiver_fast.analysis.tally import joined_runs

__all__ = ["IdBalance", "IdTable", "balance", "cut_blocks"]

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


@dataclass(frozen=True, eq=False)
class IdBalance:
    """How the ids of a receiver compare with those of its sender.

    Attributes:
        unreceived: sends without a receipt.
        duplicate: receipts beyond the sends of their id.
        foreign: receipts of ids that were not sent.
        negative_latency: marked receipts of ids that were sent.
        unknown: (first id, ids), ascending: those of the foreign receipts.
        missing: (order of sending, ids): those of which nothing was received.
        arrivals: (order of arrival, order of sending, ids): the first receipts.
    """

    unreceived: int
    duplicate: int
    foreign: int
    negative_latency: int
    unknown: SortedRows
    missing: SortedRows
    arrivals: SortedRows

    @property
    def reordered(self) -> int:
        """First receipts of messages that were sent before one that had been received."""
        order = Order()
        for rows in self.arrivals.chunks():
            order.add(rows[:, 1].copy(), rows[:, 2].copy(), None)
        return order.behind

    @property
    def gaps(self) -> int:
        """Ids of which nothing was received, but of one that was sent later."""
        ends = [int((rows[:, 1] + rows[:, 2]).max()) for rows in self.arrivals.chunks()]
        latest = max(ends, default=0)
        missing = self.missing.chunks()
        return sum(int(np.clip(latest - rows[:, 0], 0, rows[:, 1]).sum()) for rows in missing)


def balance(sent: IdTable, received: IdTable) -> IdBalance:
    """Compare the ids of a receiver, marked where the latency is negative, with its sender's."""
    unreceived = duplicate = foreign = negative = 0
    unknown, missing, arrivals = SortedRows(2), SortedRows(2), SortedRows(3)
    for sends, receipts in sent.beside(received):
        known, places = _matches(receipts, sends)
        arrived, times = receipts[known], np.zeros(len(sends), np.int64)
        times[places] = arrived[:, _COUNT]
        left = (sends[:, _COUNT] - times) * sends[:, _LENGTH]
        unreceived += int(left[left > 0].sum())
        duplicate -= int(left[left < 0].sum())
        negative += int((arrived[:, _MARKED] * arrived[:, _LENGTH]).sum())
        strange, never = receipts[~known], sends[times == 0]
        foreign += int((strange[:, _COUNT] * strange[:, _LENGTH]).sum())
        unknown.add(strange[:, _FIRST], strange[:, _LENGTH])
        missing.add(never[:, _ORDER], never[:, _LENGTH])
        arrivals.add(arrived[:, _ORDER], sends[places, _ORDER], arrived[:, _LENGTH])
    return IdBalance(unreceived, duplicate, foreign, negative, unknown, missing, arrivals)


def _matches(rows: Rows, others: Rows) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Say which rows have one of the same ids among the others, and for these, where."""
    if len(others) == 0:
        return np.zeros(len(rows), np.bool_), np.empty(0, np.intp)
    places = np.minimum(np.searchsorted(others[:, _FIRST], rows[:, _FIRST]), len(others) - 1)
    known = others[places, _FIRST] == rows[:, _FIRST]
    return known, places[known]
