"""The search for a rate: against limits that are sharp, and against simulated servers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.cli.pair.rate_search import CONFIRMATIONS, MOST_TRIALS, Limit, Trial, next_trial

SERVERS = 200
TRIAL_SECONDS = 10
MOST_MESSAGES = 20_000
# Condition of the simulated servers: the most service times for 99 % of the messages.
LONGEST = 20.0
# The utilisation at which that is so of an endless run (`test_the_limit_of_the_simulation`).
LIMIT = 0.887
NOISE = 0.02
STALLS = 0.03
ENOUGH = 10_000


def searched(
    start: int, sustains: Callable[[int], bool], most: int = MOST_TRIALS
) -> tuple[Limit, list[Trial]]:
    trials: list[Trial] = []
    while (found := next_trial(trials, start, most - len(trials))) is not None:
        rate, confirms = found
        trials.append(Trial(rate, sustains(rate), confirms))
    return Limit(trials, start), trials


def bounds(limit: Limit) -> tuple[int, int, int]:
    """Return the bounds of an answer, and the answer, of a limit that was found."""
    low, high = limit.interval
    assert limit.is_enclosed
    assert low is not None
    assert high is not None
    assert limit.rate is not None
    assert low <= limit.rate < high
    return low, limit.rate, high


@given(start=st.integers(1, 10**6), sharp=st.integers(1, 10**8))
def test_a_sharp_limit_is_found(start: int, sharp: int) -> None:
    limit, trials = searched(start, lambda rate: rate <= sharp, ENOUGH)
    low, rate, high = bounds(limit)
    assert low <= sharp < high
    assert 0.97 * sharp - 1 <= rate <= 1.03 * sharp
    assert limit.is_confirmed
    # Doubling or halving, coming close, and confirming.
    assert len(trials) <= abs(math.log2(sharp / start)) + 14 + 2 * CONFIRMATIONS


def test_the_first_rates_double() -> None:
    _, trials = searched(1000, lambda rate: rate < 50_000)
    assert [trial.rate for trial in trials[:7]] == [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000]
    _, trials = searched(1000, lambda rate: rate < 200)
    assert [trial.rate for trial in trials[:4]] == [1000, 500, 250, 125]


@given(start=st.integers(1, 10**6))
def test_no_rate_is_sustained(start: int) -> None:
    limit, trials = searched(start, lambda _rate: False)
    assert (limit.rate, limit.interval, limit.is_confirmed) == (None, (None, 1), False)
    # One that stalls is no proof.
    assert [trial.rate for trial in trials[-2:]] == [1, 1]


def test_every_rate_is_sustained() -> None:
    limit, trials = searched(1000, lambda _rate: True)
    assert limit.rate == max(trial.rate for trial in trials) == 10**9
    assert limit.interval == (10**9, None)


@pytest.mark.parametrize("stalled", [0, 2, 5, 8])
def test_a_stall_does_not_hide_the_limit(stalled: int) -> None:
    """One trial fails at a rate that the target sustains."""
    count = 0

    def sustains(rate: int) -> bool:
        nonlocal count
        count += 1
        return rate <= 5000 and count != stalled + 1

    limit, _ = searched(1000, sustains)
    low, rate, high = bounds(limit)
    assert low <= 5000 <= high
    assert rate == pytest.approx(5000, rel=0.02)


def test_runs_at_the_answer_and_above_alternate() -> None:
    limit, trials = searched(1000, lambda rate: rate <= 5000)
    assert [trial.confirms for trial in trials[-2 * CONFIRMATIONS :]] == [True] * 2 * CONFIRMATIONS
    rates = [trial.rate for trial in trials[-2 * CONFIRMATIONS :]]
    assert rates == rates[:2] * CONFIRMATIONS
    assert rates[1] == limit.rate
    assert rates[1] < rates[0] < 1.03 * rates[1]
    at, above = limit.confirmations
    assert [trial.sustained for trial in (*at, *above)] == [True] * 3 + [False] * 3


@pytest.mark.parametrize("moved", [4500, 5500])
def test_a_limit_that_moves_is_not_confirmed_where_it_was(moved: int) -> None:
    """The confirming runs count: the search goes on from there."""
    trials: list[Trial] = []
    while (found := next_trial(trials, 1000, 60 - len(trials))) is not None:
        now = moved if any(trial.confirms for trial in trials) else 5000
        trials.append(Trial(found[0], found[0] <= now, found[1]))
    limit = Limit(trials, 1000)
    assert limit.is_confirmed
    assert limit.rate == pytest.approx(moved, rel=0.02)


@given(start=st.integers(1, 10**6), sharp=st.integers(1, 10**7), most=st.integers(1, MOST_TRIALS))
def test_a_short_search_gives_its_best_answer(start: int, sharp: int, most: int) -> None:
    limit, trials = searched(start, lambda rate: rate <= sharp, most)
    assert len(trials) <= most
    low, high = limit.interval
    assert low is None or low <= sharp
    assert high is None or high > sharp or not limit.is_enclosed
    begun = sum(trial.confirms for trial in trials)
    assert begun % (2 * CONFIRMATIONS) == 0 or len(trials) == most


@given(st.randoms(use_true_random=False), st.floats(0, 1))
def test_chance_ends_too(random: object, share: float) -> None:
    """Whatever the trials say, rates are in range and bounds in order."""
    limit, trials = searched(1000, lambda _rate: random.random() < share)  # type: ignore[attr-defined]
    assert all(1 <= trial.rate <= 10**9 for trial in trials)
    if limit.is_enclosed:
        bounds(limit)


def waits(random: np.random.Generator, rate: float, count: int) -> np.ndarray:
    """Return the times in an M/D/1 queue, in service times, of ``count`` messages.

    Lindley's recursion W(n+1) = max(0, W(n) + 1 - A(n)) is the distance of a random walk from
    its lowest point so far.
    """
    steps = 1 - random.exponential(1 / rate, count)
    walk = np.concatenate(([0.0], np.cumsum(steps)))
    return walk - np.minimum.accumulate(walk) + 1


def test_the_limit_of_the_simulation() -> None:
    random = np.random.default_rng(2)
    below, above = (np.quantile(waits(random, LIMIT * x, 2_000_000), 0.99) for x in (0.99, 1.01))
    assert below < LONGEST < above


def test_simulated_servers() -> None:
    """For 95 % of two hundred servers the interval holds the truth, and the answer is near.

    From run to run a server's speed differs by 2 %, and 3 % of the runs stall.
    """
    random = np.random.default_rng(18)
    held = near = 0
    for service_rate in np.exp(random.uniform(math.log(1000), math.log(50_000), SERVERS)):

        def sustains(rate: int, service_rate: float = service_rate) -> bool:
            if random.random() < STALLS:
                return False
            load = rate / (service_rate * random.normal(1, NOISE))
            # More than the server can do queues up.
            count = min(rate * TRIAL_SECONDS, MOST_MESSAGES)
            return load < 1 and float(np.quantile(waits(random, load, count), 0.99)) < LONGEST

        limit, trials = searched(1000, sustains)
        low, rate, high = bounds(limit)
        held += low <= LIMIT * service_rate <= high
        near += abs(rate / (LIMIT * service_rate) - 1) <= 0.03
        assert len(trials) <= MOST_TRIALS
    assert held >= 0.95 * SERVERS
    assert near >= 0.95 * SERVERS
