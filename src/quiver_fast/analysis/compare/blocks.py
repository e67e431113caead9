"""Means of a series that depends on itself: resampling in blocks of a fitting length."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]


def block_length(values: Float64Array) -> int:
    """Return how many neighbours of ``values`` a block of the bootstrap holds together.

    The length that minimises the mean squared error of the circular block bootstrap's
    variance, estimated from the autocovariances through a flat-top window: Politis and
    White, "Automatic Block-Length Selection for the Dependent Bootstrap", Econometric
    Reviews 23, 2004, with the correction of Patton, Politis and White, 28, 2009.

    Args:
        values: float64[n], n at least 2.
    """
    n = len(values)
    longest = math.ceil(min(3 * math.sqrt(n), n / 3))
    covariances = _autocovariances(values, n - 1)
    if covariances[0] <= 0:
        return 1
    half = _reach(covariances / covariances[0], n)
    lags = np.arange(-2 * half, 2 * half + 1)
    lags = lags[np.abs(lags) < n]
    window = np.clip(2 * (1 - np.abs(lags) / (2 * half)), 0.0, 1.0)
    weighted = window * covariances[np.abs(lags)]
    spectrum = float(weighted.sum())
    slope = float((np.abs(lags) * weighted).sum())
    if spectrum == 0:
        return longest
    length = (2 * slope**2 / (4 / 3 * spectrum**2)) ** (1 / 3) * n ** (1 / 3)
    return max(1, int(min(math.ceil(length), longest)))


def _autocovariances(values: Float64Array, largest_lag: int) -> Float64Array:
    deviations = values - values.mean()
    n = len(values)
    return np.array(
        [
            float(np.dot(deviations[: n - lag], deviations[lag:])) / n
            for lag in range(largest_lag + 1)
        ]
    )


def _reach(correlations: Float64Array, n: int) -> int:
    """Return the lag after which correlations are no larger than those of noise."""
    quiet = max(5, math.ceil(math.sqrt(math.log10(n))))
    limit = 2 * math.sqrt(math.log10(n) / n)
    loud = np.abs(correlations[1:]) > limit
    for lag in range(len(loud)):
        if not loud[lag : lag + quiet].any():
            return max(lag, 1)
    return max(len(loud), 1)


def resampled_means(
    values: Float64Array, resamples: int, generator: np.random.Generator
) -> Float64Array:
    """Return the means of series made of blocks of ``values`` drawn at random.

    Blocks go on from the end of the series at its beginning (the circular block
    bootstrap: Politis and Romano, 1992).

    Args:
        values: float64[n], n at least 2.
        resamples: how many series.
        generator: where the draws come from.
    """
    length = block_length(values)
    around = np.concatenate((values, values[: length - 1]))
    sums = np.cumsum(np.concatenate(([0.0], around)))
    block_means = (sums[length:] - sums[:-length]) / length
    draws = generator.integers(len(values), size=(resamples, math.ceil(len(values) / length)))
    means: Float64Array = block_means[draws].mean(axis=1)
    return means
