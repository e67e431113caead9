"""Whether a sender kept the rate that was asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.units import PER_SECOND

if TYPE_CHECKING:
    from quiver_fast.analysis.local import FileAnalysis

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
    explains, or half of the messages left more than 10 ms late.

    Args:
        sender: the analysis of the sender's records; our arrow records intended send times.
        rate: messages per second, above 0.
        reported: the arrow's own ``schedule`` report, or None.
    """
    intervals = sender.count - 1
    span = (sender.last_time or 0) - (sender.first_time or 0)
    ticks = PER_SECOND[sender.time_unit]
    late = None if reported is None else reported["late_us"]
    # Both ends of the span are truncated to a tick, so it is off by less than one.
    slow = intervals * ticks < (1 - _TOLERANCE) * rate * (span - 1)
    fast = intervals * ticks > (1 + _TOLERANCE) * rate * (span + 1)
    return {
        "rate": rate,
        "achieved": intervals * ticks / span if span > 0 else None,
        "late_us": late,
        "missed": slow or fast or (late is not None and late["p50"] > _LATE_US),
    }
