"""The delivery of messages: which were received, lost, received twice or out of order.

With message ids (record formats v1 and v2) every count is exact. Without ids
(v3) messages are told apart by their send time only: sends and receipts are
compared per tick of the coarser clock, which gives lower bounds, because a loss
and a duplicate within one tick cancel out.

A message that was not received need not be lost: it may still lie in a queue, also where a later
one was received. It is lost if the queue was found empty after all messages were in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.figures.ledger import can_be_told
from quiver_fast.analysis.figures.run_filter import Sieve
from quiver_fast.analysis.tables.id_table import IdBalance, IdTable, balance
from quiver_fast.analysis.tables.order import Order
from quiver_fast.analysis.tables.ticks import Ticks

if TYPE_CHECKING:
    from quiver_fast.analysis.figures.file_analysis import FileAnalysis
    from quiver_fast.analysis.figures.ledger_lines import LedgerSums
    from quiver_fast.analysis.model.bounds import RunBounds
    from quiver_fast.records.transfers import RunBatch

BY_IDS = "ids"
BY_TIMES = "per-millisecond lower bound"
BY_TIMES_OF = {
    "ms": BY_TIMES,
    "us": "per-microsecond lower bound",
    "ns": "per-nanosecond lower bound",
}
_MATCHING = {
    name: f"send times in {unit}: least possible counts" for unit, name in BY_TIMES_OF.items()
}
# Older and foreign messages are told apart by these.
_IDS = "ids"
_SEND_TIMES = "send times"
_RUN_START = "run start"


def lost_text(peer_to_peer: bool | None, word: str = "lost") -> str:
    """Return a word for lost messages, with what no drain of a queue can exclude."""
    return word if peer_to_peer else f"{word}, if neither the server nor another consumer has them"


def matching_text(method: str) -> str:
    """Return in words how sent and received messages are matched."""
    return _MATCHING.get(method, "message ids: exact counts")


class Reconciliation:
    """Compares a receiver's records, batch by batch, with those of its sender.

    Args:
        sender: the sender's analysis, kept for reconciling.
        run: the bounds of the run.
    """

    def __init__(self, sender: FileAnalysis, run: RunBounds) -> None:
        self._sender = sender
        self._run = run
        self._sieve = Sieve(run, sender)
        self._received = self._negative = 0
        self._order = Order()
        self._by_ids = False
        self._received_ids = IdTable()
        self._received_ticks = Ticks()
        self._balance: IdBalance | None = None
        self._end = 0

    def own(self, batch: RunBatch, time_unit: str) -> RunBatch:
        """Add the receiver's next records, and return those of messages of the run.

        Receipts of ids that the sender does not know are still among them: these are known
        at the end (:attr:`mixed`).

        Args:
            batch: runs in the order of the file.
            time_unit: the unit of the receiver's times.
        """
        self._by_ids = batch.ids is not None and self._sender.ids is not None
        batch = self._sieve.own(batch, time_unit)
        if len(batch) == 0 or batch.received is None:
            return batch
        self._received += int(batch.count.sum())
        negative = batch.received < batch.sent
        if self._by_ids and batch.ids is not None:
            self._received_ids.add(batch.ids, batch.count, negative, batch.ids_high)
            if self._sender.ledger is not None:
                self._sender.ledger.add_receipts(batch, time_unit, self._end)
        elif self._sieve.clock is not None:
            ticks = self._sieve.clock.stamps(batch.sent)
            self._negative += int(batch.count[negative].sum())
            self._order.add(ticks, None, batch.count)
            self._received_ticks.add(ticks, batch.count)
        return batch

    @property
    def mixed(self) -> bool:
        """Whether there are receipts of ids that the sender does not know.

        The end of the records is reached. They must go through :meth:`sieve` then, which
        has seen nothing yet: only now these ids are known.
        """
        return self._by_ids and self._ids().foreign > 0

    def sieve(self) -> Sieve:
        """Return the filter of the run's messages, at the end of the records."""
        return Sieve(self._run, self._sender, self._ids().unknown) if self.mixed else self._sieve

    def result(self) -> dict[str, Any]:
        """Return the counts of the delivery.

        With s(k) sends and r(k) own receipts of key k (the id, or the send time where there
        are no ids on both sides):

        Of a run whose receivers each get every message, r(k) counts for each receiver alone, and
        the sums are of all; ``copies`` are the receipts that there must be.

        - ``method``: "ids", or "per-millisecond lower bound" (or per-microsecond,
          per-nanosecond, by the clock).
        - ``sent``: the sender's records. ``received``: sum over k of r(k).
        - ``older``: receipts of messages with a send time before the sender's smallest, or
          whose send time is in another unit than the receiver's times. They, and
          ``foreign``, are left out of all else.
        - ``foreign``: other receipts with s(k) = 0.
        - ``unreceived``: sum over k of max(0, s(k) - r(k)), less the refused ones
          (:meth:`.bounds.RunBounds.not_rejected`).
        - ``lost``: those that cannot come any more (:meth:`.bounds.RunBounds.lost`); None where
          nobody knows.
        - ``released``, ``rejected``: those that the receiver refused, by its own count; they are
          missing where that is not known. Neither has a record: a released message comes again,
          and is received then. ``modified`` likewise, where that was asked for.
        - ``dead_lettered``: messages of the run in the dead-letter queue, if that was read.
        - ``filtered``, ``unmatched``: messages that the filter of the receiver leaves out, and
          those of them that were received all the same; the others are not among the
          ``unreceived``. They are missing without a filter, and None where nobody knows.
        - ``duplicate``: sum over k of max(0, r(k) - s(k)).
        - ``reordered``: first arrivals that were sent before one that had already arrived
          (RFC 4737, section 3.4: a duplicate is no reordering); without ids,
          :func:`least_reordered`.
        - ``negative_latency``: receipts with receive time < send time (clock skew).
        - ``told_apart_by``: what told older and foreign messages from own ones: "ids",
          "send times", or "run start" where the sender recorded nothing.
        """
        found = self._id_counts() if self._by_ids else self._tick_counts()
        return delivery_section(
            found | {"sent": self._sender.count, "older": self._sieve.older},
            by_ids=self._by_ids,
            unit="ms" if self._sieve.clock is None else self._sieve.clock.unit,
            run=self._run,
        )

    def ledger(self) -> LedgerSums | None:
        """Return the sums of the run's ledger; None where it has none, or messages have no ids."""
        lines = self._sender.ledger
        if lines is None or not can_be_told(self._sender, self._received, by_ids=self._by_ids):
            return None
        return lines.sums()

    def _ids(self) -> IdBalance:
        if self._balance is None:
            sent = self._sender.ids or IdTable()
            self._balance = balance(sent, self._received_ids, self._run.matching)
        return self._balance

    def _id_counts(self) -> dict[str, int]:
        found = self._ids()
        return {
            "received": self._received - found.foreign,
            "foreign": found.foreign,
            "unreceived": found.unreceived,
            "duplicate": found.duplicate,
            "reordered": found.reordered,
            "negative_latency": found.negative_latency,
            "filtered": found.filtered,
            "unmatched": found.unmatched,
        }

    def _tick_counts(self) -> dict[str, int]:
        clock = self._sieve.clock
        sends = self._sender.send_ticks if clock is None else clock.sends
        unreceived, duplicate = sends.balance(self._received_ticks)
        return {
            "received": self._received,
            "foreign": self._sieve.foreign,
            "unreceived": unreceived,
            "duplicate": duplicate,
            "reordered": self._order.behind,
            "negative_latency": self._negative,
        }


