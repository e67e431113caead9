"""Delivery truth: what became of each message between sender and receiver.

With message ids (record formats v1 and v2) every count is exact. Without ids
(v3) messages are told apart by their send time only: sends and receipts are
compared per tick of the coarser clock, which gives lower bounds, because a loss
and a duplicate within one tick cancel out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.distribution import Distribution, Int64Array
from quiver_fast.analysis.key_runs import KeyCounts, UInt64Array, as_keys, disjoint, split_at
from quiver_fast.analysis.merging import Merging
from quiver_fast.analysis.units import PER_SECOND

if TYPE_CHECKING:
    from quiver_fast.analysis.local import FileAnalysis
    from quiver_fast.records.transfers import RunBatch

__all__ = ["BY_IDS", "BY_TIMES", "Order", "Reconciliation", "SendOrder", "receiver_alone"]

BY_IDS = "ids"
BY_TIMES = "per-millisecond lower bound"
_BY_FINER_TIMES = {
    "ms": BY_TIMES,
    "us": "per-microsecond lower bound",
    "ns": "per-nanosecond lower bound",
}
# Ids that are looked at one by one at a time, where they do not simply count up.
_SINGLE_IDS = 1 << 17


class Order:
    """Counts arrivals whose position in sending order is below that of an earlier arrival."""

    def __init__(self) -> None:
        self.behind = 0
        self._furthest: int | None = None

    def add(self, positions: Int64Array, lengths: Int64Array, counts: Int64Array) -> None:
        """Add arrivals in their order: at each position ``counts`` of them, ``lengths`` times.

        Args:
            positions: int64, the first position of each row, which then counts up.
            lengths: int64, positions in the row, at least 1.
            counts: int64, arrivals at each of these positions.
        """
        if len(positions) == 0:
            return
        start = int(positions[0]) if self._furthest is None else self._furthest
        ends = positions + (lengths - 1)
        if positions[0] >= start and bool(np.all(positions[1:] >= ends[:-1])):
            self._furthest = int(ends[-1])  # in order, as nearly always
            return
        furthest = np.maximum.accumulate(np.append(start, ends))
        below = np.clip(furthest[:-1] - positions, 0, lengths)
        self.behind += int((below * counts).sum())
        self._furthest = int(furthest[-1])


class SendOrder:
    """The ids of a sender in the order of its records; one row where they count up."""

    def __init__(self) -> None:
        self._firsts: list[UInt64Array] = []
        self._lengths: list[UInt64Array] = []

    def add(self, firsts: UInt64Array, lengths: UInt64Array) -> None:
        """Add id runs, in order, that follow those before."""
        if len(firsts) == 0:
            return
        starts = np.flatnonzero(np.append(True, firsts[1:] != firsts[:-1] + lengths[:-1]))
        firsts, lengths = firsts[starts], np.add.reduceat(lengths, starts)
        if self._firsts and self._firsts[-1][-1] + self._lengths[-1][-1] == firsts[0]:
            self._lengths[-1][-1] += lengths[0]
            firsts, lengths = firsts[1:], lengths[1:]
        if len(firsts):
            self._firsts.append(firsts)
            self._lengths.append(lengths)

    def positions(self) -> tuple[UInt64Array, UInt64Array, Int64Array]:
        """Return (first id, number of ids, position of the first send of the first id).

        Rows do not overlap and ascend by id; positions count the sends from 0.
        """
        none = np.empty(0, np.uint64)
        firsts = np.concatenate([none, *self._firsts])
        lengths = np.concatenate([none, *self._lengths])
        before = np.cumsum(lengths) - lengths
        firsts, lengths, origin, offset = disjoint(firsts, lengths)
        return firsts, lengths, (before[origin] + offset).astype(np.int64)


class Reconciliation:
    """Compares a receiver's records, batch by batch, with those of its sender.

    Args:
        sender: the sender's analysis, kept for reconciling.
    """

    def __init__(self, sender: FileAnalysis) -> None:
        self._sender = sender
        self._received = self._foreign = self._negative = 0
        self._order = Order()
        self._unit = "ms"  # of an end without records
        self._by_ids = False
        self._ticks = Merging(Distribution.none(), Distribution.merged, len)
        self._ids = Merging(KeyCounts.none(), KeyCounts.merged, len)
        self._end_of_ids = np.uint64(0)
        self._sent_ticks = Distribution.none()
        self._sent_ids = self._positions = (np.empty(0, np.uint64),) * 2
        self._sent_at = np.empty(0, np.int64)
        self._started = False

    def add(self, batch: RunBatch, time_unit: str) -> None:
        """Add the receiver's next records.

        Args:
            batch: runs in the order of the file.
            time_unit: the unit of the receiver's times.
        """
        self._by_ids = batch.ids is not None and self._sender.ids is not None
        if len(batch) == 0 or batch.received is None:
            return
        if not self._started:
            self._start(time_unit)
        self._received += int(batch.count.sum())
        ticks = PER_SECOND[time_unit] // PER_SECOND[self._unit]
        stamped = batch.sent if ticks == 1 else batch.sent // ticks
        negative = batch.received < batch.sent
        first = self._first_send()
        own = stamped >= first if first is not None else np.zeros(len(batch), np.bool_)
        self._foreign += int(batch.count[~own].sum())
        if self._by_ids and batch.ids is not None:
            self._add_ids(as_keys(batch.ids[own]), as_keys(batch.count[own]), negative[own])
        else:
            self._add_ticks(stamped[own], batch.count[own], negative[own])

    def result(self) -> dict[str, Any]:
        """Return what became of the messages.

        With s(k) sends and r(k) receipts of key k (the id, or the send time where there
        are no ids on both sides):

        - ``method``: "ids", or "per-millisecond lower bound" (or per-microsecond,
          per-nanosecond, by the clock).
        - ``sent``, ``received``: number of records of each end.
        - ``foreign``: receipts with s(k) = 0, or sent before the sender's first send
          (left over from an earlier run). They are left out of all that follows.
        - ``lost``: sum over k of max(0, s(k) - r(k)).
        - ``duplicate``: sum over k of max(0, r(k) - s(k)).
        - ``reordered``: first arrivals that were sent before one that had already arrived
          (without ids, all arrivals; RFC 4737, section 3.4: a duplicate is no reordering).
        - ``negative_latency``: receipts with receive time < send time (clock skew).
        """
        lost, duplicate = self._id_balance() if self._by_ids else self._tick_balance()
        return {
            "method": BY_IDS if self._by_ids else _BY_FINER_TIMES[self._unit],
            "sent": self._sender.count,
            "received": self._received,
            "foreign": self._foreign,
            "lost": lost,
            "duplicate": duplicate,
            "reordered": self._order.behind,
            "negative_latency": self._negative,
        }

    def _start(self, time_unit: str) -> None:
        """Make ready what the receipts are looked up in, in the coarser unit of both ends."""
        self._started = True
        self._unit = min(self._sender.time_unit, time_unit, key=PER_SECOND.__getitem__)
        if self._by_ids:
            firsts, lengths, self._sent_at = self._sender.send_order.positions()
            self._positions = (firsts, firsts + lengths)
        else:
            self._sent_ticks = self._ticks_of_sender()

    def _first_send(self) -> int | None:
        first = self._sender.first_time
        if first is None:
            return None
        return first // (PER_SECOND[self._sender.time_unit] // PER_SECOND[self._unit])

    def _ticks_of_sender(self) -> Distribution:
        sends = self._sender.send_ticks
        ticks = PER_SECOND[self._sender.time_unit] // PER_SECOND[self._unit]
        return sends if ticks == 1 else Distribution.of_counted(sends.values // ticks, sends.counts)

    # ---- by times --------------------------------------------------------------------

    def _add_ticks(
        self, ticks: Int64Array, counts: Int64Array, negative: NDArray[np.bool_]
    ) -> None:
        known = self._sends_at(ticks) > 0
        self._foreign += int(counts[~known].sum())
        self._negative += int(counts[known & negative].sum())
        ticks, counts = ticks[known], counts[known]
        self._order.add(ticks, np.ones(len(ticks), np.int64), counts)
        self._ticks.add(Distribution.of_counted(ticks, counts))

    def _sends_at(self, ticks: Int64Array) -> Int64Array:
        sends = self._sent_ticks
        if len(sends) == 0:
            return np.zeros(len(ticks), np.int64)
        places = np.minimum(np.searchsorted(sends.values, ticks), len(sends) - 1)
        return np.where(sends.values[places] == ticks, sends.counts[places], 0)

    def _tick_balance(self) -> tuple[int, int]:
        sends = self._sent_ticks if self._started else self._ticks_of_sender()
        receipts = self._ticks.total()
        balance = sends.counts.copy()
        balance[np.searchsorted(sends.values, receipts.values)] -= receipts.counts
        return int(balance[balance > 0].sum()), int(-balance[balance < 0].sum())

    # ---- by ids ----------------------------------------------------------------------

    def _add_ids(
        self, firsts: UInt64Array, lengths: UInt64Array, negative: NDArray[np.bool_]
    ) -> None:
        starts, ends = self._positions
        borders = np.unique(np.concatenate((starts, ends)))
        firsts, lengths, origin = split_at(firsts, lengths, borders)
        rows = np.searchsorted(starts, firsts, "right") - 1
        known = rows >= 0
        known[known] = firsts[known] < ends[rows[known]]
        counts = lengths.astype(np.int64)
        self._foreign += int(counts[~known].sum())
        self._negative += int(counts[known & negative[origin]].sum())
        self._arrive(firsts[known], lengths[known])

    def _arrive(self, firsts: UInt64Array, lengths: UInt64Array) -> None:
        """Take receipts of ids that were sent, cut so that their positions count up."""
        if len(firsts) == 0:
            return
        follow = firsts[1:] >= firsts[:-1] + lengths[:-1]
        if firsts[0] >= self._end_of_ids and np.all(follow):
            self._first_arrivals(firsts, lengths)
            self._ids.add(KeyCounts.of(firsts, lengths))
        else:
            self._arrive_singly(firsts, lengths)
        self._end_of_ids = max(self._end_of_ids, (firsts + lengths).max())

    def _arrive_singly(self, firsts: UInt64Array, lengths: UInt64Array) -> None:
        borders = np.cumsum(lengths)
        total = int(borders[-1])
        for start in range(0, total, _SINGLE_IDS):
            index = np.arange(start, min(start + _SINGLE_IDS, total), dtype=np.uint64)
            rows = np.searchsorted(borders, index, "right")
            keys = firsts[rows] + (index - (borders - lengths)[rows])
            _, earliest = np.unique(keys, return_index=True)
            fresh = keys[np.sort(earliest)]
            seen = sum((part.at(fresh) for part in self._ids.parts), np.zeros(len(fresh), np.int64))
            fresh = fresh[seen == 0]
            self._first_arrivals(fresh, np.ones(len(fresh), np.uint64))
            self._ids.add(KeyCounts.of(keys, np.ones(len(keys), np.uint64)))

    def _first_arrivals(self, firsts: UInt64Array, lengths: UInt64Array) -> None:
        starts = self._positions[0]
        rows = np.searchsorted(starts, firsts, "right") - 1
        positions = self._sent_at[rows] + (firsts - starts[rows]).astype(np.int64)
        counts = lengths.astype(np.int64)
        self._order.add(positions, counts, np.ones(len(counts), np.int64))

    def _id_balance(self) -> tuple[int, int]:
        sends = self._sender.ids or KeyCounts.none()
        receipts = self._ids.total()
        balance = sends.merged(KeyCounts(receipts.edges, -receipts.steps))
        lengths = np.diff(balance.edges).astype(np.int64)
        levels = np.cumsum(balance.steps)[:-1]
        over, under = levels > 0, levels < 0
        lost = int((lengths[over] * levels[over]).sum())
        return lost, -int((lengths[under] * levels[under]).sum())


def receiver_alone(receiver: FileAnalysis) -> dict[str, Any]:
    """Return what a receiver's records alone can tell; unknown counts are None.

    The keys are those of :meth:`Reconciliation.result`. Ids are compared among
    themselves: ``duplicate`` is the number of repeated ids. ``reordered`` counts arrivals
    with a send time smaller than that of an earlier arrival, which is a lower bound.
    """
    ids = receiver.ids
    return {
        "method": BY_IDS if ids is not None else _BY_FINER_TIMES[receiver.time_unit],
        "sent": None,
        "received": receiver.count,
        "foreign": None,
        "lost": None,
        "duplicate": None if ids is None else receiver.count - ids.distinct,
        "reordered": receiver.reordered,
        "negative_latency": receiver.latencies.below(0),
    }
