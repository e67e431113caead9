"""What the records tell of the difference between the sender's and the receiver's clock.

A recorded latency is the true one-way delay plus the offset, which is the receiver's
clock minus the sender's: r - s = delay + offset, with delay >= 0.

Drift: queues only ever add delay, so the smallest latency of each 10-second window lies
near the line offset(t) = a + b * t. Of all lines below every window's minimum the one
closest to them in the sum of vertical distances is the estimate; it contains the edge
of the lower convex hull above or below the mean of the window times (Moon, Skelly and
Towsley, "Estimation and Removal of Clock Skew from Network Delay Measurements", INFOCOM
1999; Zhang, Liu and Xia, "Clock Synchronization Algorithms for Network Measurements",
INFOCOM 2002). Without independent knowledge a drift of the clocks cannot be told from
a floor of delay that rises or falls.

Offset: no message arrives before it is sent, so offset <= min(r - s). Where settlement
is end to end (peer to peer), the sender learns of it at t >= arrival, so for every
message offset >= (r - s) - (t - s). Sorting both sides keeps that true, hence with
order statistics L[k] of latency and S[k] of settlement latency of the same messages

    max over k of (L[k] - S[k]) <= offset <= L[0]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.distribution import Distribution
from quiver_fast.analysis.spilled import Histogram
from quiver_fast.analysis.units import PER_SECOND

__all__ = ["WINDOW_SECONDS", "Drift", "drift", "lower_hull", "offset_at_least", "window_minima"]

WINDOW_SECONDS = 10
_MILLION = 1e6


@dataclass(frozen=True)
class Drift:
    """How the receiver's clock runs against the sender's.

    Attributes:
        ppm: microseconds that it gains in a second; negative where it loses.
        resolution_ppm: one tick of the records' unit over the time observed; a drift
            smaller than this cannot be told from none.
        windows: number of 10-second windows.
    """

    ppm: float
    resolution_ppm: float
    windows: int


def window_minima(histogram: Histogram) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (first epoch second, smallest latency) of each 10-second window with messages."""
    minima: dict[int, int] = {}
    for part in histogram.parts():
        windows = part.seconds // WINDOW_SECONDS
        starts = np.flatnonzero(np.diff(windows, prepend=windows[:1] - 1))
        if len(starts) == 0:
            continue
        lowest = np.minimum.reduceat(part.latencies, starts).tolist()
        for window, low in zip(windows[starts].tolist(), lowest, strict=True):
            minima[window] = min(low, minima.get(window, low))
    firsts = np.array(list(minima), np.int64) * WINDOW_SECONDS
    return firsts, np.array(list(minima.values()), np.int64)


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
    """Estimate the drift, or return None when there are under three windows."""
    xs, ys = window_minima(histogram)
    if len(xs) < 3:
        return None
    hull = lower_hull(xs, ys)
    # The edge over the mean time; at a corner both edges serve, the left one is taken.
    corner = int(np.searchsorted(xs[hull], xs.mean()))
    left, right = hull[corner - 1], hull[corner]
    ticks = PER_SECOND[histogram.unit]
    slope = int(ys[right] - ys[left]) / (int(xs[right] - xs[left]) * ticks)
    span = int(xs[-1] - xs[0]) * ticks
    return Drift(slope * _MILLION, _MILLION / span, len(xs))


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
