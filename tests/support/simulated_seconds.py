"""Seconds of runs whose truth is known: levels, noise, memory, steps, trends and ramps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.steady import STEADY, Steadiness, steady_state
from quiver_fast.analysis.figures.windows import SecondCounts

Float64Array = NDArray[np.float64]

LEVEL = 100_000
NOISE = 0.02
MEMORIES = (0.0, 0.5, 0.8)
# Whole seconds of runs of 10 s to 5 min, and their first and last one.
LENGTHS = (10, 30, 60, 300)


def autoregression(
    random: np.random.Generator, runs: int, length: int, memory: float
) -> Float64Array:
    """Return series of a first-order autoregression of variance 1: float64[runs, length]."""
    series = random.normal(0, (1 - memory**2) ** 0.5, (runs, length))
    series[:, 0] = random.normal(0, 1, runs)
    for second in range(1, length if memory else 1):
        series[:, second] += memory * series[:, second - 1]
    return series


def second_counts(values: Float64Array, first: int = 1000) -> SecondCounts:
    """Return ``values``, rounded, as the counts of seconds from ``first`` on."""
    counts = np.rint(values).astype(np.int64)
    return SecondCounts(np.arange(first, first + len(counts), dtype=np.int64), counts)


def step(length: int, size: float) -> Float64Array:
    """Return a step in the midst, in units of the noise."""
    return size * (np.arange(length) >= length / 2)


def trend(length: int, size: float) -> Float64Array:
    """Return a line that rises by ``size`` over the run, in units of the noise."""
    return size * np.arange(length) / length


def ramp(length: int, share: float) -> Float64Array:
    """Return a rise from nothing to the level over a share of the run, likewise."""
    rise = (np.arange(length) + 0.5) / (share * length)
    return (np.minimum(rise, 1) - 1) / NOISE


def judged(shape: Float64Array, memory: float, runs: int, seed: int = 1) -> list[Steadiness]:
    """Judge runs of noise of 2 % and the given memory, with ``shape`` added to it."""
    random = np.random.default_rng([seed, len(shape), int(100 * memory)])
    noise = autoregression(random, runs, len(shape), memory)
    return [steady_state(second_counts(LEVEL * (1 + NOISE * (row + shape)))) for row in noise]


def share_not_steady(shape: Float64Array, memory: float, runs: int) -> float:
    """Return the number of runs that are not called steady."""
    return sum(one.verdict != STEADY for one in judged(shape, memory, runs)) / runs


def bias_after_ramp(share: float, length: int, memory: float, runs: int) -> tuple[float, float]:
    """Return the share of runs called steady, and the mean error of their rates."""
    found = [one.part for one in judged(ramp(length, share), memory, runs) if one.part]
    errors = [part.rate / LEVEL - 1 for part in found]
    return len(found) / runs, float(np.mean(errors)) if errors else 0.0