def delivery_section(
    counts: dict[str, int], *, by_ids: bool, unit: str, run: RunBounds
) -> dict[str, Any]:
    """Return the result of :meth:`Reconciliation.result`, from its counts.

    Args:
        counts: all counts but ``lost``; ``filtered`` and ``unmatched`` where there are ids.
        by_ids: whether messages were told apart by ids.
        unit: the coarser unit of both ends.
        run: the bounds of the run.
    """
    told = _IDS if by_ids else _SEND_TIMES
    if run.copies and not by_ids:
        # Nothing tells which copy a receipt is of.
        missing = run.due(counts["sent"]) - counts["received"]
        counts = counts | {"unreceived": max(missing, 0), "duplicate": max(-missing, 0)}
    filter_ = _filtered(counts, run, by_ids=by_ids)
    left_out = 0 if by_ids else filter_.get("filtered") or 0
    unreceived = run.not_rejected(max(counts["unreceived"] - left_out, 0))
    if counts["sent"] == 0 and run.run_start is not None:
        told = _RUN_START
    return {
        "method": BY_IDS if by_ids else BY_TIMES_OF[unit],
        "sent": counts["sent"],
        "received": counts["received"],
        "older": counts["older"],
        "foreign": counts["foreign"],
        "unreceived": unreceived,
        "lost": run.lost(unreceived),
        **filter_,
        "duplicate": counts["duplicate"],
        "reordered": counts["reordered"]
        if by_ids
        else least_reordered(counts["reordered"], counts["duplicate"]),
        "negative_latency": counts["negative_latency"],
        "told_apart_by": told,
        **({"copies": run.due(counts["sent"])} if run.copies else {}),
    } | _refused(run)


