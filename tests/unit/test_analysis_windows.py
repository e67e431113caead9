"""Histograms per second against loops over single messages."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.distribution import Distribution
from quiver_fast.analysis.histogram import SecondHistogram
from quiver_fast.analysis.windows import SecondCounts, latency_windows, window_section

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
    ours = SecondCounts.of_histogram(of_differences(received, sent, "ms"))
    other = SecondCounts.of(Distribution.of(received // 1000))
    assert ours.counts.tolist() == other.counts.tolist()
    slow = Counter((received // 1000).tolist())
    if pairs:
        assert ours.seconds.tolist() == list(range(min(slow), max(slow) + 1))
    assert ours.counts.tolist() == [slow[second] for second in ours.seconds.tolist()]
    assert of_differences(received, sent, "ms").distribution().total == len(pairs)
    assert ours.whole().counts.tolist() == ours.counts.tolist()[1:-1]


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
    ours = window_section(SecondCounts.of_histogram(histogram), histogram, length)
    starts = received // 1000 // length * length
    expected = list(range(starts.min(), starts.max() + 1, length)) if pairs else []
    assert (ours["seconds"], ours["start"]) == (length, expected)
    for row, start in enumerate(expected):
        latencies = (received - sent)[starts == start]
        figures = [ours[name][row] for name in ("latency_p50", "latency_p99", "latency_max")]
        assert (ours["count"][row], ours["rate"][row]) == (len(latencies), len(latencies) / length)
        if len(latencies):
            assert figures == np.percentile(latencies, (50, 99, 100)).tolist()
        else:
            assert figures == [None, None, None]
