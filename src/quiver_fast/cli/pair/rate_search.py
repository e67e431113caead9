"""The search for the highest rate that a target sustains: which rate to try next.

Nothing here measures: all functions take the trials so far, so that tests can search a simulated
target. The *limit* is the rate that is sustained in half of the trials that do not stall. How
likely each rate is to be the limit follows from the trials by Bayes' theorem; `_weights` has the
model, which is the psi-marginal method (Prins, "The psi-marginal adaptive method", Journal of
Vision 13(7), 2013): noise and stalls are unknown too, and are summed over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

MOST_TRIALS = 30
CONFIRMATIONS = 3
"""Runs at the answer, and as many just above it."""

OVERHEAD = 2
"""Seconds that a trial takes besides its duration, about: start, drain, analysis."""

_HIGHEST = 1_000_000_000
# The candidates for the limit, as logarithms: their distance, and their range around the trials.
_STEP = 0.01
_AROUND = 2.0
# Before all trials, a rate four times as far from the start is half as likely.
_FALL = 0.5
# From run to run the limit differs by one of these shares (standard deviations), equally likely.
_NOISES = np.array([0.005, 0.015, 0.04, 0.1])[:, None, None, None]
# This share of all trials stalls, and a stall lasts on with this probability (beyond the share):
# the burst-noise channel (Gilbert, "Capacity of a Burst-Noise Channel", BSTJ 39, 1960).
_STALLS = np.array([0.02, 0.08, 0.2, 0.4])[:, None, None]
_LASTS = np.array([0.0, 0.8])[:, None]
# By luck, a trial above the limit is sustained, or one below it is not.
_LUCK = 0.004
# The logistic function of this times x is close to the normal distribution's at x.
_LOGISTIC = 1.702
# The limit is known well enough to be confirmed (standard deviation).
_SETTLED = 0.012
# The distance of the answer, and of the rate just above it, from the likeliest limit.
_BESIDE = 0.01
# After two equal results in a row, the limit is beyond the next rate with this probability.
_BEYOND = 0.15
# A trial that failed alone is repeated before the search goes farther than this (logarithm).
_PLACE = 0.05
# Trials so near to the limit (logarithm) show whether it drifts, in as many parts of the time.
_NEAR, _PARTS = 0.15, 3
# So far it drifts at least: a search is too short to see all (standard deviation).
_DRIFT = 0.02
_DEVIATIONS = 2
# Wider than its 95 %, because the model is simpler than any server.
_INTERVAL = (0.012, 0.988)

Float64Array = NDArray[np.float64]


@dataclass(frozen=True)
class Trial:
    """One run at one rate.

    Attributes:
        rate: messages per second.
        sustained: the target sustained it; False before the run.
        confirms: the run is part of the confirmation of the answer.
        returns: the run tries an early rate again, after the confirmation.
    """

    rate: int
    sustained: bool = False
    confirms: bool = False
    returns: bool = False


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

    def _weights(self) -> Float64Array:
        """Return how likely each rate is to be the limit, noise and stalls summed over.

        A trial is sustained with a probability that falls from 1 to 0 around the limit, unless
        it stalls. Whether it stalls is a hidden state, which may last for several trials: the
        forward algorithm follows its probability from trial to trial.
        """
        shape = np.broadcast_shapes(_NOISES.shape, _STALLS.shape, _LASTS.shape, self._rates.shape)
        stalls = np.broadcast_to(_STALLS, shape)
        logarithm = np.zeros(shape) - _FALL * np.abs(self._rates - math.log(self._start))
        for one in self._trials:
            distance = np.clip(_LOGISTIC * (self._rates - math.log(one.rate)) / _NOISES, -50, 50)
            chance = _LUCK + (1 - 2 * _LUCK) / (1 + np.exp(-distance))
            stalled = stalls * (_LUCK if one.sustained else 1 - _LUCK)
            total = stalled + (1 - stalls) * (chance if one.sustained else 1 - chance)
            logarithm += np.log(total)
            stalls = _LASTS * stalled / total + (1 - _LASTS) * _STALLS
        weights: Float64Array = np.exp(logarithm - logarithm.max()).sum(axis=(0, 1, 2))
        return weights

    @cached_property
    def _chances(self) -> Float64Array:
        """The chance that the limit is below each rate, or there."""
        weights = self._weights()
        total: Float64Array = np.cumsum(weights / weights.sum())
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
        median, drift = self.median, _DEVIATIONS * self._drift()
        bounds = map(self.quantile, _INTERVAL)
        low, high = (math.hypot(math.log(bound / median), drift) for bound in bounds)
        least, most = median * math.exp(-low), median * math.exp(high)
        return min(math.floor(least), rate), max(math.ceil(most), rate + 1)

    def _drift(self) -> float:
        """Return how far the limit drifts with time: a standard deviation of its logarithm.

        It is the delete-a-group jackknife (Kott, Journal of Official Statistics 17(4), 2001) over
        parts of the time: how much the median moves without the trials of one part. The model
        takes trials for independent, so that it does not know.
        """
        near = [
            number for number, one in enumerate(self._trials)
            if abs(math.log(one.rate / self.median)) < _NEAR
        ]  # fmt: skip
        if len(near) < 2 * _PARTS:
            return _DRIFT
        medians = [
            math.log(self._without(set(part.tolist())).median)
            for part in np.array_split(near, _PARTS)
        ]
        return math.hypot(_DRIFT, math.sqrt((_PARTS - 1) * float(np.var(medians))))

    def _without(self, numbers: set[int]) -> Limit:
        rest = [one for number, one in enumerate(self._trials) if number not in numbers]
        return Limit(rest, self._start)

    @property
    def stalled(self) -> tuple[int, int]:
        """Of the trials below the interval, those that failed, and all: no matter of rate."""
        low = self.interval[0] or 0
        below = [one.sustained for one in self._trials if one.rate < low]
        return below.count(False), len(below)

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


def next_trial(trials: Sequence[Trial], start: int, left: int) -> Trial | None:
    """Return the trial to make next; None at the end.

    Doubles the rate until it fails (halves it until it is sustained), then tries the likeliest
    limit until that is known well, and confirms: runs at the answer take turns with runs just
    above it, so that a machine that slows down or recovers affects both alike. Their results
    count as well: where they refute the answer, the search goes on. At the end it returns to
    early rates, which shows whether the target has drifted meanwhile. A trial that failed
    alone is repeated; two that succeed in a row let the search go up again.

    Args:
        trials: those so far.
        start: where to begin, messages per second, at least 1.
        left: how many more trials there is time for.
    """
    if left < 1:
        return None
    begun = _begun_confirmation(trials)
    if begun == 2 * CONFIRMATIONS and Limit(trials, start).is_confirmed:
        return _return(trials, start)
    if 0 < begun < 2 * CONFIRMATIONS:
        return Trial(_in_turn(trials, begun), confirms=True)
    limit, top = Limit(trials, start), _top(trials)
    is_open = top is None or all(one.rate <= top for one in trials)
    rate = _doubled(trials, start, top) if is_open else _bold(limit, trials)
    if rate is None or _failed_alone(trials, rate):
        return None if rate is None else Trial(trials[-1].rate)
    if is_open or ((begun or not limit.is_settled) and left > 2 * CONFIRMATIONS):
        return Trial(rate)
    if begun and left < 2 * CONFIRMATIONS:
        return None
    return Trial(_just_above(limit.median), confirms=True)


def _begun_confirmation(trials: Sequence[Trial]) -> int:
    """Return how many runs of a confirmation the trials end with, at most all of one.

    Returns to early rates come after a whole one.
    """
    confirming = [one.confirms for one in trials if not one.returns]
    count = 0
    while count < len(confirming) and confirming[-1 - count]:
        count += 1
    whole = 2 * CONFIRMATIONS
    return whole if count and count % whole == 0 else count % whole


def _return(trials: Sequence[Trial], start: int) -> Trial | None:
    """Return the next return to an early rate: one that was sustained, and one that failed."""
    made = sum(one.returns for one in trials)
    if made == 2:
        return None
    median = Limit(trials, start).median
    early = [one for one in _search(trials) if one.sustained == (made == 0)]
    near = [one for one in early if abs(math.log(one.rate / median)) < _NEAR]
    nearest = min(early, key=lambda one: abs(math.log(one.rate / median)), default=None)
    found = near[0] if near else nearest
    return None if found is None else Trial(found.rate, returns=True)


def _search(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that neither confirm nor return."""
    return [one for one in trials if not one.confirms and not one.returns]


