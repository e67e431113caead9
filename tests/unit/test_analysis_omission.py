"""The corrected distribution against one whose samples are written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.figures.omission import CorrectedDistribution
from quiver_fast.analysis.model.distribution import Distribution

RANKS = (0, 25, 50, 75, 90, 99, 99.9, 100)


def slow_correction(samples, interval):
    """HdrHistogram's rule, sample by sample."""
    corrected = list(samples)
    for sample in samples:
        missing = sample - interval
        while missing >= interval:
            corrected.append(missing)
            missing -= interval
    return corrected


@given(st.lists(st.integers(-50, 2000), min_size=1, max_size=60), st.integers(1, 300))
def test_correction(samples, interval):
    ours = CorrectedDistribution(Distribution.of(np.array(samples, np.int64)), interval)
    slow = slow_correction(samples, interval)
    assert ours.total == len(slow)
    assert ours.mean() == pytest.approx(max(np.mean(slow), np.mean(samples)))
    larger = np.maximum(np.percentile(slow, RANKS), np.percentile(samples, RANKS))
    assert ours.percentiles(RANKS) == larger.tolist()
    for limit in (-51, 0, interval, 777, 2000):
        assert ours.at_most(limit) == sum(sample <= limit for sample in slow)


def test_a_second_of_silence():
    """One message waits for 1000 ms where one is expected every 10 ms."""
    ours = CorrectedDistribution(Distribution.of(np.array([1] * 99 + [1000])), 10)
    assert ours.total == 199
    assert ours.percentiles([50])[0] == 10.0


def test_nanoseconds_of_hours_need_no_memory():
    hour = 3600 * 10**9
    ours = CorrectedDistribution(Distribution.of(np.array([hour])), 1000)
    assert ours.total == hour // 1000
    assert ours.mean() == hour
    half = CorrectedDistribution(Distribution.of(np.array([0, hour])), 1000)
    assert half.mean() == pytest.approx((hour + 1000) / 2)


@given(
    st.lists(
        st.tuples(st.integers(-(2**61), 2**61), st.integers(1, 2**40)), min_size=1, max_size=9
    ),
    st.integers(1, 10**6),
    st.integers(-(2**62), 2**62),
)
def test_totals_are_exact_at_any_size(pairs, interval, limit):
    values, counts = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    ours = CorrectedDistribution(Distribution.of_counted(values, counts), interval)
    samples = {value: max(value // interval - 1, 0) + 1 for value, _ in pairs}
    assert ours.total == sum(samples[value] * count for value, count in pairs)
    # The first few of v, v - i, v - 2 * i, … may be above the limit.
    above = {value: min(max(-((limit - value) // interval), 0), n) for value, n in samples.items()}
    assert ours.at_most(limit) == sum((samples[v] - above[v]) * count for v, count in pairs)


def test_an_interval_has_a_length():
    with pytest.raises(ValueError, match="at least one"):
        CorrectedDistribution(Distribution.of(np.array([1])), 0)
