"""Targets of a search for a rate, simulated: whether each trial is sustained, without I/O.

A target has a limit, which its `truth` is. From trial to trial the limit differs by 2 %
(`NOISE`), and each kind of target adds its own trouble. A trial takes `SECONDS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from quiver_fast.cli.pair.rate_search import MOST_TRIALS, Limit, Trial, next_trial
from quiver_fast.cli.pair.warm_up import LONGEST, is_steady

NOISE = 0.02
SECONDS = 6.0
# A period of a warm-up with its start and end.
PERIOD = 3.0
# The condition of the targets with pauses, in seconds, and the length of their trials.
ALLOWED, SENDING = 0.05, 4.0

Sustains = Callable[[int, int, float], bool]
"""Says whether a trial is sustained: its rate, its number, the limit."""

Random = np.random.Generator


def steady(_random: Random) -> Sustains:
    """Nothing but the noise."""
    return lambda rate, _number, limit: rate <= limit


def stalling(share: float) -> Callable[[Random], Sustains]:
    """This share of the trials fails, whatever its rate."""

    def make(random: Random) -> Sustains:
        return lambda rate, _number, limit: rate <= limit and random.random() >= share

    return make


def disturbed(first: int) -> Callable[[Random], Sustains]:
    """The first trials fail: a burst of stalls."""
    return lambda _random: lambda rate, number, limit: number >= first and rate <= limit


def drifting(deviation: float, stays: float = 0.9) -> Callable[[Random], Sustains]:
    """An AR(1): the limit of a trial is near to that of the trial before."""

    def make(random: Random) -> Sustains:
        course = ar1(random, deviation, stays)
        return lambda rate, _number, limit: rate <= limit * math.exp(next(course))

    return make


def ar1(random: Random, deviation: float, stays: float) -> Iterator[float]:
    """Yield an AR(1) with this standard deviation."""
    now = random.normal(0, deviation)
    while True:
        yield now
        now = stays * now + random.normal(0, deviation * math.sqrt(1 - stays * stays))


def two_states(apart: float, leaves: float = 0.1) -> Callable[[Random], Sustains]:
    """The limit is in one of two states, as far below the truth as above it."""

    def make(random: Random) -> Sustains:
        high = random.random() < 0.5

        def sustains(rate: int, _number: int, limit: float) -> bool:
            nonlocal high
            high ^= random.random() < leaves
            return rate <= limit * math.exp(apart / 2 if high else -apart / 2)

        return sustains

    return make


def cold(warmed: bool) -> Callable[[Random], Sustains]:
    """A virtual machine that compiles: from a tenth of its speed to all of it in 15 to 30 s."""

    def make(random: Random) -> Sustains:
        whole = random.uniform(15, 30)

        def speed(seconds: float) -> float:
            return min(1, 0.1 + 0.9 * seconds / whole)

        begin, rates = 0.0, list[float]()
        while warmed and not is_steady(rates) and begin < LONGEST:
            begin += PERIOD
            rates.append(speed(begin) * random.normal(1, NOISE))
        return lambda rate, number, limit: rate <= limit * speed(begin + SECONDS * number)

    return make


def pausing(random: Random) -> Sustains:
    """Half of the trials have a pause of 3 ms to 300 ms somewhere: what waits longer than the
    condition allows fails it, and what is not sent at the end waited since it was due.
    """

    def sustains(rate: int, _number: int, limit: float) -> bool:
        pause = math.exp(random.uniform(math.log(0.003), math.log(0.3)))
        waits = min(pause, random.uniform(0, SENDING)) if random.random() < 0.5 else 0
        return rate <= limit and waits <= ALLOWED

    return sustains


TARGETS: dict[str, Callable[[Random], Sustains]] = {
    "noise of 2 %": steady,
    "4 % of trials stall": stalling(0.04),
    "15 % of trials stall": stalling(0.15),
    "20 % of trials stall": stalling(0.2),
    "30 % of trials stall": stalling(0.3),
    "first 4 trials stall": disturbed(4),
    "first 5 trials stall": disturbed(5),
    "AR(1), 2 %": drifting(0.02),
    "AR(1), 3 %": drifting(0.03),
    "AR(1), 5 %": drifting(0.05),
    "two states, 4 % apart": two_states(0.04),
    "two states, 8 % apart": two_states(0.08),
    "cold start, after a warm-up": cold(True),
    "cold start, without one": cold(False),
    "pauses of 3 to 300 ms": pausing,
}
"""All kinds of targets by their names."""


def calibrate(kind: str, sets: int, seed: int) -> tuple[int, int]:
    """Search so many targets of a kind.

    Returns:
        How many intervals hold the limit, and how many answers are within 5 % of it.
    """
    random = np.random.default_rng(seed)
    held = near = 0
    for truth in np.exp(random.uniform(math.log(1000), math.log(50_000), sets)):
        limit = searched(TARGETS[kind](random), float(truth), random)
        low, high = limit.interval
        held += low is not None and high is not None and low <= truth <= high
        near += limit.rate is not None and abs(limit.rate / truth - 1) <= 0.05
    return held, near


def searched(sustains: Sustains, truth: float, random: Random) -> Limit:
    """Search a target."""
    trials: list[Trial] = []
    while (found := next_trial(trials, 1000, MOST_TRIALS - len(trials))) is not None:
        limit = truth * random.normal(1, NOISE)
        sustained = sustains(found.rate, len(trials), limit)
        trials.append(Trial(found.rate, sustained, found.confirms, found.returns))
    return Limit(trials, 1000)