def _bold(limit: Limit, trials: Sequence[Trial]) -> int:
    """Return the likeliest limit; after equal results in a row a rate farther on.

    So a burst of stalls, or a limit that moved, does not hold the search for long. It is at most
    twice a rate that was sustained, and at least half of one that failed.
    """
    row = 1
    while row < len(trials) and trials[-1 - row].sustained == trials[-1].sustained:
        row += 1
    beyond = _BEYOND ** (row // 2) if row % 2 == 0 else 0.5
    share = 1 - beyond if trials[-1].sustained else beyond
    lowest = min(one.rate for one in trials if not one.sustained) // 2
    highest = 2 * max(one.rate for one in trials if one.sustained)
    return min(max(round(limit.quantile(share)), lowest, 1), highest, _HIGHEST)


def _failed_alone(trials: Sequence[Trial], rate: int) -> bool:
    """Say whether the last trial failed alone, and the search would leave its place."""
    if not trials or trials[-1].sustained or trials[-1].confirms:
        return False
    alone = len(trials) < 2 or trials[-2].sustained
    return alone and abs(math.log(rate / trials[-1].rate)) > _PLACE


def _in_turn(trials: Sequence[Trial], begun: int) -> int:
    """Return the rate of the next run of a confirmation."""
    if begun == 1:
        return _just_below(trials[-1].rate)
    return trials[-2].rate


def _just_above(median: float) -> int:
    return min(max(math.ceil(median * math.exp(_BESIDE)), 2), _HIGHEST)


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
