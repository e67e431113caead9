"""The difference between the sender's and the receiver's clock, as far as records tell.

A recorded latency is the true one-way delay plus the offset, which is the receiver's
clock minus the sender's: r - s = delay + offset, with delay >= 0.

Drift: queues only ever add delay, so the smallest latency of each second lies near the line
offset(t) = a + b * t. The estimate is the line below every minimum that is closest to them in the
sum of vertical distances; it contains the edge of the lower convex hull above or
below the mean of the times (Moon, Skelly and Towsley, "Estimation and Removal of Clock Skew
from Network Delay Measurements", INFOCOM 1999; Zhang, Liu and Xia, "Clock Synchronization
Algorithms for Network Measurements", INFOCOM 2002). Without independent knowledge a drift of
the clocks cannot be told from a floor of delay that rises or falls.

Its interval is Sen's ("Estimates of the Regression Coefficient Based on Kendall's Tau", JASA
63, 1968), which asks nothing of the shape of the noise: the seconds are cut into seven windows of
equally many, and of the 21 slopes between the minima of two windows, each at its own second,
the second smallest and the second largest are the ends. The seven errors can have 5,040 orders:
7 of them leave less than two slopes below the truth, and 7 above it; where chance orders them,
the ends hold the truth in 99.7 %. Six windows would give 98.3 %, of which some hundreds of runs
have less than 95 by chance. A seventh of a run outlasts most bursts. The interval is widened
by what the records do not show: a minimum is off by less than a tick, so that the difference of
two is by less than two, and it came somewhere within its second.

Offset: no message arrives before it is sent, so offset <= min(r - s). Where settlement
is end to end (peer to peer), the sender learns of it at t >= arrival, so for every
message offset >= (r - s) - (t - s). Sorting both sides keeps that true, hence with
order statistics L[k] of latency and S[k] of settlement latency of the same messages

    max over k of (L[k] - S[k]) <= offset <= L[0]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.distribution import Distribution, Int64Array
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.tables.latencies import Histogram

MINIMUM_SECONDS = 10
"""Seconds with messages that it takes to tell a drift."""

_WINDOWS = 7
# The hull is of at most as many points: a corner for each second of an hour.
_MOST_POINTS = 1 << 12
_TICKS_UNKNOWN = 2
_MILLION = 1e6


@dataclass(frozen=True)
class Drift:
    """How the receiver's clock runs against the sender's.

    Attributes:
        ppm: microseconds that it gains in a second; negative where it loses.
        low_ppm, high_ppm: the ends of an interval that holds the truth in at least 95 of 100
            runs.
    """

    ppm: float
    low_ppm: float
    high_ppm: float


def second_minima(histogram: Histogram) -> Iterator[tuple[Int64Array, Int64Array]]:
    """Yield the epoch seconds that have messages, ascending, and the smallest latency of each.

    They come in pieces of int64 arrays, none of them empty.
    """
    last = None
    for part in histogram.parts():
        starts = np.flatnonzero(np.diff(part.seconds, prepend=part.seconds[:1] - 1))
        # Latencies ascend within a second; one may go on in the next part.
        if last is not None and len(starts) and part.seconds[0] == last:
            starts = starts[1:]
        if len(starts):
            last = part.seconds[-1]
            yield part.seconds[starts], part.latencies[starts]


class _WindowMinima:
    """The first smallest value of each of some windows of equally many seconds, and its time.

    Args:
        total: the seconds that there are.
        windows: at most as many.
    """

    def __init__(self, total: int, windows: int) -> None:
        edges = np.linspace(0, total, min(windows, total) + 1)
        self._edges = np.rint(edges).astype(np.intp)
        self._seen = 0
        self.seconds, self.minima = np.zeros((2, len(edges) - 1), np.int64)

    def add(self, seconds: Int64Array, minima: Int64Array) -> None:
        """Add the next seconds, in order."""
        end = self._seen + len(seconds)
        first, after = np.searchsorted(self._edges, (self._seen, end - 1), "right")
        edges = self._edges[first - 1 : after + 1].clip(self._seen, end) - self._seen
        lowest = np.minimum.reduceat(minima, edges[:-1])
        at_lowest = np.flatnonzero(minima == np.repeat(lowest, np.diff(edges)))
        chosen = at_lowest[np.searchsorted(at_lowest, edges[:-1])]
        window = slice(first - 1, after)
        lower = (lowest < self.minima[window]) | (self._edges[window] >= self._seen)
        self.minima[window] = np.where(lower, lowest, self.minima[window])
        self.seconds[window] = np.where(lower, seconds[chosen], self.seconds[window])
        self._seen = end


def lower_hull(xs: NDArray[np.int64], ys: NDArray[np.int64]) -> list[int]:
    """Return the indices of the corners of the lower convex hull, from left to right.

    Args:
        xs: int64, strictly ascending.
        ys: int64, the same length.
    """
    points = [(int(x), int(y)) for x, y in zip(xs, ys, strict=True)]
    hull: list[int] = []
    for index, point in enumerate(points):
        while len(hull) > 1 and _turn(points[hull[-2]], points[hull[-1]], point) <= 0:
            hull.pop()
        hull.append(index)
    return hull


def _turn(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> int:
    """Return above 0 when the way from ``a`` over ``b`` to ``c`` turns to the left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def drift(histogram: Histogram) -> Drift | None:
    """Estimate the drift, or return None of under ten seconds with messages."""
    total, first, last = 0, 0, 0
    for seconds, _ in second_minima(histogram):
        first = first if total else int(seconds[0])
        total, last = total + len(seconds), int(seconds[-1])
    if total < MINIMUM_SECONDS:
        return None
    points, windows = _WindowMinima(total, _MOST_POINTS), _WindowMinima(total, _WINDOWS)
    for piece in second_minima(histogram):
        points.add(*piece)
        windows.add(*piece)
    span = last - first
    estimate = _hull_slope(points.seconds, points.minima)
    low, high = _sens_interval(windows.seconds, windows.minima)
    low -= (_TICKS_UNKNOWN + abs(low)) / span
    high += (_TICKS_UNKNOWN + abs(high)) / span
    ppm = _MILLION / PER_SECOND[histogram.unit]
    return Drift(estimate * ppm, min(low, estimate) * ppm, max(high, estimate) * ppm)


