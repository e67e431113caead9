"""The data of charts, as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quiver_fast.analysis.figures.omission import CorrectedDistribution
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.model.distribution import Float64Array, Int64Array
from quiver_fast.analysis.model.units import per_millisecond
from quiver_fast.analysis.read.sweep_file import SweptPoint, SweptValues
from quiver_fast.analysis.tables.latencies import Latencies
from quiver_fast.analysis.tables.spilled import LatencyRows

_CURVE_POINTS = 120


def with_silence(
    seconds: Int64Array, values: Float64Array, silent: float
) -> tuple[Int64Array, Float64Array]:
    """Put ``silent`` at the first and the last second of each gap, for lines between rows."""
    gaps = np.flatnonzero(np.diff(seconds) > 1)
    places = np.repeat(gaps + 1, 2)
    ends = np.column_stack((seconds[gaps] + 1, seconds[gaps + 1] - 1)).ravel()
    return np.insert(seconds, places, ends), np.insert(values, places, silent, axis=0)


def percentile_curve(
    latencies: Latencies | CorrectedDistribution, unit: str
) -> tuple[Float64Array, Float64Array]:
    """Return points of the curve of latency by percentile.

    It goes as far right as the samples allow; its last point is the maximum.

    Returns:
        1 / (1 - percentile / 100) and milliseconds, float64, equally many.
    """
    spread = np.geomspace(1, max(latencies.total, 2), _CURVE_POINTS)
    ranks = [*(100 * (1 - 1 / spread)).tolist()[:-1], 100.0]
    return spread, np.array(latencies.percentiles(ranks)) / per_millisecond(unit)


def merged_latencies(runs: Sequence[RunData]) -> tuple[Latencies, str] | None:
    """Return the latencies of all runs in the finest of their units, None if none received."""
    histograms = [run.histogram for run in runs if run.histogram is not None]
    histograms = [histogram for histogram in histograms if histogram.total]
    if not histograms:
        return None
    finest = max((histogram.unit for histogram in histograms), key=per_millisecond)
    together = LatencyRows()
    for histogram in histograms:
        factor = per_millisecond(finest) // per_millisecond(histogram.unit)
        for part in histogram.parts():
            together.add(part.latencies * factor, part.counts)
    return together.total(), finest


def sweep_curves(sweep: SweptValues, named: bool) -> list[tuple[str, list[SweptPoint]]]:
    """Return the points of each curve of a sweep, in the order of measuring, with its label."""
    several = {option: len({p.values[option] for p in sweep.points}) for option in sweep.options}
    apart = sorted(sweep.options, key=lambda option: several[option])[:-1]
    curves: dict[str, list[SweptPoint]] = {}
    for point in sweep.points:
        words = [sweep.name] * named + [f"{option}={point.values[option]}" for option in apart]
        label = f"{' '.join(words)}, " if words else ""
        if point.figures is not None:
            curves.setdefault(label, []).append(point)
    return list(curves.items())
