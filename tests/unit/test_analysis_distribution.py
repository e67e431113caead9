"""The exact distribution against NumPy's own functions over all samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis import distribution
from quiver_fast.analysis.distribution import Distribution

RANKS = (0, 0.1, 25, 33.3, 50, 75, 90, 99, 99.9, 99.99, 99.999, 100)

close_samples = st.lists(st.integers(-50, 200), min_size=1, max_size=300)
wide_samples = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=300)
samples = close_samples | wide_samples


@given(samples)
def test_percentiles_equal_numpy_bit_for_bit(values):
    array = np.array(values, np.int64)
    assert Distribution.of(array).percentiles(RANKS) == np.percentile(array, RANKS).tolist()


@given(samples)
def test_moments(values):
    ours = Distribution.of(np.array(values, np.int64))
    assert ours.total == len(values)
    assert ours.mean() == sum(values) / len(values)
    assert ours.stddev() == pytest.approx(float(np.std(values)), rel=1e-9, abs=1e-9)
    assert (ours.minimum, ours.maximum) == (min(values), max(values))


@given(samples, st.integers(-60, 210))
def test_below(values, limit):
    assert Distribution.of(np.array(values, np.int64)).below(limit) == sum(
        v < limit for v in values
    )


@given(samples, st.integers(1, 7))
def test_chunks_make_no_difference(values, size):
    array = np.array(values, np.int64)
    whole = Distribution.of(array)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distribution, "_CHUNK", size)
        pieces = Distribution.of(array)
    assert whole.values.tolist() == pieces.values.tolist() == sorted(set(values))
    assert whole.counts.tolist() == pieces.counts.tolist()
    assert whole.counts.tolist() == [values.count(v) for v in sorted(set(values))]


@given(st.lists(st.tuples(st.integers(0, 2**45), st.integers(0, 2**45)), max_size=100))
def test_differences_are_signed(pairs):
    later = np.array([a for a, _ in pairs], np.int64)
    earlier = np.array([b for _, b in pairs], np.int64)
    ours = Distribution.of_differences(later, earlier)
    assert np.repeat(ours.values, ours.counts).tolist() == sorted(a - b for a, b in pairs)


def test_differences_need_equal_lengths():
    with pytest.raises(ValueError, match="zip"):
        Distribution.of_differences(np.zeros(3, np.int64), np.zeros(0, np.int64))


def test_empty():
    assert Distribution.of(np.empty(0, np.int64)).total == 0
