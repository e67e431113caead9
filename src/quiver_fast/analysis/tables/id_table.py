"""Message ids by the thousand million: how often each occurs, and when first.

Ids that senders count up make runs (:mod:`quiver_fast.analysis.tables.key_runs`), a row each.
Rows are cut into blocks of ids, by which they are sorted, so that however the ids of two
ends are scattered, those of one block meet in memory, and the rest can be in files. The
block of an id that is a hash (:mod:`quiver_fast.records.ids`) is its upper half, below 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.distribution import Int64Array, distinct
from quiver_fast.analysis.model.matching import Matching
from quiver_fast.analysis.tables.key_runs import UInt64Array, as_keys, split_at
from quiver_fast.analysis.tables.order import Order
from quiver_fast.analysis.tables.sorted_rows import Rows, SortedRows, aligned
from quiver_fast.analysis.tables.tally import joined_runs
from quiver_fast.records.ids import comparable

Marks: TypeAlias = "NDArray[np.bool_] | None"

_BLOCK_BITS = 16
# Calls with at most so many runs wait for the next calls, whose runs mostly continue the last
# one; so many are joined at a time.
_FEW_RUNS = 256
_MOST_WAITING = 4096
_BLOCK, _FIRST, _LENGTH, _ORDER, _COUNT, _MARKED = range(6)


def cut_blocks(
    firsts: UInt64Array, lengths: UInt64Array, highs: Int64Array | None = None
) -> tuple[Int64Array, UInt64Array, UInt64Array, NDArray[np.intp], Int64Array]:
    """Cut runs of ids where a block of ids ends.

    Args:
        firsts: uint64[n], the first id of each run.
        lengths: uint64[n], ids in each; of a hash 1.
        highs: int64[n], their upper halves; None for numbers throughout.

    Returns:
        (block, first id, length, origin, offset) of the pieces, those of a run in its
        order; ``origin`` tells the run that each was cut from, ``offset`` how far into it.
    """
    bits = np.uint64(_BLOCK_BITS)
    blocks = firsts >> bits
    pieces = ((firsts + (lengths - np.uint64(1))) >> bits) - blocks + np.uint64(1)
    if len(firsts) and int(pieces.max()) == 1:
        nothing = np.zeros(len(firsts), np.int64)
        whole = _with_hashes(blocks.view(np.int64), highs)
        return whole, firsts, lengths, np.arange(len(firsts)), nothing
    origin = np.repeat(np.arange(len(firsts)), pieces.astype(np.int64))
    before = np.cumsum(pieces) - pieces
    block = blocks[origin] + np.arange(len(origin), dtype=np.uint64) - before[origin]
    starts = np.maximum(firsts[origin], block << bits)
    stops = np.minimum((firsts + lengths)[origin], (block + np.uint64(1)) << bits)
    offset = (starts - firsts[origin]).view(np.int64)
    found = _with_hashes(block.view(np.int64), None if highs is None else highs[origin])
    return found, starts, stops - starts, origin, offset


def _with_hashes(blocks: Int64Array, highs: Int64Array | None) -> Int64Array:
    return blocks if highs is None else np.where(highs < 0, highs, blocks)


def keys_of(*tables: Rows) -> list[UInt64Array]:
    """Return the keys by which the first ids of the rows of these tables are compared."""
    return comparable(*((rows[:, _BLOCK], rows[:, _FIRST]) for rows in tables))


def share_blocks(rows: Rows) -> bool:
    """Say whether sorted rows have a block in common; hashes that differ have none."""
    return bool(np.any(rows[1:, _BLOCK] == rows[:-1, _BLOCK]))


def _combined(rows: Rows) -> Rows:
    """Make of rows that overlap ones that do not, with counts added up, the first order kept."""
    if not share_blocks(rows):
        return rows
    (firsts,), lengths = keys_of(rows), rows[:, _LENGTH].view(np.uint64)
    if bool(np.all(firsts[1:] >= firsts[:-1] + lengths[:-1])):
        return rows
    borders = distinct(np.concatenate((firsts, firsts + lengths)))
    pieces, sizes, origin = split_at(firsts, lengths, borders)
    cut = _cut(rows, origin, pieces - firsts[origin], sizes)
    ascending = np.argsort(pieces, kind="stable")
    cut, pieces = cut[ascending], pieces[ascending]
    starts = np.flatnonzero(np.append(True, pieces[1:] != pieces[:-1]))
    found = cut[starts]
    found[:, _ORDER] = np.minimum.reduceat(cut[:, _ORDER], starts)
    for column in (_COUNT, _MARKED):
        found[:, column] = np.add.reduceat(cut[:, column], starts)
    return found


def _cut(rows: Rows, origin: NDArray[np.intp], further: UInt64Array, sizes: UInt64Array) -> Rows:
    """Return the pieces of rows that begin ``further`` in them and have these sizes."""
    cut = rows[origin]
    cut[:, _FIRST] += further.view(np.int64)
    cut[:, _ORDER] += further.view(np.int64)
    cut[:, _LENGTH] = sizes.view(np.int64)
    return cut


class IdTable:
    """The ids of one end, in the order of its records."""

    def __init__(self) -> None:
        self._rows = SortedRows(6, combine=_combined)
        self._seen = 0
        self._waiting: list[tuple[UInt64Array, UInt64Array, Marks]] = []
        self._waiting_runs = 0

    def add(
        self, ids: Int64Array, counts: Int64Array, marks: Marks = None,
        highs: Int64Array | None = None,
    ) -> None:  # fmt: skip
        """Add runs of ids that follow those before.

        Args:
            ids: int64[n], the first id of each run, which then counts up.
            counts: int64[n], ids in each run.
            marks: bool[n], whether to count the ids of the run as marked; None for no.
            highs: int64[n], the upper halves of the ids; None for numbers throughout.
        """
        firsts, lengths, marked = as_keys(ids), as_keys(counts), marks
        if highs is None:
            firsts, lengths, marked = joined_runs(firsts, lengths, marks)
            if len(firsts) <= _FEW_RUNS:
                self._wait(firsts, lengths, marked)
                return
        self._take_waiting()
        self._add(firsts, lengths, marked, highs)

    def _wait(self, firsts: UInt64Array, lengths: UInt64Array, marked: Marks) -> None:
        """Keep a few runs for the next ones; all that wait have marks, or none has."""
        if self._waiting and (self._waiting[0][2] is None) != (marked is None):
            self._take_waiting()
        self._waiting.append((firsts, lengths, marked))
        self._waiting_runs += len(firsts)
        if self._waiting_runs >= _MOST_WAITING:
            self._take_waiting()

    def _take_waiting(self) -> None:
        if not self._waiting:
            return
        firsts, lengths, marks = zip(*self._waiting, strict=True)
        self._waiting, self._waiting_runs = [], 0
        marked = None if marks[0] is None else np.concatenate(marks)
        runs = joined_runs(np.concatenate(firsts), np.concatenate(lengths), marked)
        self._add(*runs, None)

    def _add(
        self, firsts: UInt64Array, lengths: UInt64Array, marked: Marks, highs: Int64Array | None
    ) -> None:
        orders = self._seen + (np.cumsum(lengths) - lengths).astype(np.int64)
        self._seen += int(lengths.sum())
        block, firsts, lengths, origin, offset = cut_blocks(firsts, lengths, highs)
        ones = np.ones(len(block), np.int64)
        flags = 0 * ones if marked is None else marked[origin].astype(np.int64)
        orders = orders[origin] + offset
        self._rows.add(block, firsts.view(np.int64), lengths.view(np.int64), orders, ones, flags)

    def mark(self) -> int:
        """Return how many ids have been added; no run goes on from them to ids added later."""
        self._take_waiting()
        return self._seen

    def _all(self) -> SortedRows:
        self._take_waiting()
        return self._rows

    @property
    def distinct(self) -> int:
        """The number of different ids."""
        return sum(int(rows[:, _LENGTH].sum()) for rows in self._all().chunks())

    def beside(self, other: IdTable) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows of both tables, those of one block in one pair, cut at equal ids."""
        for own, others in aligned(self._all(), other._all()):
            keys, others_keys = keys_of(own, others)
            yield (
                _cut_at(own, keys, others, others_keys),
                _cut_at(others, others_keys, own, keys),
            )


