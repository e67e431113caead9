"""The options and the outcome of a run, as far as its results depend on them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from quiver_fast.analysis.model.matching import Matching, has_filter, matching_of
from quiver_fast.arrivals import Arrivals
from quiver_fast.body_sizes import mean_body, parse_body_size
from quiver_fast.errors import UsageError
from quiver_fast.rate_steps import (
    Piece,
    RateStep,
    billionths,
    exact_rate,
    messages_due,
    parse_arrivals,
    parse_rate_steps,
    parts_due,
    schedule_of,
    times_due,
    times_of_parts,
)

# A unit of the positions of arrivals, in billionths of a message.
_MILLIONTH = 1000


@dataclass(frozen=True)
class Sending:
    """The schedule that a sender was to follow, and how far its arrow followed it.

    Attributes:
        asked: the schedule, as `quiver_fast.rate_steps.schedule_of` has it; not empty.
        arrivals: those of each end of the arrow, if messages come at random distances.
        late_us: how late messages left, by percentile, in microseconds; None from arrows that do
            not tell.
        reported_ns: nanoseconds from the begin of the schedule until the arrow stopped; likewise.
        late_by_us: `late_us` of each part of these delays, by its cause; likewise.
        over_time: these delays over the run, and how many messages left; likewise.
    """

    asked: tuple[Piece, ...]
    arrivals: tuple[Arrivals, ...] = ()
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
        return cls(tuple(asked), _arrivals(config), *told)

    def messages_due(self, elapsed: int) -> int:
        """Return how many messages are due ``elapsed`` nanoseconds after the begin."""
        if not self.arrivals:
            return messages_due(self.asked, elapsed)
        return self._arrived(parts_due(self.asked, elapsed) // self._unit)

    def times_due(self, indices: Sequence[int]) -> list[int]:
        """Return when messages are due, by their ascending numbers from 0: nanoseconds after."""
        if not self.arrivals:
            return times_due(self.asked, indices)
        parts = (one * self._unit for one in self._positions(indices))
        return times_of_parts(self.asked, parts)

    def end_of(self, count: int) -> int:
        """Return when the next message would be due after ``count`` of them, in nanoseconds.

        Ends with random distances have shares of the count, and the slowest one ends last.
        """
        if not self.arrivals:
            return times_due(self.asked, [count])[0]
        whole, more = divmod(count, len(self.arrivals))
        last = max(one.position(whole + (at < more)) for at, one in enumerate(self.arrivals))
        return times_of_parts(self.asked, [last * self._unit])[0]

    @property
    def _unit(self) -> int:
        return _MILLIONTH * len(self.arrivals)

    def _arrived(self, position: int) -> int:
        return sum(one.count_until(position) for one in self.arrivals)

    def _positions(self, indices: Sequence[int]) -> list[int]:
        if len(self.arrivals) == 1:
            return [self.arrivals[0].position(index) for index in indices]
        first, last = self._position(indices[0]), self._position(indices[-1])
        before = self._arrived(first - 1)
        near = sorted(chain.from_iterable(one.between(first, last) for one in self.arrivals))
        return [near[index - before] for index in indices]

    def _position(self, index: int) -> int:
        """Return the position of a message among those of all ends."""
        most = 1
        while self._arrived(most) <= index:
            most *= 2
        return bisect_left(range(most), index + 1, key=self._arrived)


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
        emptied: whether it is proven that the queue was read to its end (:func:`was_emptied`).
        peer_to_peer: whether no server was between the ends; None likewise.
        warmup: seconds from the first message that are in no figure; 0 for none.
        sending: the sender's schedule; None for as fast as can be.
        refused: messages that the peer did not accept, by the sender's report.
        released: deliveries that the receiver gave back, to come again; None where not known.
        rejected: messages that it refused, of which there are no records; likewise.
        modified: deliveries that it answered with modified; None where it was not asked to.
        undeliverable: those of ``modified`` that do not come to it again.
        dead_lettered: messages of the run in its dead-letter queue; None where nobody looked.
        backlog: messages with which the sender filled the queue before its schedule began.
        steps: rates that follow each other, of all senders; none without such.
        body_bytes: the mean size of a body; None where not known.
        aborted: those of ``refused`` that are streams which ended too early.
        failures: the lost connections of all ends, as their summaries have them; ``ends`` are
            numbers among all of a side, and ``sends`` says which. None where arrows do not
            connect again.
        faults: those that were injected, as the summary of the sender has them.
        copies: the receivers that were each to get every message; 0 where they share them.
        filtered: whether the receivers have a filter.
        matching: which messages it lets through; None where that is not known.
        senders: how many there are.
        replies: the counts of a requester's report (:mod:`.request_reply`); None of no requester.
    """

    run_start: int | None = None
    duration: float = 0
    count: int = 0
    credit_window: int = 0
    complete: bool | None = None
    emptied: bool = False
    peer_to_peer: bool | None = None
    warmup: float = 0
    sending: Sending | None = None
    refused: int = 0
    released: int | None = None
    rejected: int | None = None
    modified: int | None = None
    undeliverable: int = 0
    dead_lettered: int | None = None
    backlog: int = 0
    steps: tuple[RateStep, ...] = ()
    body_bytes: float | None = None
    aborted: int = 0
    failures: tuple[dict[str, Any], ...] | None = None
    faults: tuple[dict[str, Any], ...] = ()
    copies: int = 0
    filtered: bool = False
    matching: Matching | None = None
    senders: int = 1
    replies: Mapping[str, Any] | None = None

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
            emptied=was_emptied([sender], [receiver]),
            peer_to_peer=None if mode is None else mode == "server",
            warmup=send.get("warmup") or receive.get("warmup") or 0,
            sending=Sending.of(sender),
            refused=_refused(sender),
            released=report.get("released"),
            rejected=report.get("rejected"),
            modified=report.get("modified") if receive.get("modify") else None,
            undeliverable=undeliverable(receiver),
            dead_lettered=((receiver or {}).get("dead_letters") or {}).get("count"),
            backlog=send.get("backlog") or 0,
            steps=parse_rate_steps("" if send.get("backlog") else send.get("rate_steps") or ""),
            body_bytes=_body_bytes(send),
            aborted=((sender or {}).get("arrow") or {}).get("aborted") or 0,
            failures=all_failures(map(_failures, (sender, receiver))),
            faults=tuple((sender or {}).get("faults") or ()),
            filtered=has_filter(receive),
            matching=matching_of(sender, receiver),
            replies=((sender or {}).get("arrow") or {}).get("request_reply"),
        )

    def due(self, sent: int) -> int:
        """Return how many receipts there must be of so many messages."""
        return sent * (self.copies or 1)

    def not_rejected(self, missing: int) -> int:
        """Return how many messages without a receipt are left when the refused ones are told.

        A dead-letter queue may have more than the receivers refused for good: a server moves
        messages there after too many failed attempts.
        """
        refused = (self.rejected or 0) + self.undeliverable
        return max(missing - max(refused, self.dead_lettered or 0), 0)

    def lost(self, unreceived: int, refused: int | None = None) -> int | None:
        """Return how many of the unreceived messages are lost; None where that is not known.

        Those that the peer refused are not: it never had them. Others are if none can still come.

        Args:
            unreceived: messages.
            refused: of these and of others; None for ``refused`` of the run.
        """
        refused = self.due(self.refused) if refused is None else refused
        least = max(unreceived - refused, 0)
        # A router gives the sender the outcomes of the receiver, whose rejected messages are not
        # among the unreceived any more.
        most = max(unreceived - max(refused - (self.rejected or 0), 0), 0)
        alone = self.peer_to_peer is True and self.complete is True
        # A drain says what is there for a filter, and no proof: ActiveMQ Classic looks at the
        # first messages of a queue only.
        known = not self.filtered and least == most and (self.emptied or alone)
        return least if most == 0 or known else None


