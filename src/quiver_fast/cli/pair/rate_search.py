"""The search for the highest rate that a target sustains: which rate to try next.

Nothing here measures: all functions take the trials so far, so that tests can search a simulated
target. The *limit* is the rate that is sustained in half of the trials. How likely each
rate is to be the limit follows from the trials by Bayes' theorem; `_chances` has the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

MOST_TRIALS = 25
CONFIRMATIONS = 3
"""Runs at the answer, and as many just above it."""

OVERHEAD = 2
"""Seconds that a trial takes besides its duration, about: start, drain, analysis."""

_HIGHEST = 1_000_000_000
# The candidates for the limit, as logarithms: their distance, and their range around the trials.
_STEP = 0.005
_AROUND = 3.0
# From run to run the limit differs by one of these shares (standard deviations), equally likely.
_NOISES = np.array([0.005, 0.01, 0.02, 0.04, 0.08])[:, None]
# Machines stall now and then: this share of trials below the limit fails. Almost all above fail.
_STALLS = 0.04
_LUCK = 0.004
# The logistic function of this times x is close to the normal distribution's at x.
_LOGISTIC = 1.702
# The limit is known well enough to be confirmed (standard deviation).
_SETTLED = 0.012
# The distance of the answer, and of the rate just above it, from the likeliest limit.
_BESIDE = 0.007
# Wider than its 95 %, because the model is simpler than any server.
_INTERVAL = (0.012, 0.988)

Float64Array = NDArray[np.float64]


@dataclass(frozen=True)
class Trial:
    """One run at one rate.

    Attributes:
        rate: messages per second.
        sustained: the target sustained it.
        confirms: the run is part of the confirmation of the answer.
    """

    rate: int
    sustained: bool
    confirms: bool = False


class Limit:
    """The highest sustained rate, as some trials show it.

    Args:
        trials: in the order of measuring.
        start: the rate at which they began.
    """

    def __init__(self, trials: Sequence[Trial], start: int) -> None:
        self._trials = trials
        self._start = start

    @property
    def is_enclosed(self) -> bool:
        """Whether some rate was sustained, and some was not."""
        return {one.sustained for one in self._trials} == {True, False}

    @cached_property
    def _rates(self) -> Float64Array:
        tried = [math.log(one.rate) for one in self._trials]
        return np.arange(min(tried) - _AROUND, max(tried) + _AROUND, _STEP)

    @cached_property
    def _chances(self) -> Float64Array:
        """The chance that the limit is below each rate, or there.

        Before all trials, a rate twice as far from the start is half as likely. A trial at a rate
        below the limit is sustained unless noise or a stall prevents it.
        """
        logarithm = np.zeros_like(_NOISES) - np.abs(self._rates - math.log(self._start))
        for one in self._trials:
            distance = np.clip(_LOGISTIC * (self._rates - math.log(one.rate)) / _NOISES, -50, 50)
            sustained = _LUCK + (1 - _LUCK - _STALLS) / (1 + np.exp(-distance))
            logarithm += np.log(sustained if one.sustained else 1 - sustained)
        chances = np.exp(logarithm - logarithm.max()).sum(axis=0)
        total: Float64Array = np.cumsum(chances / chances.sum())
        return total

    def quantile(self, share: float) -> float:
        """Return the rate below which the limit is with this probability."""
        return math.exp(float(np.interp(share, self._chances, self._rates)))

    @property
    def median(self) -> float:
        """The rate that the limit is as likely above as below."""
        return self.quantile(0.5)

    @property
    def is_settled(self) -> bool:
        """Whether it is known well enough for an answer, or to one message per second."""
        low, high = self.quantile(0.16), self.quantile(0.84)
        return high - low < 1 or math.log(high / low) / 2 < _SETTLED

    @property
    def rate(self) -> int | None:
        """The answer: the rate that was confirmed, or else the median; None for none.

        Where no rate fails it is the highest that was tried.
        """
        if not self.is_enclosed:
            return max((one.rate for one in self._trials if one.sustained), default=None)
        at, _ = self.confirmations
        return at[0].rate if self.is_confirmed else max(round(self.median), 1)

    @property
    def interval(self) -> tuple[int | None, int | None]:
        """The rates between which the limit is, with 95 % probability; None for no bound."""
        rate = self.rate
        if rate is None or not self.is_enclosed:
            failed = (one.rate for one in self._trials if not one.sustained)
            return rate, min(failed, default=None)
        low, high = map(self.quantile, _INTERVAL)
        return min(math.floor(low), rate), max(math.ceil(high), rate + 1)

    @property
    def confirmations(self) -> tuple[list[Trial], list[Trial]]:
        """The last runs at the answer, and those just above it, that confirm it."""
        runs = [one for one in self._trials if one.confirms]
        whole = 2 * CONFIRMATIONS
        last = runs[-(len(runs) % whole or whole) :]
        return last[1::2], last[::2]

    @property
    def is_confirmed(self) -> bool:
        """Whether most runs at the answer were sustained, and most just above it failed."""
        at, above = self.confirmations
        held, failed = sum(one.sustained for one in at), sum(not one.sustained for one in above)
        return 2 * min(held, failed) > CONFIRMATIONS


def trial_seconds(within: int) -> int:
    """Return the duration of a trial that lets all trials fit in this many seconds."""
    return max(within // MOST_TRIALS - OVERHEAD, 1)


def next_trial(trials: Sequence[Trial], start: int, left: int) -> tuple[int, bool] | None:
    """Return the rate to try next, and whether that confirms the answer; None at the end.

    Doubles the rate until it fails (halves it until it is sustained), then tries the likeliest
    limit until that is known well, and confirms: runs at the answer take turns with runs just
    above it, so that a machine that slows down or recovers affects both alike. Their results
    count as well: where they refute the answer, the search goes on.

    Args:
        trials: those so far.
        start: where to begin, messages per second, at least 1.
        left: how many more trials there is time for.
    """
    begun = _begun_confirmation(trials)
    if left < 1 or (begun == 2 * CONFIRMATIONS and Limit(trials, start).is_confirmed):
        return None
    if 0 < begun < 2 * CONFIRMATIONS:
        return _in_turn(trials, begun), True
    top = _top(trials)
    if top is None or all(one.rate <= top for one in trials):
        rate = _doubled(trials, start, top)
        return None if rate is None else (rate, False)
    limit = Limit(trials, start)
    if not limit.is_settled and left > 2 * CONFIRMATIONS:
        return max(round(limit.median), 1), False
    if begun and left < 2 * CONFIRMATIONS:
        return None
    return _just_above(limit.median), True


def _begun_confirmation(trials: Sequence[Trial]) -> int:
    """Return how many runs of a confirmation the trials end with, at most all of one."""
    count = 0
    while count < len(trials) and trials[-1 - count].confirms:
        count += 1
    whole = 2 * CONFIRMATIONS
    return whole if count and count % whole == 0 else count % whole


def _in_turn(trials: Sequence[Trial], begun: int) -> int:
    """Return the rate of the next run of a confirmation."""
    if begun == 1:
        return _just_below(trials[-1].rate)
    return trials[-2].rate


def _just_above(median: float) -> int:
    return max(math.ceil(median * math.exp(_BESIDE)), 2)


def _just_below(above: int) -> int:
    """Return the answer to which ``above`` is the rate just above."""
    return max(min(math.floor(above * math.exp(-2 * _BESIDE)), above - 1), 1)


def _top(trials: Sequence[Trial]) -> int | None:
    """Return the highest rate that was sustained; None for none."""
    return max((one.rate for one in trials if one.sustained), default=None)


def _doubled(trials: Sequence[Trial], start: int, top: int | None) -> int | None:
    """Return the next rate while none fails above ``top``, or all fail; None at the last one."""
    if top is not None:
        return None if top >= _HIGHEST else min(2 * top, _HIGHEST)
    rates = [one.rate for one in trials]
    if not rates:
        return start
    if min(rates) > 1:
        return max(min(rates) // 2, 1)
    # A stall at the lowest rate is not a limit of the target.
    return 1 if rates.count(1) < 2 else None