def _cut_at(rows: Rows, keys: UInt64Array, others: Rows, others_keys: UInt64Array) -> Rows:
    """Cut rows where those of another table begin and end."""
    ends = others_keys + others[:, _LENGTH].view(np.uint64)
    borders = distinct(np.concatenate((others_keys, ends)))
    pieces, sizes, origin = split_at(keys, rows[:, _LENGTH].view(np.uint64), borders)
    return _cut(rows, origin, pieces - keys[origin], sizes)


@dataclass(frozen=True, eq=False)
class IdBalance:
    """How the ids of a receiver compare with those of its sender.

    Attributes:
        unreceived: sends without a receipt, of messages that a filter lets through.
        duplicate: receipts beyond the sends of their id.
        foreign: receipts of ids that were not sent.
        negative_latency: marked receipts of ids that were sent.
        unknown: (block, first id, ids), ascending: those of the foreign receipts.
        arrivals: (order of arrival, order of sending, ids): the first receipts.
        filtered: sends that a filter leaves out.
        unmatched: messages of these that were received.
    """

    unreceived: int
    duplicate: int
    foreign: int
    negative_latency: int
    unknown: SortedRows
    arrivals: SortedRows
    filtered: int = 0
    unmatched: int = 0

    @property
    def reordered(self) -> int:
        """First receipts of messages that were sent before one that had been received."""
        order = Order()
        for rows in self.arrivals.chunks():
            order.add(rows[:, 1].copy(), rows[:, 2].copy(), None)
        return order.behind