def undeliverable(receiver: Mapping[str, Any] | None) -> int:
    """Return how many messages a receiver called undeliverable-here, by its summary."""
    told = receiver or {}
    modified: int = (told.get("arrow") or {}).get("modified") or 0
    asked = (told.get("config") or {}).get("modify") or ""
    return modified if "undeliverable" in asked.split(":") else 0


Failures: TypeAlias = "tuple[dict[str, Any], ...] | None"


def all_failures(ends: Iterable[Failures]) -> Failures:
    """Return the failures of all ends; None where none of them connects again."""
    known = [failures for failures in ends if failures is not None]
    return tuple(chain.from_iterable(known)) if known else None


def _failures(summary: dict[str, Any] | None) -> Failures:
    told = (summary or {}).get("failures")
    if told is None:
        return None
    config = _config(summary)
    asked, sends = config.get("ends") or {}, config.get("operation") == "send"
    # An end that has a process of its own does not know its number.
    alone = {} if asked.get("members", 1) > 1 else {"ends": [asked.get("first", 0)] * 2}
    return tuple(one | {"sends": sends} | alone for one in told)


def was_emptied(
    senders: Sequence[dict[str, Any] | None], receivers: Sequence[dict[str, Any] | None]
) -> bool:
    """Say whether all queues were drained and found empty, after all messages were in them.

    Each drain must begin after the last outcome and the last commit of every sender. Messages that
    expire are missing though none is lost. Without a wrapper, receivers may have drained another
    queue.

    Args:
        senders: their summaries, see :meth:`RunBounds.of`.
        receivers: likewise.
    """
    if any(_config(one).get("ttl") for one in senders):
        return False
    settled = [_settled_at(one) for one in senders]
    drained = [((one or {}).get("arrow") or {}).get("drained_at") for one in receivers]
    alike = {_config(one).get("url") for one in (*senders, *receivers)}
    if len(alike) > 1 and not all(one is not None and one["senders_ended"] for one in drained):
        return False
    return bool(settled and drained) and all(
        one is not None and last is not None and _follows(one, last)
        for one in drained
        for last in settled
    )


def _settled_at(sender: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return when all messages of a sender were settled; empty where only its end tells that."""
    report = (sender or {}).get("arrow")
    if report is None:
        # An arrow of another implementation ends in order when it has all outcomes.
        return {} if (sender or {}).get("complete") else None
    found: dict[str, Any] | None = report.get("settled_at")
    return found


def _follows(drain: dict[str, Any], settled: dict[str, Any]) -> bool:
    if drain["senders_ended"]:
        return True
    # The clocks of two hosts, or of two boots, tell no order.
    known = drain["boot"] is not None and drain["boot"] == settled.get("boot")
    return known and bool(drain["ns"] >= settled["ns"])


def _arrivals(config: dict[str, Any]) -> tuple[Arrivals, ...]:
    seed = parse_arrivals(config.get("arrivals") or "")
    if seed is None:
        return ()
    members = range((config.get("ends") or {}).get("members", 1))
    return tuple(Arrivals(seed.number, seed.stream + one, at_once=one == 0) for one in members)


def _refused(sender: dict[str, Any] | None) -> int:
    report = (sender or {}).get("arrow") or {}
    return sum(report.get(name) or 0 for name in ("rejected", "released", "modified", "aborted"))


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
