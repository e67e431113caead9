"""Change points in a series of runs: E-divisive with a permutation test.

Matteson and James, "A Nonparametric Approach for Multiple Change Point Analysis of
Multivariate Data", Journal of the American Statistical Association 109, 2014. The
distance of neighbouring segments X (n values) and Y (m values) is the energy statistic

    Q = n * m / (n + m) * (2 * mean|x - y| - mean|x - x'| - mean|y - y'|)

with the second and third mean over unordered pairs of different elements. The split of
a segment with the largest Q is a change point when fewer than 5 % of 199 random
permutations of the segment have a split as good; then both sides are searched
likewise. Segments have at least three values. (The paper permutes within all segments
at once and lets a part of the second segment vary; testing segment by segment and
splitting whole ones is simpler and finds level shifts as well.)

Permutations assume that without a change the runs are exchangeable. Where neighbouring
runs resemble each other (a machine that warms up, a disk that fills) every drift looks
like a step: of series with an autocorrelation of 0.6 the test finds a change in 30 to
50 %. :func:`dependence` therefore tests the residuals first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["MINIMUM_SEGMENT", "best_split", "change_points", "dependence"]

Float64Array = NDArray[np.float64]

MINIMUM_SEGMENT = 3
_PERMUTATIONS = 199
_SIGNIFICANCE = 0.05
_SEED = 20160828


def change_points(values: Float64Array) -> list[int]:
    """Return the indices at which a new level begins, ascending.

    Args:
        values: float64[n], one figure per run in order of time.
    """
    generator = np.random.default_rng(_SEED)
    found: list[int] = []
    open_segments = [(0, len(values))]
    while open_segments:
        start, end = open_segments.pop()
        split = _significant_split(values[start:end], generator)
        if split is not None:
            found.append(start + split)
            open_segments += [(start, start + split), (start + split, end)]
    return sorted(found)


def _significant_split(values: Float64Array, generator: np.random.Generator) -> int | None:
    if len(values) < 2 * MINIMUM_SEGMENT:
        return None
    split, observed = best_split(values)
    as_good = sum(
        best_split(generator.permutation(values))[1] >= observed for _ in range(_PERMUTATIONS)
    )
    return split if (as_good + 1) / (_PERMUTATIONS + 1) < _SIGNIFICANCE else None


def dependence(values: Float64Array) -> tuple[float, float]:
    """Return (autocorrelation, p-value) of neighbouring runs, any one change left aside.

    The autocorrelation at lag 1 of the deviations from the means before and after the best
    split, and the share of 199 permutations of them that reach as much, split anew.

    Args:
        values: float64[n], at least two segments' worth.
    """
    generator = np.random.default_rng(_SEED)
    residuals = _residuals(values)
    observed = _autocorrelation(residuals)
    as_much = sum(
        _autocorrelation(_residuals(generator.permutation(residuals))) >= observed
        for _ in range(_PERMUTATIONS)
    )
    return observed, (as_much + 1) / (_PERMUTATIONS + 1)


def _residuals(values: Float64Array) -> Float64Array:
    split, _ = best_split(values)
    parts = (values[:split], values[split:])
    return np.concatenate([part - part.mean() for part in parts])


def _autocorrelation(residuals: Float64Array) -> float:
    squares = float(np.dot(residuals, residuals))
    return float(np.dot(residuals[1:], residuals[:-1])) / squares if squares else 0.0


def best_split(values: Float64Array) -> tuple[int, float]:
    """Return (index of the first value after the split, Q) of the split with the largest Q.

    Args:
        values: float64[n], at least two segments' worth.
    """
    total = len(values)
    distances = np.abs(values[:, None] - values[None, :])
    # corner[i, j] is the sum of the distances of the first i + 1 values from the first j + 1.
    corner = np.cumsum(np.cumsum(distances, axis=0), axis=1)
    splits = np.arange(MINIMUM_SEGMENT, total - MINIMUM_SEGMENT + 1)
    before = np.diagonal(corner)[splits - 1] / 2
    across = corner[splits - 1, total - 1] - 2 * before
    after = corner[-1, -1] / 2 - before - across
    n, m = splits, total - splits
    spread = 2 * across / (n * m) - before * 2 / (n * (n - 1)) - after * 2 / (m * (m - 1))
    q = spread * (n * m / total)
    best = int(np.argmax(q))
    return int(splits[best]), float(q[best])
