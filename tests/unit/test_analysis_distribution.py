"""The exact distribution against NumPy's own functions over all samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.model.distribution import Distribution, exact_dot

RANKS = (0, 0.1, 25, 33.3, 50, 75, 90, 99, 99.9, 99.99, 99.999, 100)

close_samples = st.lists(st.integers(-50, 200), min_size=1, max_size=300)
wide_samples = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=300)
samples = close_samples | wide_samples


def counted(values):
    return Distribution.of(np.array(values, np.int64))


@given(samples)
def test_percentiles_equal_numpy_bit_for_bit(values):
    array = np.array(values, np.int64)
    assert counted(values).percentiles(RANKS) == np.percentile(array, RANKS).tolist()


@given(samples)
def test_moments(values):
    ours = counted(values)
    assert ours.total == len(values)
    assert ours.mean() == sum(values) / len(values)
    assert ours.stddev() == pytest.approx(float(np.std(values)), rel=1e-9, abs=1e-9)
    assert (ours.minimum, ours.maximum) == (min(values), max(values))


@given(samples, st.integers(-60, 210))
def test_below(values, limit):
    assert counted(values).below(limit) == sum(v < limit for v in values)


@given(samples, st.integers(0, 300))
def test_parts_merge_into_the_whole(values, place):
    whole = counted(values)
    merged = counted(values[:place]).merged(counted(values[place:]))
    for ours in (whole, merged):
        assert ours.values.tolist() == sorted(set(values))
        assert ours.counts.tolist() == [values.count(v) for v in sorted(set(values))]


@given(samples, st.integers(1, 9))
def test_counts_are_added_up(values, times):
    ours = Distribution.of_counted(
        np.array(values, np.int64), np.full(len(values), times, np.int64)
    )
    assert ours.counts.tolist() == (counted(values).counts * times).tolist()


int64s = st.integers(-(2**63), 2**63 - 1)
rows = st.lists(st.tuples(int64s, st.integers(0, 2**40)), max_size=40)


@given(rows | st.lists(st.tuples(int64s, st.integers(0, 3)), max_size=40))
def test_sums_are_exact_at_any_size(pairs):
    """Also beyond 2^63: 10^8 latencies in nanoseconds of 100 s each reach 10^19."""
    values, counts = (np.array(column, np.int64) for column in zip(*pairs or [(0, 0)], strict=True))
    assert exact_dot(values, counts) == sum(value * count for value, count in pairs)


@given(st.lists(st.tuples(int64s, st.integers(1, 2**50)), min_size=1, max_size=40))
def test_the_mean_is_exact(pairs):
    values, counts = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    total = sum(count for _, count in pairs)
    ours = Distribution.of_counted(values, counts).mean()
    assert ours == sum(value * count for value, count in pairs) / total


def test_one_stamp_of_another_unit_leaves_the_mean_true():
    """A microsecond stamp in a run of milliseconds makes one latency of 1.7 * 10^15."""
    values, counts = np.array([3, -1_789_999_999_999_999]), np.array([9_999, 1])
    mean = Distribution(values[::-1], counts[::-1]).mean()
    assert mean == (3 * 9_999 - 1_789_999_999_999_999) / 10_000


def test_empty():
    assert counted([]).total == 0
    assert len(Distribution.none()) == 0
