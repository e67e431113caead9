"""How long the sending of a run took, and its rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quiver_fast.analysis.figures.warmup import measured_since, without_warmup
from quiver_fast.analysis.model.units import PER_SECOND

if TYPE_CHECKING:
    from quiver_fast.analysis.figures.file_analysis import FileAnalysis
    from quiver_fast.analysis.model.bounds import RunBounds

_SECOND = 10**9
# A rate of half a message would be one of none or of one.
_WHOLE = 100


def told_rate(rate: float | None) -> float | None:
    """Return messages/s as documents tell them: whole ones, below a hundred with three decimals."""
    if rate is None:
        return None
    return round(rate) if rate >= _WHOLE else round(rate, 3)


def end_of_sending(sender: FileAnalysis, run: RunBounds) -> int | None:
    """Return when the sending ended, in the sender's unit; None unless by its duration.

    That is the later of the last send and of first send + duration, of a complete run
    that was asked for a duration and did not reach its count before.
    """
    if sender.first_time is None or sender.last_time is None:
        return None
    counted_out = run.count > 0 and sender.count >= run.count
    if run.duration <= 0 or counted_out or run.complete is not True:
        return None
    ticks = int(run.duration * PER_SECOND[sender.time_unit])
    return planned_end(sender.first_time, sender.last_time, ticks)


def planned_end(first: int, last: int, duration: int) -> int:
    """Return the end of the sending in a run that was ended by its duration.

    Args:
        first: the first send.
        last: the last send, in the same unit.
        duration: the duration that was asked for, likewise.
    """
    return max(last, first + duration)


def sending_ns(sender: FileAnalysis, run: RunBounds) -> int | None:
    """Return how many nanoseconds a schedule was followed; None where nothing tells that.

    That is the time from its begin until its arrow stopped, as the arrow says. Where it says
    nothing, it is the time until :func:`end_of_sending`. The last of ``count`` messages has its
    interval as the others have: until the next one would be due.
    """
    if run.sending is None:
        return None
    passed = run.sending.reported_ns
    if passed is None:
        end = end_of_sending(sender, run)
        if end is None or sender.first_time is None:
            return None
        passed = (end - sender.first_time) * _SECOND // PER_SECOND[sender.time_unit]
    elif run.duration:
        # Its clock began some microseconds after the schedule.
        passed = min(passed, int(run.duration * _SECOND))
    if 0 < run.count <= sender.count:
        passed = max(passed, run.sending.end_of(sender.count))
    return passed


def sender_rate(sender: FileAnalysis, run: RunBounds) -> float | None:
    """Return the messages/s that were sent after the warm-up; None when that is no time.

    With a schedule, records have the times at which messages were due, and the rate is count / the
    time that passed (:func:`sending_ns`). Without one it is count / (last - first send).
    """
    since = measured_since(sender, run)
    measured = without_warmup(sender, since)
    passed = sending_ns(sender, run)
    if passed is None:
        return measured.rate
    if since is not None and sender.first_time is not None:
        ticks = PER_SECOND[sender.time_unit]
        passed -= (since * ticks - sender.first_time) * _SECOND // ticks
    # The backlog was sent before the schedule began.
    count = max(measured.count - run.backlog, 0)
    return count * _SECOND / passed if passed > 0 else None
