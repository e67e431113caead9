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
like a step: of series with an autocorrelation of 0.6 they find a change in 30 to 50 %.
A split therefore counts only if its levels are further apart than chance brings runs that
depend on each other (:func:`separation`, :func:`separation_limit`), and :func:`dependence`
tests what the levels leave. The limits are what 5.5 % of simulated series without a change
exceed, of the worst of autocorrelations from 0 to 0.6; ``tests/support/change_calibration.py``
makes them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quiver_fast.analysis.model.distribution import Float64Array, sum_of_products

MINIMUM_SEGMENT = 3
_PERMUTATIONS = 199
_SIGNIFICANCE = 0.05
_SEED = 20160828

# Runs, and the limit of the separation at that number; interpolated by its logarithm.
_LIMITS = np.array(
    [
        [6, 3.6],
        [8, 4.4],
        [12, 4.65],
        [16, 4.6],
        [20, 4.45],
        [24, 4.25],
        [30, 4.05],
        [40, 3.8],
        [60, 3.5],
        [100, 3.3],
        [200, 3.2],
    ]
)
_MOST_DEPENDENCE = 0.9
# A step is found in four of five series if it is beyond the limit by this many errors: by
# simulation, because independent runs may look dependent too.
_FOUR_OF_FIVE = 1.6


def change_points(values: Float64Array) -> list[int]:
    """Return the indices at which a new level begins, ascending.

    Args:
        values: float64[n], one figure per run in order of time.
    """
    starts = _candidates(values)
    while starts:
        # With each step that is removed, the errors of the others grow.
        certainty = [_certainty(values, starts, number) for number in range(len(starts))]
        weakest = int(np.argmin(certainty))
        if certainty[weakest] > 1:
            break
        del starts[weakest]
    return starts


def _candidates(values: Float64Array) -> list[int]:
    """Return where levels would begin if runs did not depend on each other."""
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


def _certainty(values: Float64Array, starts: Sequence[int], number: int) -> float:
    """Return the separation at one of the starts, over the limit of so many runs."""
    bounds = [0, *starts, len(values)]
    runs = bounds[number + 2] - bounds[number]
    return separation(values, starts, number) / separation_limit(runs)


def separation(values: Float64Array, starts: Sequence[int], number: int = 0) -> float:
    """Return how far apart two neighbouring levels are, in standard errors of dependent runs.

    Args:
        values: float64[n], n at least 6.
        starts: where new levels begin, ascending; one at least.
        number: the start between the two levels, from 0.
    """
    first, second = np.split(values, starts)[number : number + 2]
    error = _deviation(values, starts) * np.sqrt(1 / len(first) + 1 / len(second))
    apart = abs(float(second.mean() - first.mean()))
    if error == 0:
        return float("inf") if apart else 0.0
    return apart / float(error)


def _deviation(values: Float64Array, starts: Sequence[int]) -> float:
    """Return the standard deviation about the levels, larger where neighbours are alike.

    The autocorrelation of the residuals is too small by about (1 + 3 r) / n for one mean that
    was taken out, and by 1 / n for each further one (Marriott and Pope, "Bias in the
    Estimation of Autocorrelations", Biometrika 41, 1954); a split was chosen as well.
    """
    residuals = _residuals(values, starts)
    found, levels = _autocorrelation(residuals), len(starts) + 1
    bias = (1 + levels + 3 * max(found, 0.0)) / len(values)
    alike = min(max(found + bias, 0.0), _MOST_DEPENDENCE)
    variance = sum_of_products(residuals, residuals) / (len(values) - levels)
    return float(np.sqrt(variance * (1 + alike) / (1 - alike)))


def separation_limit(runs: int) -> float:
    """Return the limit that the separation of that many runs of one level seldom exceeds."""
    return float(np.interp(np.log(runs), np.log(_LIMITS[:, 0]), _LIMITS[:, 1]))


def detectable_step(values: Float64Array, starts: Sequence[int]) -> float:
    """Return the step in the middle of such a series that is found in four of five.

    Args:
        values: float64[n], n at least 6.
        starts: the change points that were found.
    """
    errors = separation_limit(len(values)) + _FOUR_OF_FIVE
    return float(errors * 2 * _deviation(values, starts) / np.sqrt(len(values)))


def dependence(values: Float64Array, starts: Sequence[int] = ()) -> tuple[float, float]:
    """Return (autocorrelation, p-value) of neighbouring runs, changes left aside.

    The autocorrelation at lag 1 of the deviations from the levels, and the share of 199
    permutations of them that reach as much. Where under two changes were found the levels are
    those before and after the best split, of each permutation anew.

    Args:
        values: float64[n], at least two segments' worth.
        starts: the change points that were found.
    """
    generator = np.random.default_rng(_SEED)
    fixed = starts if len(starts) > 1 else None
    residuals = _residuals(values, fixed)
    observed = _autocorrelation(residuals)
    as_much = sum(
        _autocorrelation(_residuals(generator.permutation(residuals), fixed)) >= observed
        for _ in range(_PERMUTATIONS)
    )
    return observed, (as_much + 1) / (_PERMUTATIONS + 1)


def _residuals(values: Float64Array, starts: Sequence[int] | None) -> Float64Array:
    """Return the deviations from the levels; without ``starts`` from those of the best split."""
    levels = np.split(values, [best_split(values)[0]] if starts is None else starts)
    return np.concatenate([level - level.mean() for level in levels])


def _autocorrelation(residuals: Float64Array) -> float:
    squares = sum_of_products(residuals, residuals)
    return sum_of_products(residuals[1:], residuals[:-1]) / squares if squares else 0.0


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
