"""The interval of a median: exact by counting, and right as often as it says."""

import itertools
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.compare.comparison import LEAST_VALUES, median_interval


def coverage_by_counting(n: int, k: int) -> float:
    """Return how often the k-th smallest and largest of n enclose the median: all 2^n cases."""
    below = [sum(sides) for sides in itertools.product((0, 1), repeat=n)]
    return sum(k <= count <= n - k for count in below) / len(below)


@pytest.mark.parametrize("n", range(1, 17))
def test_it_is_the_narrowest_of_95_percent(n: int) -> None:
    values = [float(value) for value in range(1, n + 1)]
    interval = median_interval(values)
    enough = [k for k in range(1, n // 2 + 1) if coverage_by_counting(n, k) >= 0.95]
    assert interval == ((values[max(enough) - 1], values[n - max(enough)]) if enough else None)
    assert (interval is not None) == (n >= LEAST_VALUES)


@given(st.lists(st.floats(-1e9, 1e9), max_size=40))
def test_it_holds_the_median_of_the_values(values: list[float]) -> None:
    interval = median_interval(values)
    if interval is None:
        assert len(values) < LEAST_VALUES
        return
    assert interval[0] <= statistics.median(values) <= interval[1]
    assert set(interval) <= set(values)
    shuffled = random.Random(1).sample(values, len(values))
    assert median_interval(shuffled) == interval


def test_it_holds_the_true_median_as_often_as_it_says() -> None:
    draws = random.Random(20161)
    hits = 0
    for _ in range(1000):
        low, high = median_interval([draws.expovariate(1) for _ in range(10)]) or (1, 0)
        hits += low <= 0.6931471805599453 <= high
    # 97.9 % by the formula; 95 % is six standard deviations below.
    assert hits >= 950
