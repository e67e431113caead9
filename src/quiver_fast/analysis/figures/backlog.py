"""How a backlog drains: how long it takes, and when latencies are as they are without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quiver_fast.analysis.figures.series import percentiles_per_second
from quiver_fast.analysis.model.units import PER_SECOND

if TYPE_CHECKING:
    from quiver_fast.analysis.figures.file_analysis import FileAnalysis
    from quiver_fast.analysis.model.bounds import RunBounds

# The last whole seconds of the sending show the latency without a backlog.
_STEADY_SECONDS = 5
# Latencies within this factor of that are taken for those without a backlog.
_TOLERANCE = 2


def backlog_section(receiver: FileAnalysis, run: RunBounds, *, emptied: bool) -> dict[str, Any]:
    """Return the section ``backlog``: how it drained; no section for a run without a backlog.

    Keys: ``messages`` that the queue was filled with; ``seconds`` from the first receive until
    so many were received, by the count of each second and evenly within it, and ``rate`` =
    ``messages`` / ``seconds``; ``steady_p50_us``, the median of the medians of the last five
    whole seconds of the sending; ``recovered_seconds`` from the first receive until the begin
    of the first second from which on, until the end of the sending, each median is at most
    twice that. They are None where that is not known, the last two also where the queue was
    not empty at the end.

    Args:
        receiver: the facts of the run's own messages in the receiver's file.
        run: the bounds of the run.
        emptied: the run ended in order, and its queue did not hold more at the end.
    """
    if not run.backlog:
        return {}
    seconds = _draining(receiver, run.backlog)
    steady, recovered = _recovery(receiver) if emptied else (None, None)
    return {
        "backlog": {
            "messages": run.backlog,
            "seconds": seconds,
            "rate": run.backlog / seconds if seconds else None,
            "steady_p50_us": steady,
            "recovered_seconds": recovered,
        }
    }


def _draining(receiver: FileAnalysis, backlog: int) -> float | None:
    if receiver.first_time is None or receiver.last_time is None or receiver.count < backlog:
        return None
    per_second = PER_SECOND[receiver.time_unit]
    first, last = receiver.first_time / per_second, (receiver.last_time + 1) / per_second
    counts = receiver.seconds.in_memory()
    sums = np.cumsum(counts.counts)
    place = int(np.searchsorted(sums, backlog))
    second, count = int(counts.values[place]), int(counts.counts[place])
    begin, end = max(second, first), min(second + 1, last)
    part = (backlog - (int(sums[place]) - count)) / count
    return begin + part * (end - begin) - first


def _recovery(receiver: FileAnalysis) -> tuple[float | None, float | None]:
    if receiver.histogram is None or receiver.first_time is None or receiver.end is None:
        return None, None
    per_second = PER_SECOND[receiver.time_unit]
    seconds, table = percentiles_per_second(receiver.histogram, (50,))
    # Whole seconds of the sending.
    within = seconds < receiver.end // per_second
    seconds, medians = seconds[within], table[within, 0]
    if len(seconds) <= _STEADY_SECONDS:
        return None, None
    steady = float(np.median(medians[-_STEADY_SECONDS:]))
    late = np.flatnonzero(medians > _TOLERANCE * steady)
    back = int(late[-1]) + 1 if len(late) else 0
    recovered = None
    if back < len(seconds):
        recovered = max(int(seconds[back]) - receiver.first_time / per_second, 0.0)
    return steady * 1e6 / per_second, recovered
