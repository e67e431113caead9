"""Print the limits of trends, steps and episodes: `python -m support.steady_calibration`."""

from __future__ import annotations

import numpy as np

from quiver_fast.analysis.figures.constancy import batch_means, episode_statistics, statistics
from support.simulated_seconds import autoregression

BEYOND = 0.025
MEMORIES = (0.0, 0.5, 0.7, 0.8)
LENGTHS = (6, 8, 12, 18, 26, 40, 64, 100, 200, 500, 1000)


def limits(length: int, runs: int) -> tuple[float, float, float]:
    """Return the value that 2.5 % of series without a change exceed, for the worst memory."""
    found = []
    for memory in MEMORIES:
        random = np.random.default_rng([length, int(10 * memory)])
        series = autoregression(random, runs, length, memory)
        means = np.array([batch_means(row) for row in series])
        both = np.array([statistics(row) for row in means])
        each = np.column_stack((both, episode_statistics(means)[0]))
        found.append(np.quantile(each, 1 - BEYOND, axis=0))
    trend, step, episode = np.max(found, axis=0).tolist()
    return trend, step, episode


if __name__ == "__main__":
    for seconds in LENGTHS:
        print(seconds, *(f"{limit:.2f}" for limit in limits(seconds, 20_000)))
