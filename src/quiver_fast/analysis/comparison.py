"""Whether one set of measurements is better than another: windows of one second compared.

Each set gives one value per second of its runs' steady states (messages received, and
percentiles of their latency). A difference counts when three judges agree:

- The 95 % confidence interval of the difference of means leaves out 0. It is a
  percentile interval of the circular block bootstrap (Politis and Romano, "A Circular
  Block-Resampling Procedure for Stationary Data", 1992; blocks of ceil(n^(1/3)), the
  order that Künsch 1989 gives), because neighbouring seconds depend on each other.
- The Mann-Whitney U test (Mann and Whitney 1947; two-sided, normal approximation with
  the correction for ties and for continuity) gives p < 0.01.
- Cliff's delta, 2 * U / (n * m) - 1, is not negligible: at least 0.147 (Romano et al.,
  "Appropriate Statistics for Ordinal Level Data", 2006).

Under ten windows on a side there is no verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BETTER",
    "MINIMUM_WINDOWS",
    "NO_DIFFERENCE",
    "TOO_FEW",
    "WORSE",
    "Comparison",
    "bootstrap_difference",
    "compare",
    "mann_whitney",
]

Float64Array = NDArray[np.float64]

BETTER, WORSE = "better", "worse"
NO_DIFFERENCE, TOO_FEW = "no difference", "too few windows"

MINIMUM_WINDOWS = 10
CONFIDENCE = 0.95
SIGNIFICANCE = 0.01
NEGLIGIBLE_EFFECT = 0.147
_RESAMPLES = 2000
# Equal inputs give equal answers: the resampling is seeded.
_SEED = 20160828


@dataclass(frozen=True)
class Comparison:
    """One figure of a candidate against that of a base.

    Attributes:
        base, candidate: means over the windows; None without windows.
        base_windows, candidate_windows: numbers of windows.
        change: (candidate - base) / base; None when the base is 0, and without a verdict.
        difference: candidate - base; None without a verdict.
        interval: the confidence interval of the difference.
        p_value: of the Mann-Whitney test.
        effect: Cliff's delta, -1 to 1; above 0 when the candidate's values are larger.
        verdict: ``better``, ``worse``, ``no difference`` or ``too few windows``. With the
            last, all figures but the means and the numbers of windows are None.
    """

    base: float | None
    candidate: float | None
    base_windows: int
    candidate_windows: int
    change: float | None
    difference: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    effect: float | None
    verdict: str


def compare(base: Float64Array, candidate: Float64Array, *, larger_is_better: bool) -> Comparison:
    """Compare the values of two sets of windows.

    Args:
        base: float64[n], one value per window in order of time.
        candidate: float64[m], likewise.
        larger_is_better: true of rates, false of latencies.
    """
    means = (_mean(base), _mean(candidate))
    sizes = (len(base), len(candidate))
    if min(sizes) < MINIMUM_WINDOWS:
        return Comparison(*means, *sizes, None, None, None, None, None, TOO_FEW)
    difference = float(candidate.mean() - base.mean())
    change = difference / means[0] if means[0] else None
    interval = bootstrap_difference(base, candidate)
    p_value, effect = mann_whitney(base, candidate)
    verdict = _verdict(interval, p_value, effect, larger_is_better)
    return Comparison(*means, *sizes, change, difference, interval, p_value, effect, verdict)


def _mean(values: Float64Array) -> float | None:
    return float(values.mean()) if len(values) else None


def _verdict(
    interval: tuple[float, float], p_value: float, effect: float, larger_is_better: bool
) -> str:
    clear = interval[0] > 0 or interval[1] < 0
    if not clear or p_value >= SIGNIFICANCE or abs(effect) < NEGLIGIBLE_EFFECT:
        return NO_DIFFERENCE
    if (interval[0] > 0) != (effect > 0):
        return NO_DIFFERENCE
    return BETTER if (effect > 0) == larger_is_better else WORSE


def mann_whitney(base: Float64Array, candidate: Float64Array) -> tuple[float, float]:
    """Return (two-sided p-value, Cliff's delta) of non-empty ``candidate`` against ``base``."""
    n, m = len(base), len(candidate)
    together = np.concatenate((base, candidate))
    _, places, ties = np.unique(together, return_inverse=True, return_counts=True)
    # The mean rank of equal values: those below, plus the middle of their own.
    ranks = np.cumsum(ties) - (ties - 1) / 2
    u = float(ranks[places[n:]].sum()) - m * (m + 1) / 2
    effect = 2 * u / (n * m) - 1
    cubes = float((ties.astype(np.float64) ** 3 - ties).sum())
    variance = n * m / 12 * ((n + m + 1) - cubes / ((n + m) * (n + m - 1)))
    if variance <= 0:
        return 1.0, effect
    distance = max(abs(u - n * m / 2) - 0.5, 0.0)
    return math.erfc(distance / math.sqrt(2 * variance)), effect


def bootstrap_difference(base: Float64Array, candidate: Float64Array) -> tuple[float, float]:
    """Return the 95 % interval of mean(candidate) - mean(base), both non-empty."""
    generator = np.random.default_rng(_SEED)
    differences = _resampled_means(candidate, generator) - _resampled_means(base, generator)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(differences, (tail, 1 - tail))
    return float(low), float(high)


def _resampled_means(values: Float64Array, generator: np.random.Generator) -> Float64Array:
    """Return the means of series made of blocks of ``values`` drawn at random."""
    length = math.ceil(len(values) ** (1 / 3))
    around = np.concatenate((values, values[: length - 1]))
    sums = np.cumsum(np.concatenate(([0.0], around)))
    block_means = (sums[length:] - sums[:-length]) / length
    draws = generator.integers(len(values), size=(_RESAMPLES, math.ceil(len(values) / length)))
    means: Float64Array = block_means[draws].mean(axis=1)
    return means
