"""Print the limits for change points: `python -m support.change_calibration`."""

from __future__ import annotations

import numpy as np

from quiver_fast.analysis.compare.changepoints import best_split, separation
from support.simulated_seconds import autoregression

BEYOND = 0.055
MEMORIES = (0.0, 0.3, 0.6)
LENGTHS = (6, 8, 12, 16, 20, 24, 30, 40, 60, 100, 200)


def limit(runs: int, series: int) -> float:
    """Return the value that 5.5 % of series without a change exceed, for the worst memory."""
    found = []
    for memory in MEMORIES:
        random = np.random.default_rng([runs, int(10 * memory)])
        rows = autoregression(random, series, runs, memory)
        each = [separation(row, [best_split(row)[0]]) for row in rows]
        found.append(float(np.quantile(each, 1 - BEYOND)))
    return max(found)


if __name__ == "__main__":
    for number in LENGTHS:
        print(number, f"{limit(number, 4000):.2f}")
