"""Few samples in place of many: the figures that are asked of them are the same."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.tables.digests import DistributionDigest, HistogramDigest, asking, thinned

# Also such as have squares beyond 64 bits, and beyond what is cut in halves.
SAMPLES = st.lists(
    st.integers(-9, 9) | st.integers(-(2**40), 2**40) | st.integers(-(2**62), 2**62), min_size=1
)
RANKS = (0, 50, 99, 99.9, 100)


@given(SAMPLES, st.lists(st.sampled_from(RANKS)))
def test_thinned_samples_have_the_same_percentiles(values, ranks):
    whole = Distribution.of(np.array(values, np.int64))
    few = thinned(whole, ranks)
    assert (few.total, few.minimum) == (whole.total, whole.minimum)
    assert few.percentiles(ranks) == whole.percentiles(ranks)
    assert len(few) <= 2 * len(ranks) + 1


@given(SAMPLES, st.integers(1, 2**40))
def test_sums_of_squares_are_exact(values, count):
    """Rounded twice: the quotient and its root."""
    whole = Distribution.of_counted(np.array(values), np.full(len(values), count))
    assert whole.squares() == sum(value * value * count for value in values)
    mean = Fraction(sum(values), len(values))
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    assert whole.stddev() == pytest.approx(float(variance) ** 0.5, rel=1e-15)


def told(whole: Distribution) -> DistributionDigest:
    sums = (whole.below(0), whole.sum(), whole.squares())
    samples = whole.order_statistics(range(whole.total))
    return DistributionDigest(
        whole.total, len(whole), whole.minimum, whole.maximum, *sums, samples, whole
    )


@given(SAMPLES)
def test_a_digest_has_the_figures_of_its_samples(values):
    whole = Distribution.of(np.array(values, np.int64))
    found = told(whole)
    assert (len(found), found.total) == (len(whole), whole.total)
    assert (found.minimum, found.maximum) == (whole.minimum, whole.maximum)
    assert (found.mean(), found.stddev()) == (whole.mean(), whole.stddev())
    assert found.percentiles(RANKS) == whole.percentiles(RANKS)
    assert found.below(0) == whole.below(0)
    with pytest.raises(ValueError, match="only the number"):
        found.below(1)


def test_what_is_asked_is_noted_and_what_nobody_told_is_an_error():
    one = np.ones(3, np.int64)
    rows = SecondHistogram(np.array([5, 6, 7]), np.array([1, 2, 3]), one, "us")
    everything = (0, 9)
    known = {everything: told(rows.distribution())}
    histogram = HistogramDigest("arrow", rows, rows, known, everything)
    assert histogram.distribution().percentiles([50]) == [2]
    part = histogram.within(6, 7)
    assert part.total == 2
    with asking() as asked:
        assert part.distribution().total == 2
    assert asked == {("arrow", (6, 7))}
    with pytest.raises(KeyError):
        part.distribution()
