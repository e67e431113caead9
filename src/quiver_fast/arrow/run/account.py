"""The account of an end: its counts, and the facts that prove a loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Account(NamedTuple):
    """The account of one end, or of all ends of a process.

    Attributes:
        sent, received: messages.
        older, foreign: messages that are not of this run: sent before it, and during it by others.
        accepted, rejected, released, modified: messages with that outcome.
        unsettled: messages without an outcome.
        aborted: messages that were not completed.
        transactions: those that were discharged.
        purged: messages that were taken to empty a queue.
        bytes: of the bodies of a stream.
        resent: copies of messages that were in doubt.
        replied: replies that were sent, by a responder.
        undelivered: replies that the peer did not accept.
        address: of the node; None over csp.
        first_refusal: the reason of the first message that was not accepted.
        queue_empty: the queue was read to its end; None where the end does not know.
        drained_at: when the drain began that showed the queue's end (monotonic ns), and whether
            the wrapper had said that no sender sends any more; None without such a drain.
        has_all_outcomes: no message of it can still reach a queue.
        sending_ns: nanoseconds from the begin of the schedule to its end; None without one.
        counts: the messages of each end, by its number; empty where there is one.
        replies: the replies that came to the process (`Replies.document`); None of no requester.
    """

    sent: int = 0
    received: int = 0
    older: int = 0
    foreign: int = 0
    accepted: int = 0
    rejected: int = 0
    released: int = 0
    modified: int = 0
    unsettled: int = 0
    aborted: int = 0
    transactions: int = 0
    purged: int = 0
    bytes: int = 0
    resent: int = 0
    replied: int = 0
    undelivered: int = 0
    address: str | None = None
    first_refusal: str = ""
    queue_empty: bool | None = None
    drained_at: tuple[int, bool] | None = None
    has_all_outcomes: bool = False
    sending_ns: int | None = None
    counts: tuple[int, ...] = ()
    replies: dict[str, Any] | None = None

    @property
    def refused(self) -> int:
        """The messages that were not accepted, of those with an outcome."""
        return self.rejected + self.released + self.modified

    @property
    def outcomes(self) -> dict[str, int]:
        """The counts that each report has, by name."""
        names = self._fields[: self._fields.index("purged")]
        return {name: getattr(self, name) for name in names}


def account_of_all(ends: Sequence[Account]) -> Account:
    """Return the account of several ends: a state holds where it is known to hold for each."""
    last = Account._fields.index("address")
    sums = [sum(column) for column in list(zip(*ends, strict=True))[:last]]
    empty = [one.queue_empty for one in ends]
    passed = [one.sending_ns for one in ends if one.sending_ns is not None]
    return Account(*sums)._replace(
        address=ends[0].address if ends else None,
        first_refusal=next((one.first_refusal for one in ends if one.first_refusal), ""),
        queue_empty=None if not ends or None in empty else all(empty),
        drained_at=_of_all_drains([one.drained_at for one in ends]),
        has_all_outcomes=all(one.has_all_outcomes for one in ends),
        replies=next((one.replies for one in ends), None),
        sending_ns=max(passed) if passed and len(passed) == len(ends) else None,
    )


def _of_all_drains(drains: Sequence[tuple[int, bool] | None]) -> tuple[int, bool] | None:
    known = [one for one in drains if one is not None]
    if not known or len(known) < len(drains):
        return None
    return min(begin for begin, _ in known), all(last for _, last in known)
