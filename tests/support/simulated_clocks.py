"""Records of two clocks whose drift is known, under delays of several shapes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.clock import drift
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.model.units import PER_SECOND

Float64Array = NDArray[np.float64]

NOISES = ("exponential", "lognormal", "bursts", "constant")
DRIFTS = (0, 1, -1, 10, -10, 50, -50)
# The least delay, and messages/s of a run: an hour takes no more memory than a few minutes.
_FLOOR = 1e-4
_RATE, _MOST_MESSAGES = 50, 20_000
_OFFSET = 0.37


def recorded(
    random: np.random.Generator, noise: str, unit: str, seconds: int, ppm: float
) -> SecondHistogram:
    """Return the records of a receiver whose clock gains ``ppm`` on its sender's."""
    count = min(_RATE * seconds, _MOST_MESSAGES)
    sent = 1000 + random.uniform(0, 1) + np.sort(random.uniform(0, seconds, count))
    arrived = sent + _FLOOR + _delays(random, noise, sent - sent[0])
    received = arrived + _OFFSET + (arrived - sent[0]) * ppm / 1e6
    ticks = PER_SECOND[unit]
    s, r = ((times * ticks).astype(np.int64) for times in (sent, received))
    return SecondHistogram.from_rows(r // ticks, r - s, np.ones(count, np.int64), unit)


def _delays(random: np.random.Generator, noise: str, at: Float64Array) -> Float64Array:
    """Return seconds of delay above the least one."""
    if noise == "constant":
        return random.uniform(0, 2e-6, len(at))
    if noise == "lognormal":
        return 5e-4 * np.exp(random.normal(0, 0.7, len(at)))
    delays = random.exponential(2e-4, len(at))
    return delays + _bursts(random, at) if noise == "bursts" else delays


def _bursts(random: np.random.Generator, at: Float64Array) -> Float64Array:
    """Return 1 to 20 ms in a third of spells that last two seconds in the mean."""
    ends = np.cumsum(random.exponential(2.0, int(at[-1]) + 20))
    heights = random.uniform(1e-3, 2e-2, len(ends) + 1) * (np.arange(len(ends) + 1) % 3 == 0)
    found: Float64Array = heights[np.searchsorted(ends, at)]
    return found


def held(noise: str, unit: str, seconds: int, ppm: float, runs: int) -> int:
    """Return the number of ``runs`` whose interval holds the true drift."""
    random = np.random.default_rng([NOISES.index(noise), seconds, int(100 + ppm)])
    found = [drift(recorded(random, noise, unit, seconds, ppm)) for _ in range(runs)]
    return sum(one is not None and one.low_ppm <= ppm <= one.high_ppm for one in found)