def balance(sent: IdTable, received: IdTable, matching: Matching | None = None) -> IdBalance:
    """Compare the ids of a receiver, marked where the latency is negative, with its sender's.

    Args:
        sent: the ids of the sender.
        received: the ids of the receiver.
        matching: the messages that the receiver's filter lets through; None for all.
    """
    unreceived = duplicate = foreign = negative = filtered = unmatched = 0
    unknown, arrivals = SortedRows(3), SortedRows(3)
    for sends, receipts in sent.beside(received):
        known, places = _matches(receipts, sends)
        arrived, times = receipts[known], np.zeros(len(sends), np.int64)
        times[places] = arrived[:, _COUNT]
        left = sends[:, _COUNT] - times
        matches = wanted(sends, matching)
        others = sends[:, _LENGTH] - matches
        unreceived += int((np.maximum(left, 0) * matches).sum())
        filtered += int((sends[:, _COUNT] * others).sum())
        unmatched += int((np.minimum(sends[:, _COUNT], times) * others).sum())
        duplicate += int((np.maximum(-left, 0) * sends[:, _LENGTH]).sum())
        negative += int((arrived[:, _MARKED] * arrived[:, _LENGTH]).sum())
        strange = receipts[~known]
        foreign += int((strange[:, _COUNT] * strange[:, _LENGTH]).sum())
        unknown.add(strange[:, _BLOCK], strange[:, _FIRST], strange[:, _LENGTH])
        arrivals.add(arrived[:, _ORDER], sends[places, _ORDER], arrived[:, _LENGTH])
    return IdBalance(
        unreceived, duplicate, foreign, negative, unknown, arrivals, filtered, unmatched
    )


def wanted(rows: Rows, matching: Matching | None) -> Int64Array:
    """Return how many ids of each row match; a hash is no number of ours, and matches.

    Args:
        rows: block, first id and ids, and any more.
        matching: the messages that a filter lets through; None for all.
    """
    found: Int64Array = rows[:, _LENGTH].copy()
    if matching is not None:
        ours = rows[:, _BLOCK] >= 0
        numbers = rows[ours]
        found[ours] = matching.count(as_keys(numbers[:, _FIRST]), as_keys(numbers[:, _LENGTH]))
    return found


def _matches(rows: Rows, others: Rows) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Say which rows have one of the same ids among the others, and for these, where."""
    if len(others) == 0:
        return np.zeros(len(rows), np.bool_), np.empty(0, np.intp)
    keys, others_keys = keys_of(rows, others)
    places = np.minimum(np.searchsorted(others_keys, keys), len(others) - 1)
    known = others_keys[places] == keys
    return known, places[known]
