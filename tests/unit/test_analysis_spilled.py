"""Whole analyses with room for so few rows that all is in files: same twins, same answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_analysis_delivery import test_against_the_twin, test_receiver_alone
from test_analysis_local import (
    test_a_pair_of_files,
    test_delivery_equals_the_twin_whatever_the_batches,
    test_equals_numpy,
    test_many_seconds_and_wide_latencies,
    test_string_ids_join_too,
)
from test_analysis_summary import test_settlement

from quiver_fast.analysis.figures.clock import drift
from quiver_fast.analysis.figures.windows import latency_windows
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.tables import sorted_rows
from quiver_fast.analysis.tables.latencies import coarse
from quiver_fast.analysis.tables.spilled import (
    HistogramRows,
    LatencyRows,
    SpilledDistribution,
    SpilledHistogram,
)

# Collected here once more.
__all__ = [
    "test_a_pair_of_files",
    "test_against_the_twin",
    "test_delivery_equals_the_twin_whatever_the_batches",
    "test_equals_numpy",
    "test_many_seconds_and_wide_latencies",
    "test_receiver_alone",
    "test_settlement",
    "test_string_ids_join_too",
]

samples = st.lists(st.integers(-(10**9), 10**12) | st.integers(-3, 30), min_size=60, max_size=200)
ranks = (0, 25, 50, 99, 99.9, 100)


@pytest.fixture(autouse=True, scope="module")
def little_room():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_rows, "ROOM", 400)
        yield


def spilled(values):
    rows = LatencyRows()
    for start in range(0, len(values), 7):
        part = np.array(values[start : start + 7], np.int64)
        rows.add(part, np.ones(len(part), np.int64))
    return rows.total()


@given(samples)
@settings(deadline=None)
def test_a_distribution_on_file(values):
    ours = spilled(values)
    if len(set(values)) > 50:
        assert isinstance(ours, SpilledDistribution)
    expected = Distribution.of(np.array(values, np.int64))
    assert (ours.total, len(ours)) == (expected.total, len(expected))
    assert (ours.minimum, ours.maximum) == (min(values), max(values))
    assert ours.below(7) == sum(value < 7 for value in values)
    assert ours.mean() == expected.mean()
    assert ours.stddev() == pytest.approx(expected.stddev(), rel=1e-9)
    assert ours.percentiles(ranks) == np.percentile(values, ranks).tolist()


@given(samples, st.booleans(), st.sampled_from([16, 1 << 16]))
@settings(deadline=None)
def test_coarse_says_its_step(values, upwards, bins):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quiver_fast.analysis.tables.latencies.COARSE_BINS", bins)
        ours, step = coarse(spilled(values), upwards=upwards)
    assert step == 1 or len(set(values)) > bins
    shift = step - 1 if upwards else 0
    assert np.repeat(ours.values, ours.counts).tolist() == sorted(
        (value + shift) // step * step for value in values
    )
    assert len(ours) <= bins + 2


def test_a_histogram_on_file():
    source = np.random.default_rng(6)
    seconds = 1_700_000_000 + np.sort(source.integers(0, 90, 4000))
    latencies = source.integers(-5, 10**7, 4000) + seconds % 7
    ones = np.ones(4000, np.int64)
    rows = HistogramRows("us")
    for start in range(0, 4000, 100):
        rows.add(*(c[start : start + 100] for c in (seconds, latencies, ones)))
    ours, expected = rows.total(), SecondHistogram.from_rows(seconds, latencies, ones, "us")
    assert isinstance(ours, SpilledHistogram)
    for one, other in (
        (ours, expected),
        (ours.within(1_700_000_007, 1_700_000_050), expected.within(1_700_000_007, 1_700_000_050)),
    ):
        assert one.total == other.total
        assert drift(one) == drift(other)
        assert one.distribution().percentiles(ranks) == other.distribution().percentiles(ranks)
        windows = zip(latency_windows(one, ranks), latency_windows(other, ranks), strict=True)
        assert all(np.array_equal(*pair) for pair in windows)
