"""Whether a sender kept the rate that was asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.rate_steps import messages_due

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quiver_fast.analysis.figures.file_analysis import FileAnalysis
    from quiver_fast.rate_steps import Piece

__all__ = ["send_schedule"]

_TOLERANCE = 0.01
_LATE_US = 10_000
_NANOSECONDS = 10**9


def send_schedule(
    sender: FileAnalysis, asked: Sequence[Piece], reported: dict[str, Any] | None
) -> dict[str, Any]:
    """Compare the sends with the schedule that was asked for.

    Keys: ``rate`` (asked for, messages/s; of a rate that changes its mean from first to last
    send, None when that is no time); ``achieved`` = (n - 1) / (last - first send),
    None when that is no time; ``late_us`` (how late messages left, percentiles in
    microseconds, as the arrow measured it; None from arrows that do not);
    ``missed``: ``achieved`` is more than 1 % off, beyond what the clock's resolution
    explains, or half of the messages left more than 10 ms late. True of a run that sent
    nothing; None of one message, which has no rate.

    Args:
        sender: the analysis of the sender's records; our arrow records intended send times.
        asked: the schedule, as `quiver_fast.rate_steps.schedule_of` has it; not empty.
        reported: the arrow's own ``schedule`` report, or None.
    """
    span = (sender.last_time or 0) - (sender.first_time or 0)
    ticks = PER_SECOND[sender.time_unit]
    late = None if reported is None else reported["late_us"]
    return {
        "rate": asked[0].rate if len(asked) == 1 else _mean(asked, span * _NANOSECONDS // ticks),
        "achieved": (sender.count - 1) * ticks / span if span > 0 else None,
        "late_us": late,
        "missed": _missed(sender.count, span, ticks, asked, late),
    }


def _mean(asked: Sequence[Piece], span: int) -> float | None:
    """Return the messages/s of the first ``span`` nanoseconds."""
    return (messages_due(asked, span) - 1) * _NANOSECONDS / span if span > 0 else None


def _missed(
    count: int, span: int, ticks: int, asked: Sequence[Piece], late: dict[str, Any] | None
) -> bool | None:
    if count < 2:
        return True if count == 0 else None
    # Both ends of the span are truncated to a tick, so it is off by less than one.
    least = messages_due(asked, max(span - 1, 0) * _NANOSECONDS // ticks) - 1
    most = messages_due(asked, (span + 1) * _NANOSECONDS // ticks)
    slow = count - 1 < (1 - _TOLERANCE) * least
    fast = count - 1 > (1 + _TOLERANCE) * most
    return slow or fast or (late is not None and late["p50"] > _LATE_US)
