"""Clock estimates against brute force, and against clocks whose error is known."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated_clocks import DRIFTS, NOISES, held, recorded

from quiver_fast.analysis.figures.clock import drift, lower_hull, offset_at_least, second_minima
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.histogram import SecondHistogram

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


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(-1000, 1000)),
        min_size=10, max_size=25, unique_by=lambda point: point[0],
    )
)  # fmt: skip
def test_drift_is_the_closest_line_below(rows):
    """Moon, Skelly and Towsley's linear programme, by trying every pair of points."""
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
    assert ours.low_ppm <= ours.ppm <= ours.high_ppm


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(-9, 9)), min_size=60))
def test_the_interval_is_sens(rows):
    """Written out: seven windows of the seconds, the second smallest and largest of 21 slopes."""
    ours = drift(histogram(rows))
    lows = sorted({x: min(b for a, b in rows if a == x) for x, _ in rows}.items())
    if len(lows) < 10:
        assert ours is None
        return
    edges = [round(n * len(lows) / 7) for n in range(8)]
    windows = [lows[a:b] for a, b in itertools.pairwise(edges)]
    minima = [min(window, key=lambda point: point[1]) for window in windows]
    slopes = sorted((d - b) / (c - a) for (a, b), (c, d) in itertools.combinations(minima, 2))
    span = lows[-1][0] - lows[0][0]
    low, high = slopes[1], slopes[-2]
    low, high = low - (2 + abs(low)) / span, high + (2 + abs(high)) / span
    assert ours.low_ppm == pytest.approx(min(1000 * low, ours.ppm))
    assert ours.high_ppm == pytest.approx(max(1000 * high, ours.ppm))


def test_a_known_drift_is_found_under_noise():
    random = np.random.default_rng(1)
    seconds = np.repeat(np.arange(600), 50)
    delays = 200 + random.exponential(2000, len(seconds)).astype(np.int64)
    latencies = delays - 40 * seconds  # microseconds: the receiver loses 40 in a second
    ours = drift(histogram(list(zip(seconds, latencies, strict=True)), "us"))
    assert ours.ppm == pytest.approx(-40, abs=0.1)
    assert -41 < ours.low_ppm < -40 < ours.high_ppm < -39


def test_nine_seconds_tell_no_drift():
    assert drift(histogram([(n, n) for n in range(9)])) is None
    assert drift(histogram([(n, n) for n in range(10)])).ppm == 1000
    assert drift(SecondHistogram(*[np.empty(0, np.int64)] * 3, "ms")) is None


def test_one_tick_is_no_drift():
    """A clock of milliseconds cannot show 10 ppm in a minute, and its interval says so."""
    ours = drift(histogram([(n, 5) for n in range(60)]))
    assert (ours.ppm, ours.low_ppm, ours.high_ppm) == pytest.approx((0, -2000 / 59, 2000 / 59))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_the_interval_holds_the_truth(noise, unit):
    """In 95 of 100 runs; the long form is test_the_interval_in_full."""
    runs = [held(noise, unit, seconds, ppm, 10) for seconds in (10, 60) for ppm in (0, -10, 50)]
    assert sum(runs) >= 57


def test_the_interval_is_narrow_where_the_clock_is_fine():
    ours = drift(recorded(np.random.default_rng(1), "exponential", "us", 300, -50))
    assert ours.high_ppm - ours.low_ppm < 2
    assert ours.low_ppm < -50 < ours.high_ppm


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seconds", [10, 30, 60, 300, 3600])
@pytest.mark.parametrize("noise", NOISES)
def test_the_interval_in_full(noise, seconds, capsys):
    """The table of docs/analysis.md: every unit and drift, 100 runs each."""
    found = [held(noise, unit, seconds, ppm, 100) for unit in ("ms", "us", "ns") for ppm in DRIFTS]
    with capsys.disabled():
        print(noise, seconds, f"{sum(found) / len(found):.1f} %, the worst {min(found)} %")
    assert sum(found) >= 95 * len(found)
    assert min(found) >= 95


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(-9, 9)), min_size=1))
def test_second_minima(rows):
    ((xs, ys),) = second_minima(histogram(rows))
    slow = {x: min(b for a, b in rows if a == x) for x, _ in rows}
    assert list(zip(xs.tolist(), ys.tolist(), strict=True)) == sorted(slow.items())


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
