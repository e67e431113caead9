"""Steady state and stalls against their definitions, written out slowly."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.distribution import Distribution
from quiver_fast.analysis.steady import Stall, measured_seconds, stalls, steady_state
from quiver_fast.analysis.windows import SecondCounts

rates = st.lists(st.integers(0, 3_000_000), max_size=40)


def counts(values, first=1000):
    array = np.array(values, np.int64)
    return SecondCounts(np.arange(first, first + len(array), dtype=np.int64), array)


def slow_error(values):
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values) ** 2


@given(rates)
def test_steady_state_minimises_the_error(values):
    ours = steady_state(counts(values))
    whole = values[1:-1]
    if len(whole) < 6 or np.median(whole) == 0:
        assert ours is None
        return
    limit = len(whole) // 3
    kept = whole[ours.warm_up :]
    best = min(slow_error(whole[d:]) for d in range(limit + 1))
    assert slow_error(kept) == pytest.approx(best, rel=1e-6, abs=1e-3)
    best = min(slow_error(kept[: len(kept) - d]) for d in range(limit + 1))
    kept = kept[: len(kept) - ours.ramp_down]
    assert slow_error(kept) == pytest.approx(best, rel=1e-6, abs=1e-3)
    assert (ours.count, ours.seconds) == (sum(kept), len(kept))
    assert ours.rate == sum(kept) / len(kept)
    assert ours.first == 1001 + ours.warm_up


@given(st.lists(st.integers(0, 3000), min_size=8, max_size=40), st.integers(1, 2000))
def test_a_run_that_keeps_its_rate_loses_only_what_is_off_it(values, rate):
    """The rule, written out: 10 % off the rate, at the ends, a third of the run at most."""
    whole = values[1:-1]
    tolerance = max(rate / 10, 1)
    ours = steady_state(counts(values), rate)
    if np.median(whole) == 0:
        assert ours is None
        return
    if abs(np.median(whole) - rate) > tolerance:
        assert ours == steady_state(counts(values))
        return
    off = [abs(value - rate) > tolerance for value in whole]
    limit = len(whole) // 3
    front = next((n for n in range(limit) if not off[n]), limit)
    back = next((n for n in range(limit) if not off[-1 - n]), limit)
    assert (ours.warm_up, ours.ramp_down, ours.rule) == (front, back, "rate")
    assert ours.count == sum(whole[front : len(whole) - back])


def test_a_constant_rate_is_not_cut():
    """Noise of a per mille: MSER leaves out two good seconds."""
    values = [7000, 19_990, 19_990, *[20_000] * 12, 3000]
    assert steady_state(counts(values)).warm_up == 2
    ours = steady_state(counts(values), rate=20_000)
    assert (ours.warm_up, ours.ramp_down, ours.seconds) == (0, 0, 14)


def test_a_rate_that_is_not_kept_says_nothing_of_the_steady_state():
    values = [5, 10, 20, 30, *[1000] * 10, 10, 3]
    assert steady_state(counts(values), rate=2000) == steady_state(counts(values))


def test_what_is_drained_is_not_steady():
    """Ten seconds of sending; then the queue empties faster than it was filled."""
    values = [50, *[100] * 9, *[900] * 20, 7]
    ours = steady_state(counts(values), until=1010.4)
    assert (ours.first, ours.last, ours.rate) == (1001, 1009, 100.0)
    assert stalls(counts(values), until=1010.4) == []
    assert steady_state(counts(values), until=1006.9) is None
    assert measured_seconds(counts(values), 1003.0).seconds.tolist() == [1001, 1002]


def test_warm_up_and_ramp_down_are_left_out():
    ours = steady_state(counts([5, 10, 20, 30, *[1000] * 10, 10, 3]))
    assert (ours.warm_up, ours.ramp_down) == (3, 1)
    assert (ours.first, ours.last, ours.rate) == (1004, 1013, 1000.0)


def test_an_even_run_keeps_all_whole_seconds():
    ours = steady_state(counts([7, *[1000] * 6, 7]))
    assert (ours.warm_up, ours.ramp_down, ours.seconds) == (0, 0, 6)


@given(rates)
def test_stalls(values):
    whole = values[1:-1]
    low = [value < 0.1 * np.median(whole) for value in whole]
    found = stalls(counts(values))
    covered = [s for stall in found for s in range(stall.first, stall.first + stall.seconds)]
    assert covered == [1001 + n for n, stalled in enumerate(low) if stalled]
    assert all(a.first + a.seconds < b.first for a, b in pairwise(found))
    assert sum(stall.count for stall in found) == sum(
        value for value, stalled in zip(whole, low, strict=True) if stalled
    )


def test_a_stall():
    assert stalls(counts([9, 100, 100, 0, 9, 10, 100, 100, 9])) == [Stall(1003, 2, 9)]
    assert stalls(counts([])) == []


def test_one_late_message_makes_no_steady_silence():
    """It made 863,979 steady seconds without a message."""
    dense = counts([200] * 20 + [0] * 1000 + [1])
    assert steady_state(dense) is None
    days = np.concatenate((np.arange(20), [864_000]))
    sparse = SecondCounts.of(Distribution(days, np.full(21, 200)))
    assert sparse.sparse
    assert len(sparse.seconds) == 21
    assert (steady_state(sparse), stalls(sparse)) == (None, [])


@given(st.lists(st.integers(0, 400), min_size=1, max_size=30, unique=True))
def test_silence_is_filled_where_it_is_short(seconds):
    messages = Distribution.of(np.array(seconds, np.int64))
    filled = SecondCounts.of(messages)
    assert not filled.sparse
    assert filled.seconds.tolist() == list(range(min(seconds), max(seconds) + 1))
    assert filled.counts.tolist() == [int(second in seconds) for second in filled.seconds.tolist()]
