"""The actions of a server's clients, and their judge: nothing lost, nothing twice, in order.

A history is a list of events in the order in which the clients noticed them. A server's
*life* is the time between two starts; an event has the life of its connection.

These rules must hold after any kill, stop or cut:

- a message that was accepted, or sent in a transaction that was committed, is received;
- one of a transaction that was rolled back is never received;
- a transaction takes effect completely or not at all, also if its client never learned its
  outcome;
- a removal that the server has confirmed is final;
- no two consumers have a message at once;
- a consumer gets the messages of a producer in the order of sending, except for
  redeliveries.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Key:
    """A message: the number-th of its producer, sent to a queue."""

    producer: int
    number: int
    queue: str


@dataclass
class Transaction:
    """A transaction's messages and removals.

    Args:
        life: of its connection.
        ended: number of events when its client discharged it, or gave up.
        committed: its outcome; None if nobody knows.
    """

    life: int
    sent: list[Key] = field(default_factory=list)
    removed: list[Key] = field(default_factory=list)
    ended: int = 0
    committed: bool | None = None


@dataclass(frozen=True)
class Event:
    """An event of a client.

    Args:
        kind: ``received``, ``let_go`` (released, or its consumer is gone, or its transaction
            is about to end) or ``removed`` (confirmed by the server).
        first: the server marks it as never delivered since its start.
    """

    kind: str
    key: Key
    consumer: int
    life: int
    first: bool = False


class History:
    """The events of all clients, which may be threads."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.accepted: set[Key] = set()
        self.transactions: list[Transaction] = []
        self._lock = threading.Lock()

    def note(self, kind: str, key: Key, consumer: int, life: int, *, first: bool = False) -> None:
        """Add an event."""
        with self._lock:
            self.events.append(Event(kind, key, consumer, life, first))

    def accept(self, key: Key) -> None:
        """Note that the server accepted a message."""
        with self._lock:
            self.accepted.add(key)

    def begin(self, life: int) -> Transaction:
        """Add a transaction, to be filled by its client."""
        transaction = Transaction(life)
        with self._lock:
            self.transactions.append(transaction)
        return transaction

    def end(self, transaction: Transaction, consumer: int) -> None:
        """Note that a transaction is about to end: its consumer loses the removed messages."""
        with self._lock:
            for key in transaction.removed:
                self.events.append(Event("let_go", key, consumer, transaction.life))
            transaction.ended = len(self.events)

    def faults(self, *, trunks: bool = False) -> list[str]:
        """Return the violations of the rules, in words.

        Args:
            trunks: whether there are several servers, each with its own lives. After a death
                both servers may have a message without an outcome: nothing is lost or half
                done, but a message may come again, and out of order.
        """
        if trunks:
            return [*_lost(self), *_half_there(self)]
        return [*_lost(self), *_torn(self), *_twice(self), *_held_twice(self), *_order(self)]


def _received(history: History) -> dict[Key, list[int]]:
    """Return the places in the history at which each message was received."""
    found: dict[Key, list[int]] = defaultdict(list)
    for place, event in enumerate(history.events):
        if event.kind == "received":
            found[event.key].append(place)
    return found


def _lost(history: History) -> list[str]:
    received = _received(history)
    committed = (t.sent for t in history.transactions if t.committed)
    wanted = history.accepted.union(*committed)
    return [f"lost: {key}" for key in sorted(wanted) if key not in received]


def _half_there(history: History) -> list[str]:
    """Judge messages of transactions: all or none are received, and none after a rollback."""
    received = _received(history)
    faults = []
    for transaction in history.transactions:
        there = {key in received for key in transaction.sent}
        if len(there) > 1:
            faults.append(f"half there: {transaction}")
        elif transaction.committed is False and True in there:
            faults.append(f"rolled back but there: {transaction}")
    return faults


def _torn(history: History) -> list[str]:
    """Judge transactions; a removal is undone if its message is received later."""
    received = _received(history)
    faults = _half_there(history)
    for transaction in history.transactions:
        there = {key in received for key in transaction.sent}
        undone = {_undone(history, transaction, received[key]) for key in transaction.removed}
        committed = transaction.committed
        if len(there) > 1:
            continue
        if committed is None and there:
            committed = True in there
        if committed is True and True in undone:
            faults.append(f"committed, but what it removed came again: {transaction}")
        elif committed is False and False in undone:
            faults.append(f"rolled back, but what it removed is gone: {transaction}")
        elif len(undone) > 1:
            faults.append(f"half removed: {transaction}")
    return faults


def _undone(history: History, transaction: Transaction, places: list[int]) -> bool:
    """Say whether a message was received after the end of the transaction that removes it.

    By a connection of an earlier life that would have been before, and was read late.
    """
    return any(
        place >= transaction.ended and history.events[place].life >= transaction.life
        for place in places
    )


def _twice(history: History) -> list[str]:
    """A message with a confirmed removal does not come again, by a connection of then or later."""
    removed: dict[Key, int] = {}
    faults = []
    for event in history.events:
        if event.kind == "removed":
            removed[event.key] = event.life
        elif event.kind == "received" and event.life >= removed.get(event.key, 1 << 60):
            faults.append(f"came again after its removal: {event}")
    return faults


def _held_twice(history: History) -> list[str]:
    holders: dict[Key, Event] = {}
    faults = []
    for event in history.events:
        if event.kind != "received":
            holders.pop(event.key, None)
            continue
        holder = holders.get(event.key)
        if holder is not None and holder.life == event.life:
            faults.append(f"held by two: {holder}, {event}")
        holders[event.key] = event
    return faults


def _order(history: History) -> list[str]:
    """Compare first deliveries only, because redeliveries may come at any time."""
    last: dict[tuple[int, int, str, int], Event] = {}
    faults = []
    for event in history.events:
        if not event.first:
            continue
        stream = (event.consumer, event.life, event.key.queue, event.key.producer)
        before = last.get(stream)
        if before is not None and before.key.number > event.key.number:
            faults.append(f"out of order: {before}, {event}")
        last[stream] = event
    return faults
