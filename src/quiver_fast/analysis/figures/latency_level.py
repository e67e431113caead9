"""Whether the latencies of a run keep their level: the medians and the p99 of its seconds.

Levels of latencies are told apart by a factor of two. The tests of
:mod:`quiver_fast.analysis.figures.constancy` say whether a change is more than chance; they look at
the logarithms, because latencies scatter by factors. A level is the median of at least three
seconds, so that a pause in a second changes none. Pauses are another finding: where the p99 of all
is far above that of most seconds, it is the latency of a few seconds.
"""

from __future__ import annotations

import numpy as np

from quiver_fast.analysis.figures.constancy import batch_means, episode, limits_at, statistics
from quiver_fast.analysis.figures.series import percentiles_per_second
from quiver_fast.analysis.model.distribution import Float64Array
from quiver_fast.analysis.model.units import PER_SECOND, latency_text
from quiver_fast.analysis.tables.latencies import Histogram

_RANKS = (50, 99)
_LEAST_SECONDS = 6
_FACTOR = 2
# Medians of one level are closer together than this factor, unless they are of few messages.
_SPREAD, _LEAST_MESSAGES = 4, 20
# From this factor and these seconds on, the p99 of all is that of few seconds.
_FAR, _LONG = 10, 0.1


def latency_change(latencies: Histogram, beginning: float) -> str | None:
    """Describe how latencies do not keep their level; None where they do.

    Args:
        latencies: those of the seconds that are judged.
        beginning: when the run began, in epoch seconds.
    """
    seconds, table = percentiles_per_second(latencies, _RANKS)
    if len(seconds) < _LEAST_SECONDS:
        return None
    unit, times = latencies.unit, seconds.astype(np.float64) - beginning
    for rank, column in zip(_RANKS, table.T, strict=True):
        values = np.maximum(column, 0.0)
        found = _episode(values, times, unit) or _trend(values, unit)
        if found is not None:
            return f"p{rank} latency {found}"
    if latencies.total >= _LEAST_MESSAGES * len(seconds):
        low, high = np.percentile(table[:, 0], (10, 90)).tolist()
        if _differ(low, high, _SPREAD):
            return f"p50 latency up and down from {_texts(low, high, unit)}"
    # While a digest is asked for, this p99 is too low: what is asked of a steady run is known then.
    typical = float(np.median(table[:, 1]))
    [whole] = latencies.distribution().percentiles((99,))
    if whole > _LONG * PER_SECOND[unit] and _differ(typical, whole, _FAR):
        return f"p99 latency {latency_text(whole, unit)}, in most seconds " + latency_text(
            typical, unit
        )
    return None


def _episode(values: Float64Array, times: Float64Array, unit: str) -> str | None:
    """Describe seconds with latencies of their own, from the begin, in the midst or to the end."""
    found = episode(values, np.log(values + 1))
    if found is None or not _differ(found.level, found.others, _FACTOR):
        return None
    if found.first == 0:
        return f"from {_texts(found.level, found.others, unit)} at {times[found.end]:.1f} s"
    if found.end == len(values):
        return f"from {_texts(found.others, found.level, unit)} at {times[found.first]:.1f} s"
    # A second lasts until the next one begins.
    until = times[found.end - 1] + 1
    level, others = (latency_text(one, unit) for one in (found.level, found.others))
    return f"{level} from {times[found.first]:.1f} s to {until:.1f} s, {others} in the rest"


def _trend(values: Float64Array, unit: str) -> str | None:
    """Describe latencies that rise or fall: straight, or by the same share in each second."""
    third = len(values) // 3
    begin, end = (float(np.median(part)) for part in (values[:third], values[-third:]))
    if not _differ(begin, end, _FACTOR):
        return None
    limit, scales = limits_at(len(values))[0], (values, np.log(values + 1))
    if all(statistics(batch_means(one))[0] <= limit for one in scales):
        return None
    return f"from {_texts(begin, end, unit)} over the run"


def _differ(one: float, other: float, factor: float) -> bool:
    """Say whether one is more than ``factor`` of the other, by more than a tick."""
    low, high = sorted((max(one, 0.0) + 1, max(other, 0.0) + 1))
    return high > factor * low


def _texts(first: float, second: float, unit: str) -> str:
    return f"{latency_text(first, unit)} to {latency_text(second, unit)}"
