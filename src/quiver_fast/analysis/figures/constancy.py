"""Whether a run keeps one level: a trend test and a step test on batch means.

Neighbouring seconds of a run resemble each other, so that chance makes trends and steps
which a test for independent seconds takes for real. The seconds are therefore put together
to at most twelve batches of equal length, as the method of batch means does (Law, "Simulation
Modeling and Analysis", 9.5.3): their means depend on each other less, the longer the run is.

What dependence is left in short runs is in the limits: each is the largest that 2.5 % of
simulated series without a change go beyond, over first-order autoregressions with
coefficients from 0 to 0.8. ``tests/support/steady_calibration.py`` makes them.

Trend: the slope of a straight line through the batch means over its standard error. Step:
two levels with the border within a batch, which may then lie between them; of all places the
one that leaves the least sum of squares. Its statistic is the root of (squares explained /
(squares left / (batches - 3))). Episode: likewise, for neighbouring batches with a level of their
own anywhere in the run, with up to two borders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.distribution import Float64Array, sum_of_products

_MOST_BATCHES = 12
# Seconds that are looked at together; a run of months has millions.
_PIECE = 1 << 16

# Seconds, and the limits of the statistics at that number; interpolated by its logarithm.
_LIMITS = np.array(
    [
        [6, 7.6, 10.0, 22.5],
        [8, 7.3, 9.4, 13.0],
        [12, 7.3, 9.1, 10.75],
        [18, 6.9, 9.0, 10.75],
        [26, 6.0, 8.2, 10.5],
        [40, 5.05, 7.1, 9.5],
        [64, 4.25, 5.95, 8.1],
        [100, 3.6, 5.1, 7.2],
        [200, 3.1, 4.35, 6.2],
        [500, 2.78, 3.92, 5.7],
        [1000, 2.7, 3.82, 5.6],
    ]
)
# Fewer seconds are a pause, and no level.
_LEAST_LEVEL = 3
# A smaller change, as a share of the mean, does not matter to any figure.
_MATTERS = 0.01
# The scatter of a rate that is counted in whole messages.
_ROUNDING = 1 / 12
# A step is found in four of five runs if it is beyond the limit by this many standard errors.
_FOUR_OF_FIVE = 0.85


@dataclass(frozen=True)
class Step:
    """Two levels.

    Attributes:
        at: seconds from the beginning of the first count to the border between them.
        before, after: the levels, counts per second.
    """

    at: float
    before: float
    after: float


@dataclass(frozen=True)
class Trend:
    """A straight line.

    Attributes:
        percent_per_minute: how much it rises, of the mean.
    """

    percent_per_minute: float


@dataclass(frozen=True)
class Episode:
    """Neighbouring values with a level of their own.

    Attributes:
        first, end: the places of the first of them and of the first one after them.
        level, others: the medians of these and of the others; values at borders count in neither.
    """

    first: int
    end: int
    level: float
    others: float


def batch_edges(count: int) -> NDArray[np.intp]:
    """Return where at most twelve batches of as equal length as can be begin, and the end."""
    return np.rint(np.linspace(0, count, min(count, _MOST_BATCHES) + 1)).astype(np.intp)


def batch_means(counts: NDArray[Any]) -> Float64Array:
    """Return the means of these batches of neighbours."""
    edges = batch_edges(len(counts))
    means: Float64Array = np.add.reduceat(counts, edges[:-1]) / np.diff(edges)
    return means


def episode_statistics(means: Float64Array) -> tuple[Float64Array, NDArray[np.intp]]:
    """Return the statistic of the best episode of each of several series, and where it is.

    Args:
        means: float64[n, k], k at least 6.

    Returns:
        float64[n], and the first batch and the one behind the last, intp[n, 2].
    """
    count, total = means.shape
    deviations = means - means.mean(axis=1, keepdims=True)
    squares = np.square(deviations).sum(axis=1)
    best, places = np.full(count, np.inf), np.zeros((count, 2), np.intp)
    for first, end in combinations(range(total + 1), 2):
        outside = np.r_[0 : max(first - 1, 0), min(end + 1, total) : total]
        if len(outside) < 2:
            continue
        within = deviations[:, first:end].mean(axis=1)
        others = deviations[:, outside].mean(axis=1)
        left = np.square(deviations[:, first:end] - within[:, None]).sum(axis=1)
        left += np.square(deviations[:, outside] - others[:, None]).sum(axis=1)
        for border in {first - 1, end} & {*range(total)}:
            at = deviations[:, border]
            nearest = np.clip(at, np.minimum(within, others), np.maximum(within, others))
            left += np.square(at - nearest)
        better = left < best
        best[better], places[better] = left[better], (first, end)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (squares - best) / np.maximum(best / (total - 3), 0.0)
    return np.sqrt(np.nan_to_num(np.maximum(ratios, 0.0), nan=0.0, posinf=np.inf)), places


def episode(values: NDArray[Any], measure: NDArray[Any] | None = None) -> Episode | None:
    """Return the episode in a series that does not keep its level; else None.

    Args:
        values: [n], those of neighbouring seconds, n at least 6.
        measure: the scale in which they have even noise, such as their logarithms; None for
            the values themselves.
    """
    means = batch_means(values if measure is None else measure)
    [found], [place] = episode_statistics(means[None])
    if found <= limits_at(len(values))[2]:
        return None
    edges = batch_edges(len(values)).tolist()
    first, end = edges[place[0]], edges[place[1]]
    before, after = edges[max(place[0] - 1, 0)], edges[min(place[1] + 1, len(means))]
    level = float(np.median(values[first:end]))
    others = float(np.median(np.concatenate((values[:before], values[after:]))))
    # The borders are within the batches beside it.
    near = np.abs(values - level) < np.abs(values - others)
    first -= int(np.count_nonzero(near[before:first]))
    end += int(np.count_nonzero(near[end:after]))
    if not _LEAST_LEVEL <= end - first <= len(values) - _LEAST_LEVEL:
        return None
    return Episode(first, end, level, others)


def statistics(means: Float64Array, least: float = 0.0) -> tuple[float, float]:
    """Return the statistics of the trend and of the step.

    Args:
        means: float64[n], n at least 6.
        least: the variance that a mean has at least.
    """
    total = len(means)
    places = np.arange(total) - (total - 1) / 2
    deviations = means - means.mean()
    squares = sum_of_products(deviations, deviations)
    spread = sum_of_products(places, places)
    explained = sum_of_products(deviations, places) ** 2 / spread
    left, _, _, _ = _best_border(deviations)
    return (
        _root_ratio(explained, squares - explained, total - 2, least),
        _root_ratio(squares - left, left, total - 3, least),
    )


def _root_ratio(explained: float, left: float, freedom: int, least: float) -> float:
    variance = max(left / freedom, least)
    if variance <= 0:
        return float("inf") if explained > 0 else 0.0
    return float(np.sqrt(max(explained, 0.0) / variance))


def _best_border(values: NDArray[Any], offset: float = 0.0) -> tuple[float, int, float, float]:
    """Return (sum of squares left, index, level before, level after) of the best border.

    The value at the index may be anywhere between the levels: the border is within it.

    Args:
        values: [n], n at least 5.
        offset: is taken off each of them first.
    """
    ending = 0.0, 0.0
    for _, _, sums, squares in _running_sums(values, offset):
        ending = float(sums[-1]), float(squares[-1])
    best = np.inf, 0, 0.0, 0.0
    for start, piece, sums, squares in _running_sums(values, offset):
        found = _best_within(start, piece, (sums, squares), ending, len(values))
        # Among equal values the first one counts.
        best = found if found is not None and found[0] < best[0] else best
    return max(best[0], 0.0), *best[1:]


def _running_sums(
    values: NDArray[Any], offset: float
) -> Iterator[tuple[int, Float64Array, Float64Array, Float64Array]]:
    """Yield (index of the first, values, their sums, sums of their squares) of pieces.

    The sums are of all values before each of the piece, and behind its last.
    """
    total = squares = 0.0
    for start in range(0, len(values), _PIECE):
        piece = (values[start : start + _PIECE] - offset).astype(np.float64)
        sums = np.cumsum(np.append(total, piece))
        powers = np.cumsum(np.append(squares, piece * piece))
        total, squares = float(sums[-1]), float(powers[-1])
        yield start, piece, sums, powers


def _best_within(
    start: int,
    values: Float64Array,
    running: tuple[Float64Array, Float64Array],
    ending: tuple[float, float],
    total: int,
) -> tuple[float, int, float, float] | None:
    """Return the best of the borders within a piece; None if it has none."""
    first = max(start, 2)
    borders = np.arange(first, min(start + len(values), total - 2))
    if len(borders) == 0:
        return None
    here = slice(first - start, first - start + len(borders))
    beyond = slice(here.start + 1, here.stop + 1)
    sums, squares = running
    before = sums[here] / borders
    after = (ending[0] - sums[beyond]) / (total - borders - 1)
    left = squares[here] - borders * before * before
    left += ending[1] - squares[beyond] - (total - borders - 1) * after * after
    within = values[here]
    outside = np.maximum(np.minimum(before, after) - within, within - np.maximum(before, after))
    left += np.square(np.maximum(outside, 0.0))
    best = int(np.argmin(left))
    return float(left[best]), int(borders[best]), float(before[best]), float(after[best])


def limits_at(seconds: int) -> tuple[float, float, float]:
    """Return what trend, step and episode of that many seconds of one level seldom exceed."""
    at = np.log(seconds)
    trend, step, episode = (np.interp(at, np.log(_LIMITS[:, 0]), _LIMITS[:, n]) for n in (1, 2, 3))
    return float(trend), float(step), float(episode)


def change(counts: NDArray[np.int64]) -> Step | Trend | None:
    """Return the trend or the step in a series that does not keep its level; else None.

    If both exceed chance, the one that leaves the smaller sum of squares is returned.

    Args:
        counts: int64[n] of neighbouring seconds, n at least 6.
    """
    means = batch_means(counts)
    found = statistics(means, _least_variance(counts, means))
    beyond = [one > limit for one, limit in zip(found, limits_at(len(counts)), strict=False)]
    step, step_left = _step(counts)
    trend, trend_left = _trend(counts)
    mean = float(counts.mean())
    moved = trend.percent_per_minute / 100 * len(counts) / 60
    steps = beyond[1] and abs(step.after - step.before) > _MATTERS * mean
    trends = beyond[0] and abs(moved) > _MATTERS
    if steps and not (trends and trend_left < step_left):
        return step
    return trend if trends else None


def detectable(counts: NDArray[np.int64]) -> float:
    """Return the step in the middle, as a share of the mean, that is found in four of five runs.

    Args:
        counts: int64[n] of neighbouring seconds of one level, n at least 6, not all 0.
    """
    means = batch_means(counts)
    deviation = np.sqrt(max(float(means.var(ddof=1)), _least_variance(counts, means)))
    errors = limits_at(len(counts))[1] + _FOUR_OF_FIVE
    return float(errors * 2 * deviation / np.sqrt(len(means)) / counts.mean())


def _least_variance(counts: NDArray[np.int64], means: Float64Array) -> float:
    length = len(counts) / len(means)
    return float(_ROUNDING / length**2)


def _step(counts: NDArray[np.int64]) -> tuple[Step, float]:
    """Return the best step between or within seconds, and the sum of squares that it leaves."""
    middle = float(np.median(counts))
    left, index, before, after = _best_border(counts, middle)
    share = 0.5
    if before != after:
        share = (float(counts[index]) - middle - after) / (before - after)
    at = index + min(max(share, 0.0), 1.0)
    return Step(at, before + middle, after + middle), left


def _trend(counts: NDArray[np.int64]) -> tuple[Trend, float]:
    """Return the straight line, and the sum of squares that it leaves; the mean is above 0."""
    mean = float(counts.mean())
    product = spread = 0.0
    for places, deviations in _deviations(counts, mean):
        product += sum_of_products(deviations, places)
        spread += sum_of_products(places, places)
    slope, left = product / spread, 0.0
    for places, deviations in _deviations(counts, mean):
        rest = deviations - slope * places
        left += sum_of_products(rest, rest)
    return Trend(100 * 60 * slope / mean), left


def _deviations(
    counts: NDArray[np.int64], mean: float
) -> Iterator[tuple[Float64Array, Float64Array]]:
    """Yield places, counted from the middle, and deviations from the mean there, in pieces."""
    middle = (len(counts) - 1) / 2
    for start in range(0, len(counts), _PIECE):
        piece: Float64Array = counts[start : start + _PIECE].astype(np.float64)
        places = np.arange(start, start + len(piece), dtype=np.float64)
        yield places - middle, piece - mean
