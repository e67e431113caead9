"""The options and the outcome of a run, as far as its results depend on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quiver_fast.body_sizes import mean_body, parse_body_size
from quiver_fast.errors import UsageError
from quiver_fast.rate_steps import (
    Piece,
    RateStep,
    billionths,
    exact_rate,
    parse_rate_steps,
    schedule_of,
)


@dataclass(frozen=True)
class Sending:
    """The schedule that a sender was to follow, and how far its arrow followed it.

    Attributes:
        asked: the schedule, as `quiver_fast.rate_steps.schedule_of` has it; not empty.
        late_us: how late messages left, by percentile, in microseconds; None from arrows that do
            not tell.
        reported_ns: nanoseconds from the begin of the schedule until the arrow stopped; likewise.
        late_by_us: `late_us` of each part of these delays, by its cause; likewise.
        over_time: these delays over the run, and how many messages left; likewise.
    """

    asked: tuple[Piece, ...]
    late_us: dict[str, float] | None = None
    reported_ns: int | None = None
    late_by_us: dict[str, dict[str, float]] | None = None
    over_time: dict[str, Any] | None = None

    @classmethod
    def of(cls, sender: dict[str, Any] | None) -> Sending | None:
        """Return the schedule in the summary of a sender; None without a rate."""
        config = _config(sender)
        steps = parse_rate_steps(config.get("rate_steps") or "")
        asked = schedule_of(exact_rate(billionths(config.get("rate") or 0)), steps)
        report = ((sender or {}).get("arrow") or {}).get("schedule") or {}
        if not asked:
            return None
        told = (report.get(name) for name in ("late_us", "sending_ns", "late_by_us", "over_time"))
        return cls(tuple(asked), *told)


@dataclass(frozen=True)
class RunBounds:
    """The options of a run, and how it ended.

    Attributes:
        run_start: epoch milliseconds before which no message of the run was sent; None
            where that is not known.
        duration: seconds after which the sender was to stop; 0 for none.
        count: messages after which it was to stop; 0 for none.
        credit_window: the receiver's, in messages.
        complete: whether both ends ended in order; None where that is not known.
        queue_empty: whether the receiver read the queue to its end; None likewise.
        peer_to_peer: whether no server was between the ends; None likewise.
        warmup: seconds from the first message that are in no figure; 0 for none.
        sending: the sender's schedule; None for as fast as can be.
        released: deliveries that the receiver gave back, to come again; None where not known.
        rejected: messages that it refused, of which there are no records; likewise.
        backlog: messages with which the sender filled the queue before its schedule began.
        steps: rates that follow each other, of all senders; none without such.
        body_bytes: the mean size of a body; None where not known.
    """

    run_start: int | None = None
    duration: float = 0
    count: int = 0
    credit_window: int = 0
    complete: bool | None = None
    queue_empty: bool | None = None
    peer_to_peer: bool | None = None
    warmup: float = 0
    sending: Sending | None = None
    released: int | None = None
    rejected: int | None = None
    backlog: int = 0
    steps: tuple[RateStep, ...] = ()
    body_bytes: float | None = None

    @classmethod
    def of(cls, sender: dict[str, Any] | None, receiver: dict[str, Any] | None) -> RunBounds:
        """Return the bounds that the summaries of a run's ends tell.

        Args:
            sender: the sender's summary, or at least its ``config``, ``complete`` and
                ``arrow``; any of them, and the whole, may be None.
            receiver: the receiver's likewise.
        """
        send, receive = _config(sender), _config(receiver)
        flags = [None if end is None else end.get("complete") for end in (sender, receiver)]
        report = (receiver or {}).get("arrow") or {}
        mode = receive.get("connection_mode")
        return cls(
            run_start=receive.get("run_start"),
            duration=send.get("duration") or 0,
            count=send.get("count") or 0,
            credit_window=receive.get("credit_window") or 0,
            complete=False if False in flags else None if None in flags else True,
            queue_empty=report.get("queue_empty"),
            peer_to_peer=None if mode is None else mode == "server",
            warmup=send.get("warmup") or receive.get("warmup") or 0,
            sending=Sending.of(sender),
            released=report.get("released"),
            rejected=report.get("rejected"),
            backlog=send.get("backlog") or 0,
            steps=parse_rate_steps("" if send.get("backlog") else send.get("rate_steps") or ""),
            body_bytes=_body_bytes(send),
        )

    def not_rejected(self, missing: int) -> int:
        """Return how many messages without a receipt are left when the rejected ones are told."""
        return max(missing - (self.rejected or 0), 0)

    @property
    def read_to_end(self) -> bool:
        """Whether no message can still come: all that were not received are lost."""
        return self.queue_empty is True or (self.peer_to_peer is True and self.complete is True)


def _body_bytes(config: dict[str, Any]) -> float | None:
    if config.get("body_file") or config.get("body_size") is None:
        return None
    try:
        return mean_body(parse_body_size(str(config["body_size"])))
    except UsageError:
        return None


def _config(summary: dict[str, Any] | None) -> dict[str, Any]:
    return (summary or {}).get("config") or {}


NOTHING_KNOWN = RunBounds()
"""The bounds of records without a wrapper's summary."""
