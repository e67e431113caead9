"""Whether a sender kept the rate that was asked of it, and which messages it never sent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from quiver_fast.analysis.figures.sender_rate import sending_ns
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.rate_steps import messages_due

if TYPE_CHECKING:
    from quiver_fast.analysis.figures.file_analysis import FileAnalysis
    from quiver_fast.analysis.model.bounds import RunBounds, Sending

# The share of due messages that may be missing: a run ends between two of them.
_NEVER_SENT = 0.001
# How far a rate between the first and the last record may be off.
_TOLERANCE = 0.01
_LATE_US = 10_000
_MOST_WAITS = 10_000
_SECOND = 10**9

LATE_BY = {
    "credit": "waited for credit",
    "socket": "waited for the socket",
    "outcomes": "waited for outcomes",
    "itself": "late itself",
}
"""The causes of the delays of sends, with their words."""


def send_schedule(sender: FileAnalysis, run: RunBounds) -> dict[str, Any]:
    """Compare the sends with the schedule that was asked for.

    Keys: ``rate`` (asked for, messages/s; of a rate that changes the mean of the time that
    passed, None when that is no time); ``due``, the messages whose time had come when the sending
    ended; ``sent``; ``never_sent``, those due that were not sent; ``achieved`` = ``sent`` / the
    time that passed (:func:`.sender_rate.sending_ns`), or (n - 1) / (last - first send) where
    nothing tells that time, None when it is none; ``late_us`` (how late messages left,
    percentiles in microseconds, as the arrow measured it; None from arrows that do not);
    ``late_by_us``, the same of each part of these delays: a message waited for ``credit``, for
    room in the ``socket`` or for ``outcomes``, or the sender was late ``itself``;
    ``over_time``, for each step of ``seconds`` the messages that left, and the largest of their
    delays and of its parts.

    ``missed``: more than 0.1 % of the messages due were never sent; or ``count`` messages took
    that much longer, and 10 ms; or half of them left more than 10 ms late; or the rate from the
    first to the last send is off by more than 1 %, beyond what the clock's resolution explains.
    True of a run that sent nothing; None of one message, where nothing tells when the sending
    ended.

    Args:
        sender: the analysis of the sender's records; our arrow records intended send times.
        run: the bounds of the run; without a schedule there is nothing to compare.
    """
    kept = _Comparison.of(sender, run)
    return {
        "rate": kept.rate,
        "due": kept.due,
        "sent": kept.sent,
        "never_sent": kept.never_sent,
        "achieved": kept.achieved,
        "late_us": kept.plan.late_us,
        "late_by_us": kept.plan.late_by_us,
        "over_time": kept.plan.over_time,
        "missed": kept.is_missed,
    }


def unsent_waits(sender: FileAnalysis, run: RunBounds, unit: str) -> Distribution:
    """Return the least that each message waited that was due and never sent, in ticks of ``unit``.

    It waited from when it was due until the end of the sending. If there are more than 10,000 of
    them, those that were due one after the other share the wait of the last of them. Where no
    more than 0.1 % were never sent, which is the end of a run between two messages, there are none.
    """
    if run.sending is None:
        return Distribution.none()
    kept = _Comparison.of(sender, run)
    if kept.due is None or not kept.is_short:
        return Distribution.none()
    step, end = -(-(kept.due - kept.sent) // _MOST_WAITS), kept.due
    lasts = [*range(kept.sent + step - 1, end - 1, step), end - 1]
    counts = np.diff([kept.sent - 1, *lasts])
    times = kept.plan.times_due(lasts)
    waits = [max(kept.passed_or_span - time, 0) * PER_SECOND[unit] // _SECOND for time in times]
    return Distribution.of_counted(np.array(waits, np.int64), counts)


@dataclass(frozen=True, eq=False)
class _Comparison:
    """The messages that a sender sent, beside those that were due.

    Attributes:
        sent: messages.
        span: nanoseconds from the first to the last send; each is truncated to a tick.
        tick: that of the sender's clock, in nanoseconds.
        passed: nanoseconds until the sending ended; None where nothing tells that.
        limit: messages after which it was to end; 0 for none.
        plan: the schedule.
    """

    sent: int
    span: int
    tick: int
    passed: int | None
    limit: int
    plan: Sending

    @classmethod
    def of(cls, sender: FileAnalysis, run: RunBounds) -> _Comparison:
        if run.sending is None:
            raise ValueError("no schedule was asked for")
        tick = _SECOND // PER_SECOND[sender.time_unit]
        # A clock that was set back may end before it began.
        span = max((sender.last_time or 0) - (sender.first_time or 0), 0) * tick
        passed = sending_ns(sender, run)
        if run.backlog and passed is not None:
            # The schedule began after the backlog.
            span = min(span, passed)
        sent = max(sender.count - run.backlog, 0)
        return cls(sent, span, tick, passed, run.count, run.sending)

    @property
    def passed_or_span(self) -> int:
        return self.span if self.passed is None else self.passed

    @property
    def rate(self) -> float | None:
        asked, passed = self.plan.asked, self.passed_or_span
        if len(asked) == 1:
            rate = asked[0].rate
            return rate if isinstance(rate, int) else float(rate)
        return (messages_due(asked, passed) - 1) * _SECOND / passed if passed > 0 else None

    @cached_property
    def due(self) -> int | None:
        if self.passed is not None:
            due = self.plan.messages_due(max(self.passed - 1, 0))
        elif self.sent:
            least, most = self._due_between
            due = min(max(self.sent, least), most)
        else:
            return None
        return min(due, self.limit) if self.limit else due

    @property
    def _due_between(self) -> tuple[int, int]:
        """The least and the most messages that are due from the first to the last send."""
        least = self.plan.messages_due(max(self.span - self.tick, 0))
        return least, self.plan.messages_due(self.span + self.tick)

    @property
    def never_sent(self) -> int | None:
        return None if self.due is None else max(self.due - self.sent, 0)

    @property
    def achieved(self) -> float | None:
        if self.passed is not None:
            return self.sent * _SECOND / self.passed if self.passed else None
        return (self.sent - 1) * _SECOND / self.span if self.span else None

    @property
    def is_short(self) -> bool:
        """Whether more messages were never sent than the end of a run explains."""
        return (self.never_sent or 0) > _NEVER_SENT * (self.due or 0)

    @property
    def is_late(self) -> bool:
        """Whether the messages were all sent, but later than they were due."""
        late = self.plan.late_us
        if late is not None and late["p50"] > _LATE_US:
            return True
        if self.passed is None or not 0 < self.limit <= self.sent:
            return False
        planned = self.plan.end_of(self.sent)
        return self.passed - planned > max(_NEVER_SENT * planned, _LATE_US * 1000)

    @property
    def is_off(self) -> bool:
        """Whether the rate from the first to the last send is another one."""
        least, most = self._due_between
        slow = self.sent - 1 < (1 - _TOLERANCE) * (least - 1)
        return slow or self.sent - 1 > (1 + _TOLERANCE) * most

    @property
    def is_missed(self) -> bool | None:
        if self.sent == 0 or self.is_short or self.is_late:
            return True
        if self.sent == 1:
            return None if self.passed is None else False
        return self.is_off
