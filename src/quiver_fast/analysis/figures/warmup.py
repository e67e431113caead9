"""The warm-up of a run: its messages are in the records, and in the reckoning, but in no figure.

The figures begin with the first whole second, of the epoch, after the warm-up: all backends have
latencies and counts by such seconds, so that they leave out the same messages.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.units import PER_SECOND, per_millisecond

if TYPE_CHECKING:
    from quiver_fast.analysis.figures.file_analysis import FileAnalysis
    from quiver_fast.analysis.model.bounds import RunBounds

_LAST_SECOND = 2**63 - 1


def measured_since(first: FileAnalysis | None, run: RunBounds) -> int | None:
    """Return the epoch second with which the figures of a run begin; None for its first message.

    Args:
        first: the sender's records; the receiver's where there is no sender.
        run: the bounds of the run.
    """
    if not run.warmup or first is None or first.first_time is None:
        return None
    ticks = PER_SECOND[first.time_unit]
    return -(-(first.first_time + int(run.warmup * ticks)) // ticks)


def without_warmup(found: FileAnalysis, since: int | None) -> FileAnalysis:
    """Return an end of a run without its messages from before the second ``since``.

    Settlements, first bytes and the counts of the delivery stay those of all messages.
    """
    if since is None:
        return found
    measured = found.seconds.values >= since
    seconds = Distribution(found.seconds.values[measured], found.seconds.counts[measured])
    histogram = found.histogram
    return replace(
        found,
        count=seconds.total,
        # A rate counts from the end of the warm-up, not from the message after it.
        first_time=since * PER_SECOND[found.time_unit] if seconds.total else None,
        last_time=found.last_time if seconds.total else None,
        seconds=seconds,
        histogram=None if histogram is None else histogram.within(since, _LAST_SECOND),
    )


def warmup_section(found: FileAnalysis, since: int | None, run: RunBounds) -> dict[str, Any]:
    """Return the section ``warmup`` of an end's summary; no section where none was asked for.

    Its keys: ``seconds`` that were asked for; ``first_time``, that of the end's first message in
    epoch milliseconds; ``measured_since``, the epoch second with which the figures begin; and
    ``message_count``, the messages that are in no figure.
    """
    if since is None or found.first_time is None:
        return {}
    left_out = found.count - without_warmup(found, since).count
    return {
        "warmup": {
            "seconds": run.warmup,
            "first_time": found.first_time // per_millisecond(found.time_unit),
            "measured_since": since,
            "message_count": left_out,
        }
    }
