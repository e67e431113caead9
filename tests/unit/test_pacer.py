"""The open-loop schedule against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.arrow.run.delays import DelayHistogram
from quiver_fast.arrow.run.pacer import Pacer

SECOND = 1_000_000_000
RATES = st.integers(1, SECOND)
YEAR = 366 * 86_400
ELAPSED = st.integers(0, YEAR * SECOND)
# A rate, and a message that is due within a year.
SCHEDULED = RATES.flatmap(lambda rate: st.tuples(st.just(rate), st.integers(0, rate * YEAR)))


@given(SCHEDULED)
def test_message_i_is_due_at_i_over_rate(scheduled: tuple[int, int]) -> None:
    rate, index = scheduled
    assert Pacer(rate).intended_ns(index) == ceil(Fraction(index * SECOND, rate))


@given(RATES, ELAPSED)
def test_due_counts_the_messages_up_to_now(rate: int, elapsed: int) -> None:
    assert Pacer(rate).messages_due(elapsed) == floor(Fraction(elapsed * rate, SECOND)) + 1


@given(SCHEDULED)
def test_a_message_is_due_exactly_at_its_intended_time(scheduled: tuple[int, int]) -> None:
    rate, index = scheduled
    pacer = Pacer(rate)
    intended = pacer.intended_ns(index)
    assert pacer.messages_due(intended) >= index + 1
    if intended:
        assert pacer.messages_due(intended - 1) <= index


@pytest.mark.parametrize("rate", [0, -1, SECOND + 1])
def test_rates_out_of_range_are_errors(rate: int) -> None:
    with pytest.raises(ValueError, match="rate"):
        Pacer(rate)


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=200), st.sampled_from([50, 99, 99.9]))
def test_histogram_percentiles_are_within_a_bucket(delays: list[int], percent: float) -> None:
    histogram = DelayHistogram()
    for delay in delays:
        histogram.record(delay)
    exact = sorted(delays)[ceil(len(delays) * percent / 100) - 1]
    assert exact <= histogram.percentile(percent) <= exact + exact * 0.032 + 1
    assert histogram.largest == max(delays)


def test_a_negative_delay_counts_as_none() -> None:
    histogram = DelayHistogram()
    histogram.record(-5)
    assert (histogram.total, histogram.percentile(100)) == (1, 0)
