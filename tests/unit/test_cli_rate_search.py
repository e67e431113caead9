"""The search for a rate: against limits that are sharp, and against simulated servers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.cli.pair.rate_search import CONFIRMATIONS, PRECISION, RateSearch

SERVERS = 20
TRIAL_SECONDS = 10.0
# Conditions of the simulated servers: so many service times at most, for 99 % of the messages.
LONGEST = 20.0


def searched(start: int, sustains: Callable[[int], bool]) -> tuple[RateSearch, list[int]]:
    search, tried = RateSearch(start), []
    while search.rate is not None:
        tried.append(search.rate)
        search.take(sustains(search.rate))
    return search, tried


@given(start=st.integers(1, 10**6), limit=st.integers(1, 10**8))
def test_a_sharp_limit_is_found(start: int, limit: int) -> None:
    search, tried = searched(start, lambda rate: rate <= limit)
    assert search.confirmed
    assert search.low is not None
    assert search.high is not None
    assert search.low <= limit < search.high
    assert search.high <= max(search.low * (1 + PRECISION) + 1, search.low + 1)
    # Doubling, bisecting and confirming; what fails is tried twice.
    assert len(tried) <= 2 * (27 + 8) + 2 * CONFIRMATIONS


@given(start=st.integers(1, 10**6))
def test_no_rate_is_sustained(start: int) -> None:
    search, tried = searched(start, lambda _rate: False)
    assert (search.low, search.high, search.confirmed) == (None, 1, False)
    assert min(tried) == 1


def test_every_rate_is_sustained() -> None:
    search, tried = searched(1000, lambda _rate: True)
    assert (search.high, search.confirmed) == (None, False)
    assert search.low == max(tried) <= 10**9


def test_a_hiccup_decides_nothing() -> None:
    """The first trial at each rate fails."""
    seen: set[int] = set()

    def sustains(rate: int) -> bool:
        first = rate not in seen
        seen.add(rate)
        return not first and rate <= 5000

    search, _ = searched(1000, sustains)
    assert search.confirmed
    assert search.low is not None
    assert 0.96 * 5000 < search.low <= 5000


def test_the_answer_and_the_rate_above_alternate() -> None:
    search, tried = searched(1000, lambda rate: rate <= 5000)
    assert tried[-2 * CONFIRMATIONS :] == [search.high, search.low] * CONFIRMATIONS


@pytest.mark.parametrize("refuted", ["low", "high"])
def test_a_refuted_side_moves_the_answer(refuted: str) -> None:
    """A limit that moves between the bisection and the confirmation is followed."""
    limits = {"low": 4000, "high": 6500}
    trials = 0

    def sustains(rate: int) -> bool:
        nonlocal trials
        trials += 1
        return rate <= (5000 if trials <= 14 else limits[refuted])

    search, _ = searched(1000, sustains)
    assert search.confirmed
    assert search.low is not None
    assert search.high is not None
    assert search.low <= limits[refuted] < search.high


@given(st.randoms(use_true_random=False), st.floats(0, 1))
def test_chance_ends_too(random: object, share: float) -> None:
    """Whatever the trials say, a search that stops holds rates in order."""
    search = RateSearch(1000)
    for _ in range(300):
        if search.rate is None:
            break
        assert 1 <= search.rate <= 10**9
        search.take(random.random() < share)  # type: ignore[attr-defined]
        if search.low is not None and search.high is not None:
            assert search.low < search.high
    assert search.confirmed <= (search.rate is None)


def waits(random: np.random.Generator, rate: float, count: int) -> np.ndarray:
    """Return the times in an M/D/1 queue, in service times, of ``count`` messages.

    Lindley's recursion W(n+1) = max(0, W(n) + 1 - A(n)) is the distance of a random walk from
    its lowest point so far.
    """
    steps = 1 - random.exponential(1 / rate, count)
    walk = np.concatenate(([0.0], np.cumsum(steps)))
    return walk - np.minimum.accumulate(walk) + 1


def true_limit(random: np.random.Generator) -> float:
    """Return the utilisation at which 99 % of an endless run's messages take ``LONGEST``."""
    low, high = 0.5, 0.999
    for _ in range(12):
        middle = (low + high) / 2
        p99 = np.quantile(waits(random, middle, 2_000_000), 0.99)
        low, high = (middle, high) if p99 < LONGEST else (low, middle)
    return low


def test_simulated_servers() -> None:
    """Of twenty servers, at least nineteen answers are within 3 % of the truth."""
    random = np.random.default_rng(18)
    limit = true_limit(random)
    good = 0
    for service_rate in random.uniform(1_000, 50_000, SERVERS):

        def sustains(rate: int, service_rate: float = service_rate) -> bool:
            # More than the server can do queues up.
            times = waits(random, rate / service_rate, int(rate * TRIAL_SECONDS))
            return rate < service_rate and float(np.quantile(times, 0.99)) < LONGEST

        search, _ = searched(1000, sustains)
        assert search.confirmed
        assert search.low is not None
        good += abs(search.low / (limit * service_rate) - 1) <= 0.03
    assert good >= 19
