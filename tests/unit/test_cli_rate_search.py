"""The search for a rate: against limits that are sharp, and against simulated servers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.cli.pair.rate_search import CONFIRMATIONS, MOST_TRIALS, Limit, Trial, next_trial

ENOUGH = 10_000


def searched(
    start: int, sustains: Callable[[int], bool], most: int = MOST_TRIALS
) -> tuple[Limit, list[Trial]]:
    trials: list[Trial] = []
    while (found := next_trial(trials, start, most - len(trials))) is not None:
        trials.append(Trial(found.rate, sustains(found.rate), found.confirms, found.returns))
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
    # Doubling or halving, coming close, confirming, and returning.
    assert len(trials) <= abs(math.log2(sharp / start)) + 30 + 2 * CONFIRMATIONS


def test_the_first_rates_double() -> None:
    _, trials = searched(1000, lambda rate: rate < 50_000)
    assert [trial.rate for trial in trials[:7]] == [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000]
    _, trials = searched(1000, lambda rate: rate < 200)
    # The first one failed alone.
    assert [trial.rate for trial in trials[:5]] == [1000, 1000, 500, 250, 125]


@given(start=st.integers(1, 10**6))
def test_no_rate_is_sustained(start: int) -> None:
    limit, trials = searched(start, lambda _rate: False, ENOUGH)
    assert (limit.rate, limit.interval, limit.is_confirmed) == (None, (None, 1), False)
    # One that stalls is no proof.
    assert [trial.rate for trial in trials[-2:]] == [1, 1]


def test_every_rate_is_sustained() -> None:
    limit, trials = searched(1000, lambda _rate: True, ENOUGH)
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


@pytest.mark.parametrize("alone", [0, 3, 4])
def test_a_trial_that_fails_alone_is_repeated(alone: int) -> None:
    count = 0

    def sustains(rate: int) -> bool:
        nonlocal count
        count += 1
        return rate <= 50_000 and count != alone + 1

    _, trials = searched(1000, sustains)
    rates = [trial.rate for trial in trials]
    assert rates[alone + 1] == rates[alone] == 1000 * 2**alone
    assert rates[alone + 2] == 2 * rates[alone]


def test_early_rates_are_tried_again_at_the_end() -> None:
    _, trials = searched(1000, lambda rate: rate <= 5000)
    assert [trial.returns for trial in trials].index(True) == len(trials) - 2
    early = [trial for trial in trials if not trial.confirms and not trial.returns]
    for back, sustained in zip(trials[-2:], (True, False), strict=True):
        assert back.rate in [trial.rate for trial in early if trial.sustained == sustained]
        assert back.rate == pytest.approx(5000, rel=0.16)


def test_what_differs_between_minutes_widens_the_interval() -> None:
    """The limit was 5,000 at first, and is 5,500 in the second half of the search."""

    def width(moved: int) -> float:
        count = 0

        def sustains(rate: int) -> bool:
            nonlocal count
            count += 1
            return rate <= (moved if count > MOST_TRIALS // 2 else 5000)

        low, _, high = bounds(searched(1000, sustains)[0])
        return high / low

    assert width(5500) > 1.05 * width(5000)


def test_runs_at_the_answer_and_above_alternate() -> None:
    limit, trials = searched(1000, lambda rate: rate <= 5000)
    confirming = trials[-2 * CONFIRMATIONS - 2 : -2]
    assert [trial.confirms for trial in confirming] == [True] * 2 * CONFIRMATIONS
    rates = [trial.rate for trial in confirming]
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
        trials.append(Trial(found.rate, found.rate <= now, found.confirms, found.returns))
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
