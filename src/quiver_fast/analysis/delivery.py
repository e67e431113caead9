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

from quiver_fast.analysis.distribution import Int64Array
from quiver_fast.analysis.id_table import IdTable, balance
from quiver_fast.analysis.order import Order
from quiver_fast.analysis.sorted_rows import SortedLookup, SortedRows, aligned, summed
from quiver_fast.analysis.units import PER_SECOND

if TYPE_CHECKING:
    from quiver_fast.analysis.local import FileAnalysis
    from quiver_fast.records.transfers import RunBatch

__all__ = ["BY_IDS", "BY_TIMES", "BY_TIMES_OF", "Reconciliation", "Ticks", "receiver_alone"]

BY_IDS = "ids"
BY_TIMES = "per-millisecond lower bound"
BY_TIMES_OF = {
    "ms": BY_TIMES,
    "us": "per-microsecond lower bound",
    "ns": "per-nanosecond lower bound",
}
_BALANCE = ("foreign", "lost", "duplicate", "reordered", "negative_latency")


class Ticks:
    """Messages per tick of a clock, in any number of ticks."""

    def __init__(self) -> None:
        self.rows = SortedRows(2, combine=summed)

    def add(self, ticks: Int64Array, counts: Int64Array) -> None:
        """Add ``counts`` messages at ``ticks`` (int64, equal lengths, any order)."""
        self.rows.add(ticks, counts)

    def coarser(self, factor: int) -> Ticks:
        """Return the same by a clock whose ticks are ``factor`` times as long."""
        if factor == 1:
            return self
        ticks = Ticks()
        for rows in self.rows.chunks():
            ticks.add(rows[:, 0] // factor, rows[:, 1])
        return ticks

    def balance(self, received: Ticks) -> tuple[int, int]:
        """Return (lost, duplicate) of sends per tick against receipts, all at known ticks."""
        lost = duplicate = 0
        for sends, receipts in aligned(self.rows, received.rows):
            missing = sends[:, 1].copy()
            missing[np.searchsorted(sends[:, 0], receipts[:, 0])] -= receipts[:, 1]
            lost += int(missing[missing > 0].sum())
            duplicate -= int(missing[missing < 0].sum())
        return lost, duplicate


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
        self._received_ids = IdTable()
        self._received_ticks = Ticks()
        self._sent_ticks = sender.send_ticks
        self._sends: SortedLookup | None = None

    def add(self, batch: RunBatch, time_unit: str) -> None:
        """Add the receiver's next records.

        Args:
            batch: runs in the order of the file.
            time_unit: the unit of the receiver's times.
        """
        self._by_ids = batch.ids is not None and self._sender.ids is not None
        if len(batch) == 0 or batch.received is None:
            return
        if self._received == 0:
            self._start(time_unit)
        self._received += int(batch.count.sum())
        ticks = PER_SECOND[time_unit] // PER_SECOND[self._unit]
        stamped = batch.sent if ticks == 1 else batch.sent // ticks
        negative = batch.received < batch.sent
        first = self._first_send()
        own = stamped >= first if first is not None else np.zeros(len(batch), np.bool_)
        self._foreign += int(batch.count[~own].sum())
        if self._by_ids and batch.ids is not None:
            self._received_ids.add(batch.ids[own], batch.count[own], negative[own])
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
        found = self._id_balance() if self._by_ids else self._tick_balance()
        return {
            "method": BY_IDS if self._by_ids else BY_TIMES_OF[self._unit],
            "sent": self._sender.count,
            "received": self._received,
            **{key: found[key] for key in _BALANCE},
        }

    def _start(self, time_unit: str) -> None:
        """Make ready what the receipts are looked up in, in the coarser unit of both ends."""
        self._unit = min(self._sender.time_unit, time_unit, key=PER_SECOND.__getitem__)
        if not self._by_ids:
            factor = PER_SECOND[self._sender.time_unit] // PER_SECOND[self._unit]
            self._sent_ticks = self._sender.send_ticks.coarser(factor)
            self._sends = SortedLookup(self._sent_ticks.rows)

    def _first_send(self) -> int | None:
        first = self._sender.first_time
        if first is None:
            return None
        return first // (PER_SECOND[self._sender.time_unit] // PER_SECOND[self._unit])

    def _id_balance(self) -> dict[str, int]:
        found = balance(self._sender.ids or IdTable(), self._received_ids)
        return found | {"foreign": self._foreign + found["foreign"]}

    def _add_ticks(
        self, ticks: Int64Array, counts: Int64Array, negative: NDArray[np.bool_]
    ) -> None:
        if self._sends is None:
            raise ValueError("receipts are looked up once the first has told their unit")
        known = self._sends.values(ticks) > 0
        self._foreign += int(counts[~known].sum())
        self._negative += int(counts[known & negative].sum())
        ticks, counts = ticks[known], counts[known]
        self._order.add(ticks, None, counts)
        self._received_ticks.add(ticks, counts)

    def _tick_balance(self) -> dict[str, int]:
        lost, duplicate = self._sent_ticks.balance(self._received_ticks)
        return {
            "foreign": self._foreign,
            "lost": lost,
            "duplicate": duplicate,
            "reordered": self._order.behind,
            "negative_latency": self._negative,
        }


def receiver_alone(receiver: FileAnalysis) -> dict[str, Any]:
    """Return what a receiver's records alone can tell; unknown counts are None.

    The keys are those of :meth:`Reconciliation.result`. Ids are compared among
    themselves: ``duplicate`` is the number of repeated ids. ``reordered`` counts arrivals
    with a send time smaller than that of an earlier arrival, which is a lower bound.
    """
    ids = receiver.ids
    return {
        "method": BY_IDS if ids is not None else BY_TIMES_OF[receiver.time_unit],
        "sent": None,
        "received": receiver.count,
        "foreign": None,
        "lost": None,
        "duplicate": None if ids is None else receiver.count - ids.distinct,
        "reordered": receiver.reordered,
        "negative_latency": receiver.latencies.below(0),
    }
