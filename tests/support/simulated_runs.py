"""Runs whose truth is known, to judge comparisons by: levels, noise and memory are chosen."""

from __future__ import annotations

import numpy as np

from quiver_fast.analysis.compare.comparison import BETTER, WORSE, Sample, compare

# The relative scatter of a second within its run.
WITHIN = 0.02
SECONDS = 30
# Judged together, as the four figures of two sets of runs are.
FIGURES = ("rate", "p50", "p99", "max")


def simulated_set(
    random: np.random.Generator,
    *,
    runs: int,
    level: float = 100.0,
    memory: float = 0.0,
    between: float = 0.0,
    seconds: int = SECONDS,
) -> list[Sample]:
    """Return one figure of ``runs`` runs.

    Args:
        random: the source of the noise.
        runs: the number of runs.
        level: the mean of all runs.
        memory: the coefficient of the first-order autoregression of a run's seconds.
        between: the relative scatter of the levels of runs.
        seconds: the length of a run.
    """
    return [_run(random, level, memory, between, seconds) for _ in range(runs)]


def _run(
    random: np.random.Generator, level: float, memory: float, between: float, seconds: int
) -> Sample:
    own_level = level * (1 + random.normal(0, between))
    shocks = random.normal(0, WITHIN * (1 - memory**2) ** 0.5, seconds)
    noise = np.empty(seconds)
    noise[0] = random.normal(0, WITHIN)
    noise[1:] = shocks[1:]
    for second in range(1, seconds if memory else 1):
        noise[second] += memory * noise[second - 1]
    windows = own_level * (1 + noise)
    return Sample(float(windows.mean()), windows)


def false_alarms(*, sets: int, runs: int, memory: float, between: float) -> int:
    """Return the number of ``sets`` pairs of equal sets with a figure that seems to differ."""
    random = np.random.default_rng([runs, int(100 * memory), int(1000 * between)])
    larger = dict.fromkeys(FIGURES, True)
    alarms = 0
    for _ in range(sets):
        base, candidate = (
            {
                figure: simulated_set(random, runs=runs, memory=memory, between=between)
                for figure in FIGURES
            }
            for _ in range(2)
        )
        found = compare(base, candidate, larger)
        alarms += any(one.verdict in (BETTER, WORSE) for one in found.values())
    return alarms


def power(*, sets: int, runs: int, gain: float, between: float) -> int:
    """Return the number of ``sets`` pairs whose rate, larger by ``gain``, is called better."""
    random = np.random.default_rng([runs, int(1000 * gain)])
    hits = 0
    for _ in range(sets):
        base, candidate = (
            simulated_set(random, runs=runs, level=level, between=between)
            for level in (100.0, 100.0 * (1 + gain))
        )
        found = compare({"rate": base}, {"rate": candidate}, {"rate": True})
        hits += found["rate"].verdict == BETTER
    return hits