def _filtered(counts: dict[str, int], run: RunBounds, *, by_ids: bool) -> dict[str, Any]:
    """Return how many messages the receivers' filter leaves out, and which of them came.

    Without ids, the numbers of the messages are known of one sender: they go up to its count.
    """
    if not run.filtered:
        return {}
    if run.matching is None or not (by_ids or run.senders == 1):
        return {"filtered": None, "unmatched": None}
    if by_ids:
        return {key: counts[key] for key in ("filtered", "unmatched")}
    return {"filtered": counts["sent"] - run.matching.of_first(counts["sent"]), "unmatched": None}


def least_reordered(behind: int, duplicate: int) -> int:
    """Return how many messages came out of order, at least, where messages have no ids.

    Args:
        behind: arrivals that were sent before one that had already arrived.
        duplicate: arrivals of messages that had arrived: each may be one of those.
    """
    return max(behind - duplicate, 0)


def _refused(run: RunBounds) -> dict[str, Any]:
    if run.released is None and run.rejected is None:
        return {}
    asked = {"modified": run.modified, "dead_lettered": run.dead_lettered}
    known = {key: count for key, count in asked.items() if count is not None}
    return {"released": run.released, "rejected": run.rejected} | known


def receiver_alone(receiver: FileAnalysis, run: RunBounds) -> dict[str, Any]:
    """Return the delivery as far as a receiver's records tell; unknown counts are None.

    The keys are those of :meth:`Reconciliation.result`. Ids are compared among
    themselves: ``duplicate`` is the number of repeated ids. ``reordered`` is
    :func:`least_reordered`; without ids it has late duplicates, which nothing tells apart.
    ``older`` messages are those from before the start of the run, where that is known; the
    clocks of both hosts are taken for equal then.
    """
    ids = receiver.ids
    duplicate = None if ids is None else receiver.count - ids.distinct
    told = _RUN_START if run.run_start is not None else None
    return {
        "method": BY_IDS if ids is not None else BY_TIMES_OF[receiver.time_unit],
        "sent": None,
        "received": receiver.count,
        "older": receiver.older if told or receiver.older else None,
        "foreign": None,
        "unreceived": None,
        "lost": None,
        "duplicate": duplicate,
        "reordered": least_reordered(receiver.reordered, duplicate or 0),
        "negative_latency": receiver.latencies.below(0),
        "told_apart_by": told,
    } | _refused(run)
