"""The data of charts, as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.omission import CorrectedDistribution
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.model.distinct import distinct
from quiver_fast.analysis.model.units import per_millisecond
from quiver_fast.analysis.read.sweep_file import SweptPoint, SweptValues
from quiver_fast.analysis.tables.latencies import Histogram, Latencies
from quiver_fast.analysis.tables.spilled import LatencyRows

Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]

_COLUMNS, _BINS = 600, 80
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


def heat_cells(histogram: Histogram) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return how many messages there are by time and latency.

    Returns:
        Edges of the columns in epoch seconds (c + 1), edges of the rows in ticks of the
        clock (r + 1), and messages (c, r); float64.
    """
    columns, rows = _time_edges(histogram), _latency_edges(histogram)
    cells = np.zeros((len(columns) - 1, len(rows) - 1))
    for part in histogram.parts():
        added, _, _ = np.histogram2d(
            part.seconds, part.latencies, (columns, rows), weights=part.counts
        )
        cells += added
    return columns, rows, cells


def _time_edges(histogram: Histogram) -> Float64Array:
    ends = [(int(part.seconds[0]), int(part.seconds[-1])) for part in histogram.parts()]
    first, end = ends[0][0], ends[-1][1] + 1
    width = -(-(end - first) // _COLUMNS)
    return np.arange(first, end + width, width, dtype=np.float64)


def _latency_edges(histogram: Histogram) -> Float64Array:
    """Return edges at whole ticks, ever wider away from zero on both sides.

    They begin with the least latency and end after the greatest, so that the map is filled.
    """
    latencies = histogram.distribution()
    low, high = latencies.minimum, latencies.maximum
    if low > 0:
        return distinct(np.rint(np.geomspace(low, high + 1, _BINS)))
    upper = distinct(np.rint(np.geomspace(1, max(high, 1) + 1, _BINS)))
    lower = -distinct(np.rint(np.geomspace(1, -low, _BINS)))[::-1] if low < 0 else np.empty(0)
    return np.concatenate((lower, [0.0], upper))
