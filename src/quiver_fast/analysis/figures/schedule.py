"""Whether a sender kept the rate that was asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.model.units import PER_SECOND

if TYPE_CHECKING:
    from quiver_fast.analysis.figures.file_analysis import FileAnalysis

__all__ = ["send_schedule"]

_TOLERANCE = 0.01
_LATE_US = 10_000


def send_schedule(
    sender: FileAnalysis, rate: int, reported: dict[str, Any] | None
) -> dict[str, Any]:
    """Compare the sends with the schedule ``start + i / rate``.

    Keys: ``rate`` (asked for, messages/s); ``achieved`` = (n - 1) / (last - first send),
    None when that is no time; ``late_us`` (how late messages left, percentiles in
    microseconds, as the arrow measured it; None from arrows that do not);
    ``missed``: ``achieved`` is more than 1 % off, beyond what the clock's resolution
    explains, or half of the messages left more than 10 ms late. True of a run that sent
    nothing; None of one message, which has no rate.

    Args:
        sender: the analysis of the sender's records; our arrow records intended send times.
        rate: messages per second, above 0.
        reported: the arrow's own ``schedule`` report, or None.
    """
    span = (sender.last_time or 0) - (sender.first_time or 0)
    ticks = PER_SECOND[sender.time_unit]
    late = None if reported is None else reported["late_us"]
    return {
        "rate": rate,
        "achieved": (sender.count - 1) * ticks / span if span > 0 else None,
        "late_us": late,
        "missed": _missed(sender.count, span / ticks, 1 / ticks, rate, late),
    }


def _missed(
    count: int, seconds: float, tick: float, rate: int, late: dict[str, Any] | None
) -> bool | None:
    if count < 2:
        return True if count == 0 else None
    # Both ends of the span are truncated to a tick, so it is off by less than one.
    slow = count - 1 < (1 - _TOLERANCE) * rate * (seconds - tick)
    fast = count - 1 > (1 + _TOLERANCE) * rate * (seconds + tick)
    return slow or fast or (late is not None and late["p50"] > _LATE_US)
