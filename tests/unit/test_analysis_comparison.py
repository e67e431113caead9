"""Comparison and change points against slow twins, and SciPy as a judge."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver_fast.analysis import comparison as module
from quiver_fast.analysis.changepoints import best_split, change_points
from quiver_fast.analysis.comparison import bootstrap_difference, compare, mann_whitney

values = st.lists(st.integers(0, 30).map(float), min_size=1, max_size=40)


@given(values, values)
def test_effect_counts_pairs(base, candidate):
    _, effect = mann_whitney(np.array(base), np.array(candidate))
    above = sum((c > b) - (c < b) for b in base for c in candidate)
    assert effect == pytest.approx(above / (len(base) * len(candidate)))


@settings(deadline=None)  # SciPy takes its time to load
@given(values, values)
def test_p_value_is_scipys(base, candidate):
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the judge")
    ours, _ = mann_whitney(np.array(base), np.array(candidate))
    if len(set(base + candidate)) == 1:
        assert ours == 1
        return
    judge = stats.mannwhitneyu(candidate, base, method="asymptotic", alternative="two-sided")
    assert ours == pytest.approx(judge.pvalue, rel=1e-9)


def slow_bootstrap(base, candidate):
    """Blocks joined one by one, with the draws in the same order."""
    generator = np.random.default_rng(module._SEED)
    means = []
    for series in (candidate, base):
        length = math.ceil(len(series) ** (1 / 3))
        blocks = math.ceil(len(series) / length)
        draws = generator.integers(len(series), size=(module._RESAMPLES, blocks))
        means.append([
            np.mean([series[(start + k) % len(series)] for start in row for k in range(length)])
            for row in draws
        ])  # fmt: skip
    return np.quantile(np.subtract(*means), (0.025, 0.975)).tolist()


@settings(max_examples=10, deadline=None)
@given(values, values)
def test_bootstrap(base, candidate):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_RESAMPLES", 50)
        ours = bootstrap_difference(np.array(base), np.array(candidate))
        assert ours == pytest.approx(slow_bootstrap(base, candidate), abs=1e-9)


def test_the_interval_covers_the_truth():
    random = np.random.default_rng(7)
    hits = 0
    for _ in range(100):
        low, high = bootstrap_difference(random.normal(10, 1, 60), random.normal(11, 1, 60))
        hits += low <= 1 <= high
    assert hits >= 88


def series(mean, size=60, seed=0):
    return np.random.default_rng(seed).normal(mean, 1, size)


@pytest.mark.parametrize(
    ("mean", "larger_is_better", "verdict"),
    [
        (105, True, "better"), (105, False, "worse"),
        (95, True, "worse"), (95, False, "better"),
        (100, True, "no difference"),
    ],
)  # fmt: skip
def test_verdict(mean, larger_is_better, verdict):
    ours = compare(series(100, seed=1), series(mean, seed=2), larger_is_better=larger_is_better)
    assert ours.verdict == verdict
    assert ours.change == pytest.approx(mean / 100 - 1, abs=0.01)
    assert ours.interval[0] < ours.difference < ours.interval[1]


def test_few_windows_have_no_verdict():
    ours = compare(np.array([0.0]), series(9, 9), larger_is_better=True)
    assert (ours.verdict, ours.interval, ours.p_value, ours.change) == (
        "too few windows",
        *[None] * 3,
    )
    nothing = compare(np.empty(0), series(9), larger_is_better=True)
    assert ours.difference is None
    assert (nothing.base, nothing.difference, nothing.verdict) == (None, None, "too few windows")


def test_equal_sets_do_not_differ():
    same = series(5)
    assert compare(same, same, larger_is_better=True).verdict == "no difference"
    flat = np.full(20, 3.0)
    assert compare(flat, flat, larger_is_better=True).p_value == 1


def slow_energy(first, second):
    def mean(pairs):
        return sum(pairs) / len(pairs)

    across = mean([abs(x - y) for x in first for y in second])
    inside = [
        mean([abs(part[i] - part[j]) for i in range(len(part)) for j in range(i)])
        for part in (first, second)
    ]
    n, m = len(first), len(second)
    return n * m / (n + m) * (2 * across - sum(inside))


@given(st.lists(st.integers(0, 50).map(float), min_size=6, max_size=20))
def test_best_split(series):
    split, q = best_split(np.array(series))
    slow = {k: slow_energy(series[:k], series[k:]) for k in range(3, len(series) - 2)}
    assert q == pytest.approx(max(slow.values()), abs=1e-9)
    assert slow[split] == pytest.approx(q, abs=1e-9)


def test_change_points():
    random = np.random.default_rng(3)
    levels = np.concatenate([random.normal(level, 1, 12) for level in (100, 120, 90)])
    assert change_points(levels) == [12, 24]
    assert change_points(np.full(20, 5.0)) == []
    assert change_points(np.array([1.0, 1, 1, 9, 9])) == []


def test_noise_rarely_changes():
    random = np.random.default_rng(5)
    assert sum(bool(change_points(random.normal(0, 1, 15))) for _ in range(20)) <= 3
