"""Histograms per second against loops over single messages."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.figures.windows import SecondCounts, latency_windows, window_section
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.show.run_charts import with_silence

EPOCH = 1_472_344_673
messages = st.lists(st.tuples(st.integers(0, 9000), st.integers(-50, 3000)), max_size=200)


def of_differences(received, sent, unit):
    second = {"ms": 1000, "us": 1_000_000}[unit]
    ones = np.ones(len(received), np.int64)
    return SecondHistogram.from_rows(received // second, received - sent, ones, unit)


def columns(pairs):
    sent = np.array([EPOCH * 1000 + s for s, _ in pairs], np.int64)
    return sent + np.array([latency for _, latency in pairs], np.int64), sent


@given(messages)
def test_counts_fill_the_gaps(pairs):
    received, sent = columns(pairs)
    ours = SecondCounts.of(Distribution.of(received // 1000))
    slow = Counter((received // 1000).tolist())
    if pairs:
        assert ours.seconds.tolist() == list(range(min(slow), max(slow) + 1))
    assert ours.counts.tolist() == [slow[second] for second in ours.seconds.tolist()]
    assert of_differences(received, sent, "ms").distribution().total == len(pairs)
    assert ours.whole().counts.tolist() == ours.counts.tolist()[1:-1]


@given(st.integers(0, 2000), st.integers(1000, 20_000), st.sampled_from([1, 2, 5]))
def test_a_constant_rate_is_constant_in_every_second(start, length, gap):
    """The first and the last second are cut by the run's ends; their rates are not."""
    received = EPOCH * 1000 + np.arange(start, start + length, gap)
    counts = SecondCounts.of(Distribution.of(received // 1000))
    counts = counts.between(int(received[0]), int(received[-1]))
    kept = counts.rates[~np.isnan(counts.rates)]
    assert kept == pytest.approx(1000 / gap, rel=0.05)
    assert len(kept) >= len(counts.rates) - 2
    section = window_section(counts, None, 3)
    told = [rate for rate in section["rate"] if rate is not None]
    assert told == pytest.approx([1000 / gap] * len(told), rel=0.05)
    assert sum(section["covered"]) == pytest.approx(
        (received[-1] - received[0] + 1) / 1000, abs=0.01
    )


def test_too_little_of_a_second_has_no_rate():
    """Two messages in the last 3 ms are no 667 messages/s."""
    counts = SecondCounts(np.array([5, 6, 7]), np.array([10, 10, 2]), 5_000, 7_002)
    assert counts.covered.tolist() == pytest.approx([1, 1, 0.003])
    assert counts.rates.tolist()[:2] == [10, 10]
    assert np.isnan(counts.rates[2])
    assert window_section(counts, None, 1)["rate"] == [10, 10, None]
    short = SecondCounts(np.array([5]), np.array([10]), 5_100, 5_119)
    assert short.rates.tolist() == pytest.approx([500])


def test_times_that_do_not_fit_the_seconds_cover_them():
    """Records out of order: the first one is not of the first second."""
    counts = SecondCounts(np.array([5, 6, 7]), np.array([1, 1, 1]), 6_900, 5_100)
    assert counts.covered.tolist() == pytest.approx([0.001, 1, 0.001])
    assert SecondCounts(np.array([5]), np.array([1])).covered.tolist() == [1]


@given(messages)
def test_latency_windows(pairs):
    received, sent = columns(pairs)
    seconds, table = latency_windows(of_differences(received, sent, "ms"), (50, 99, 100))
    assert seconds.tolist() == sorted(set((received // 1000).tolist()))
    for second, row in zip(seconds.tolist(), table.tolist(), strict=True):
        chosen = received // 1000 == second
        assert row == np.percentile((received - sent)[chosen], (50, 99, 100)).tolist()


def test_latency_windows_are_in_milliseconds():
    received, sent = np.array([2_000_000_250]), np.array([2_000_000_000])
    assert latency_windows(of_differences(received, sent, "us"), (50,))[1].tolist() == [[0.25]]


@given(messages, st.integers(-1, 10), st.integers(-1, 10))
def test_within(pairs, first, last):
    received, sent = columns(pairs)
    part = of_differences(received, sent, "ms").within(EPOCH + first, EPOCH + last)
    seconds = received // 1000
    assert part.total == np.count_nonzero((seconds >= EPOCH + first) & (seconds <= EPOCH + last))


@given(messages, st.integers(1, 7))
def test_windows_of_any_length(pairs, length):
    received, sent = columns(pairs)
    histogram = of_differences(received, sent, "ms")
    counts = SecondCounts.of(Distribution.of(received // 1000))
    section = window_section(counts, histogram, length)
    ours = {name: found if name == "seconds" else list(found) for name, found in section.items()}
    starts = received // 1000 // length * length
    expected = list(range(starts.min(), starts.max() + 1, length)) if pairs else []
    assert (ours["seconds"], ours["start"]) == (length, expected)
    for row, start in enumerate(expected):
        latencies = (received - sent)[starts == start]
        figures = [ours[name][row] for name in ("latency_p50", "latency_p99", "latency_max")]
        covered = min(start + length, received.max() // 1000 + 1) - max(
            start, received.min() // 1000
        )
        assert (ours["count"][row], ours["covered"][row]) == (len(latencies), covered)
        assert ours["rate"][row] == len(latencies) / covered
        if len(latencies):
            assert figures == np.percentile(latencies, (50, 99, 100)).tolist()
        else:
            assert figures == [None, None, None]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=20, unique=True))
def test_lines_of_plots_fall_to_what_is_silent(seconds):
    """At every silent second a line between the rows has the silent value."""
    seconds = np.array(sorted(seconds), np.int64)
    drawn, values = with_silence(seconds, np.ones(len(seconds)), 0.0)
    assert np.all(np.diff(drawn) >= 0)
    every = np.arange(seconds[0], seconds[-1] + 1)
    assert np.interp(every, drawn, values).tolist() == np.isin(every, seconds).tolist()
