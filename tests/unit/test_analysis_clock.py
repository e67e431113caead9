"""Clock estimates against brute force, and against clocks whose error is known."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.clock import drift, lower_hull, offset_at_least, window_minima
from quiver_fast.analysis.distribution import Distribution
from quiver_fast.analysis.histogram import SecondHistogram

points = st.lists(
    st.tuples(st.integers(0, 60), st.integers(-1000, 1000)),
    min_size=3, max_size=25, unique_by=lambda point: point[0],
)  # fmt: skip


def histogram(rows, unit="ms"):
    seconds, latencies = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return SecondHistogram.from_rows(seconds, latencies, np.ones(len(rows), np.int64), unit)


@given(points)
def test_hull_is_below_all_points_and_convex(pairs):
    xs, ys = (np.array(column, np.int64) for column in zip(*sorted(pairs), strict=True))
    hull = lower_hull(xs, ys)
    assert hull[0] == 0
    assert hull[-1] == len(xs) - 1
    line = np.interp(xs, xs[hull], ys[hull])
    assert np.all(line <= ys + 1e-9)
    slopes = np.diff(ys[hull]) / np.diff(xs[hull])
    assert np.all(np.diff(slopes) > 0)


@given(points)
def test_drift_is_the_closest_line_below(pairs):
    """Moon, Skelly and Towsley's linear programme, by trying every pair of points."""
    rows = [(x * 10, y) for x, y in pairs]
    ours = drift(histogram(rows))
    distances = {}
    for (x1, y1), (x2, y2) in itertools.combinations(rows, 2):
        slope = (y2 - y1) / (x2 - x1)
        below = [y - (y1 + slope * (x - x1)) for x, y in rows]
        if min(below) >= -1e-9:
            distances[slope * 1000] = sum(below)
    best = min(distances.values())
    ppm = min(distances, key=lambda slope: abs(slope - ours.ppm))
    assert ours.ppm == pytest.approx(ppm)
    assert distances[ppm] == pytest.approx(best, abs=1e-6)


def test_a_known_drift_is_found_under_noise():
    random = np.random.default_rng(1)
    seconds = np.repeat(np.arange(600), 50)
    delays = 200 + random.exponential(2000, len(seconds)).astype(np.int64)
    latencies = delays - 40 * seconds  # microseconds: the receiver loses 40 in a second
    ours = drift(histogram(list(zip(seconds, latencies, strict=True)), "us"))
    assert ours.ppm == pytest.approx(-40, abs=2)
    assert ours.windows == 60
    assert ours.resolution_ppm == pytest.approx(1 / 590)


def test_two_windows_tell_no_drift():
    assert drift(histogram([(0, 1), (15, 2), (19, 1)])) is None
    assert drift(SecondHistogram(*[np.empty(0, np.int64)] * 3, "ms")) is None


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(-9, 9)), min_size=1))
def test_window_minima(rows):
    xs, ys = window_minima(histogram(rows))
    slow = {x // 10 * 10: min(b for a, b in rows if a // 10 == x // 10) for x, _ in rows}
    assert dict(zip(xs.tolist(), ys.tolist(), strict=True)) == slow


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1),
    st.integers(-1000, 1000),
)
def test_offset_lies_between_the_bounds(delays, offset):
    latencies = [there + offset for there, _ in delays]
    settlements = [there + back for there, back in delays]
    low = offset_at_least(
        Distribution.of(np.array(latencies)), Distribution.of(np.array(settlements))
    )
    assert low == max(a - b for a, b in zip(sorted(latencies), sorted(settlements), strict=True))
    assert low <= offset <= min(latencies)


def test_offset_needs_the_same_messages():
    one, two = Distribution.of(np.array([1])), Distribution.of(np.array([1, 2]))
    with pytest.raises(ValueError, match="same messages"):
        offset_at_least(one, two)