def _hull_slope(xs: Int64Array, ys: Int64Array) -> float:
    """Return the slope of the hull's edge over the mean of the times."""
    hull = lower_hull(xs, ys)
    # At a corner both edges fit; the left one is taken.
    corner = int(np.searchsorted(xs[hull], xs.mean()))
    left, right = hull[corner - 1], hull[corner]
    return int(ys[right] - ys[left]) / int(xs[right] - xs[left])


def _sens_interval(xs: Int64Array, ys: Int64Array) -> tuple[float, float]:
    """Return the second smallest and the second largest slope between two of the points."""
    left, right = np.triu_indices(len(xs), 1)
    slopes = np.sort((ys[right] - ys[left]) / (xs[right] - xs[left]))
    return float(slopes[1]), float(slopes[-2])


def offset_at_least(latencies: Distribution, settlements: Distribution) -> int:
    """Return the largest L[k] - S[k], the lower bound of the offset.

    Args:
        latencies: receive time minus send time of n messages.
        settlements: settlement time minus send time of the same n messages, same unit.

    Raises:
        ValueError: the numbers of messages differ, or there is none.
    """
    if latencies.total != settlements.total or latencies.total == 0:
        raise ValueError("latency and settlement must be of the same messages")
    latency_ends, settlement_ends = np.cumsum(latencies.counts), np.cumsum(settlements.counts)
    # Both are steps of k: the difference changes at the ends of steps only.
    ends = np.union1d(latency_ends, settlement_ends)
    low = latencies.values[np.searchsorted(latency_ends, ends)]
    high = settlements.values[np.searchsorted(settlement_ends, ends)]
    return int((low - high).max())
