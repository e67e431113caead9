"""Comparison and change points against slow twins, and SciPy as a judge."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.change_calibration import limit
from support.simulated_seconds import autoregression

from quiver_fast.analysis.compare import comparison as module
from quiver_fast.analysis.compare.blocks import block_length, resampled_means
from quiver_fast.analysis.compare.changepoints import (
    best_split,
    change_points,
    dependence,
    detectable_step,
    separation,
    separation_limit,
)
from quiver_fast.analysis.compare.comparison import (
    TOO_FEW,
    Sample,
    bootstrap_difference,
    compare,
    holm,
    rank_sum,
    within_runs,
)
from quiver_fast.analysis.compare.sets import FIGURES, compare_figures
from quiver_fast.analysis.figures.run_data import RunFigures
from quiver_fast.analysis.show.set_charts import run_dots
from tests.support.simulated_runs import false_alarms, power, simulated_set

values = st.lists(st.integers(0, 30).map(float), min_size=1, max_size=40)
few_values = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5)


@given(values, values)
def test_effect_counts_pairs(base, candidate):
    _, effect = rank_sum(np.array(base), np.array(candidate))
    above = sum((c > b) - (c < b) for b in base for c in candidate)
    assert effect == pytest.approx(above / (len(base) * len(candidate)))


@given(few_values, few_values)
def test_p_value_counts_all_permutations(base, candidate):
    """Every choice of which runs are the candidate's, mid-ranks and all."""
    together = base + candidate
    ranks = [
        sum(other < one for other in together) + (together.count(one) + 1) / 2 for one in together
    ]
    centre = len(candidate) * (len(together) + 1) / 2
    found = abs(sum(ranks[len(base) :]) - centre)
    sums = [abs(sum(chosen) - centre) for chosen in combinations(ranks, len(candidate))]
    ours, _ = rank_sum(np.array(base), np.array(candidate))
    assert ours == pytest.approx(sum(one >= found for one in sums) / len(sums))


@settings(deadline=None)  # SciPy takes its time to load
@given(values, values)
def test_p_value_is_scipys(base, candidate):
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the judge")
    if len(set(base + candidate)) < len(base + candidate):
        return  # SciPy's exact method does not know ties
    ours, _ = rank_sum(np.array(base), np.array(candidate))
    judge = stats.mannwhitneyu(candidate, base, method="exact", alternative="two-sided")
    assert ours == pytest.approx(judge.pvalue, rel=1e-9)


@pytest.mark.parametrize("ties", [False, True])
def test_p_value_of_many_runs_is_scipys(ties):
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the judge")
    random = np.random.default_rng(11)
    base, candidate = random.normal(10, 1, 70), random.normal(10.3, 1, 60)
    if ties:
        base, candidate = base.round(), candidate.round()
    ours, _ = rank_sum(base, candidate)
    judge = stats.mannwhitneyu(candidate, base, method="asymptotic", alternative="two-sided")
    assert ours == pytest.approx(judge.pvalue, rel=1e-9)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm(p_values):
    order = sorted(p_values)
    slow = [
        min(1.0, max(order[j] * (len(order) - j) for j in range(order.index(one) + 1)))
        for one in p_values
    ]
    assert holm(p_values) == pytest.approx(slow)


@pytest.mark.parametrize("freedom", [4, 9, 19, 49])
def test_students_quantile_is_scipys(freedom):
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the judge")
    assert module._student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=5e-3)


@pytest.mark.parametrize("runs", [5, 10])
def test_the_interval_covers_the_truth(runs):
    random = np.random.default_rng(7)
    hits = 0
    for _ in range(200):
        low, high = bootstrap_difference(random.normal(10, 1, runs), random.normal(11, 1, runs))
        hits += low <= 1 <= high
    assert hits >= 180


def slow_block_means(series, resamples, generator):
    """Blocks joined one by one, with the draws in the same order."""
    length = block_length(series)
    starts = generator.integers(len(series), size=(resamples, math.ceil(len(series) / length)))
    circle = [*series, *series]
    return [
        np.mean([value for start in row for value in circle[start : start + length]])
        for row in starts
    ]


@given(st.lists(st.integers(0, 30).map(float), min_size=2, max_size=40))
def test_resampled_means(series):
    series = np.array(series)
    ours = resampled_means(series, 20, np.random.default_rng(1))
    assert ours == pytest.approx(slow_block_means(series, 20, np.random.default_rng(1)))


def test_blocks_are_as_long_as_the_memory_of_the_series():
    random = np.random.default_rng(3)
    noise = random.normal(0, 1, 400)
    slow = np.convolve(random.normal(0, 1, 430), np.ones(31), "valid")
    assert block_length(noise) <= 4
    assert block_length(slow) >= 15
    assert block_length(np.full(20, 5.0)) == 1


def test_intervals_within_runs_know_that_seconds_depend_on_each_other():
    """AR(0.8): an interval that took the seconds for independent would be a third as wide."""
    random = np.random.default_rng(5)
    hits = 0
    for _ in range(100):
        base, candidate = (simulated_set(random, runs=1, memory=0.8, seconds=120) for _ in "ab")
        low, high = within_runs(base, candidate)
        hits += low <= 0 <= high
    assert hits >= 80


def level(mean, runs=10, seed=0):
    random = np.random.default_rng(seed)
    return simulated_set(random, runs=runs, level=mean, between=0.01)


def one(base, candidate, larger_is_better=True):
    return compare({"f": base}, {"f": candidate}, {"f": larger_is_better})["f"]


@pytest.mark.parametrize(
    ("mean", "larger_is_better", "verdict"),
    [
        (105, True, "better"), (105, False, "worse"),
        (95, True, "worse"), (95, False, "better"),
        (100, True, "no difference above 1.2 %"),
    ],
)  # fmt: skip
def test_verdict(mean, larger_is_better, verdict):
    ours = one(level(100, seed=1), level(mean, seed=2), larger_is_better)
    assert ours.verdict == verdict
    assert ours.change == pytest.approx(mean / 100 - 1, abs=0.02)
    assert ours.interval[0] < ours.difference < ours.interval[1]
    assert ours.interval_of == "runs"
    assert (len(ours.base_runs), len(ours.candidate_runs)) == (10, 10)


def test_few_runs_have_no_verdict_but_an_interval_within_them():
    ours = one(level(100, runs=4), level(200, runs=9))
    assert (ours.verdict, ours.p_value, ours.adjusted_p_value, ours.effect) == (
        TOO_FEW, None, None, None,
    )  # fmt: skip
    assert ours.interval_of == "within these runs"
    assert ours.interval[0] < 100 < ours.interval[1]
    nothing = one([], level(9))
    assert (nothing.base, nothing.difference, nothing.interval) == (None, None, None)
    assert nothing.verdict == TOO_FEW


def test_equal_sets_do_not_differ():
    same = level(5, runs=5)
    assert one(same, same).verdict.startswith("no difference above 1")
    flat = [Sample(3.0, np.full(20, 3.0))] * 5
    assert one(flat, flat).p_value == 1
    assert one(flat, flat).verdict == "no difference above 0.1 %"


def scattered(random, mean, scatter, runs=5, tick=0.0):
    return [
        Sample(mean * (1 + scatter * x), np.full(2, mean), tick) for x in random.normal(size=runs)
    ]


def test_a_change_that_is_not_shown_tells_how_many_runs_would_show_it():
    """-42 % of five runs that scatter by 60 %: the change is told, and that it proves nothing."""
    ours = one(
        scattered(np.random.default_rng(4), 100, 0.6), scattered(np.random.default_rng(5), 60, 0.6)
    )
    assert (ours.verdict, ours.no_difference_above) == ("not shown", None)
    half = (ours.interval[1] - ours.interval[0]) / 2
    assert ours.shown_from == pytest.approx(half / ours.base)
    assert ours.runs_to_show == max(6, math.ceil(5 * (half / ours.difference) ** 2))


def test_what_a_coarse_clock_may_hide_is_in_the_bound():
    """Runs of 40 ms each by a clock of milliseconds: up to a millisecond may differ."""
    sides = [[Sample(40.0, np.full(2, 40.0), tick)] * 5 for tick in (0.0, 0.001, 1.0, 2.5)]
    bounds = [one(side, side).no_difference_above for side in sides]
    assert bounds == [0.001, 0.001, 0.025, None]
    assert one(sides[3], sides[0]).verdict == "not shown"
    nothing = [Sample(0.0, np.zeros(2))] * 5
    assert one(nothing, nothing).verdict == "not shown"


@pytest.mark.parametrize("runs", [5, 10])
def test_a_bound_is_seldom_below_the_truth(runs):
    """At most 5 % of sets that differ by 3 % may get a smaller bound."""
    random = np.random.default_rng(runs)
    pairs = [
        one(scattered(random, 100, 0.01, runs), scattered(random, 103, 0.01, runs))
        for _ in range(100)
    ]
    wrong = [found for found in pairs if (found.no_difference_above or 1) < 0.03]
    assert len(wrong) <= 5
    equal = [
        one(scattered(random, 100, 0.01, runs), scattered(random, 100, 0.01, runs))
        for _ in range(20)
    ]
    assert sum(found.verdict.startswith("no difference above") for found in equal) >= 15


def test_one_outlier_decides_nothing():
    """A run of five that the machine disturbed moves the mean, and no verdict."""
    disturbed = [*level(100, runs=4, seed=3), Sample(10.0, np.full(30, 10.0))]
    assert one(level(100, runs=5), disturbed).verdict == "not shown"


@pytest.mark.parametrize("runs", [5, 10])
@pytest.mark.parametrize(
    ("memory", "between"), [(0.0, 0.0), (0.5, 0.0), (0.8, 0.0), (0.0, 0.01), (0.0, 0.02)]
)
def test_false_alarms(runs, memory, between):
    """Four figures of equal sets: 5 % of sets may differ; 40 sets are expected to have 2."""
    assert false_alarms(sets=40, runs=runs, memory=memory, between=between) <= 6


def test_power():
    assert power(sets=40, runs=10, gain=0.02, between=0.005) >= 36


@pytest.mark.slow
@pytest.mark.parametrize("runs", [5, 10])
@pytest.mark.parametrize(
    ("memory", "between"), [(0.0, 0.0), (0.5, 0.0), (0.8, 0.0), (0.0, 0.01), (0.0, 0.02)]
)
def test_calibration(runs, memory, between):
    """The table of docs/analysis.md: at most 7 % of 400 pairs of equal sets differ."""
    assert false_alarms(sets=400, runs=runs, memory=memory, between=between) <= 28


@pytest.mark.slow
def test_calibration_of_power():
    assert power(sets=400, runs=10, gain=0.02, between=0.005) >= 360


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
    # Two steps look like dependence beside one of them, and not beside both.
    assert dependence(levels)[1] < 0.05 < dependence(levels, [12, 24])[1]
    assert change_points(np.full(20, 5.0)) == []
    assert change_points(np.array([1.0, 1, 1, 9, 9])) == []


def test_noise_rarely_changes():
    random = np.random.default_rng(5)
    assert sum(bool(change_points(random.normal(0, 1, 15))) for _ in range(20)) <= 3


def series_of_runs(random, runs, memory, step=0.0):
    """A first-order autoregression of runs, scatter 1, with a step in the midst."""
    return autoregression(random, 1, runs, memory)[0] + step * (np.arange(runs) >= runs // 2)


def changed(series):
    """Say whether a change point is given: not where runs depend on each other."""
    found = change_points(series)
    return bool(found) and dependence(series, found)[1] >= 0.05


def share_changed(series, runs, memory, step=0.0):
    random = np.random.default_rng([runs, int(10 * memory), int(10 * step)])
    found = sum(changed(series_of_runs(random, runs, memory, step)) for _ in range(series))
    return found / series


# At a scatter of 2 % from run to run these are steps of 8 % and of 5 %.
@pytest.mark.parametrize(("runs", "step", "least"), [(12, 4, 0.7), (24, 2.5, 0.7)])
def test_steps_that_the_runs_show_are_found(runs, step, least):
    assert share_changed(30, runs, 0.0, step) >= least


def test_runs_that_depend_on_their_neighbours_seldom_change():
    """Permutations alone find a change in 30 to 53 % of them."""
    assert share_changed(60, 16, 0.6) <= 0.1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("runs", [12, 16, 20, 24, 30])
def test_the_calibration_of_change_points(runs, capsys):
    """The table of docs/analysis.md."""
    wrong = [share_changed(400, runs, memory) for memory in (0.0, 0.3, 0.6)]
    found = [share_changed(400, runs, 0.0, step) for step in (2.5, 3, 4)]
    with capsys.disabled():
        print(runs, *(f"{100 * share:.1f} %" for share in wrong + found))
    assert max(wrong) <= 0.07


@pytest.mark.parametrize("runs", [6, 12, 40])
def test_the_limits_of_change_points(runs):
    assert separation_limit(runs) == pytest.approx(limit(runs, 500), rel=0.1)


def test_the_separation_of_levels():
    values = np.array([1.0, 2, 3, 9, 10, 11])
    # Residuals -1, 0, 1, -1, 0, 1: their autocorrelation is -1/4, and 0.25 with its bias.
    assert separation(values, [3]) == pytest.approx(8 / (1 * 5 / 3 * 2 / 3) ** 0.5)
    assert separation(np.repeat([1.0, 2.0], 4), [4]) == np.inf
    assert separation(np.ones(8), [4]) == 0
    assert separation(np.repeat([1.0, 2, 5], 4), [4, 8], 1) == np.inf


def test_what_a_series_would_show_is_found():
    random = np.random.default_rng(4)
    step = np.median([detectable_step(series_of_runs(random, 16, 0), []) for _ in range(40)])
    assert 3 <= step <= 4
    assert 0.6 <= share_changed(30, 16, 0.0, step) <= 1


def test_runs_that_depend_on_their_neighbours_are_told():
    random = np.random.default_rng(9)
    dependent, independent = (
        sum(dependence(series_of_runs(random, 24, memory))[1] < 0.05 for _ in range(40))
        for memory in (0.6, 0.0)
    )
    assert dependent >= 20
    assert independent <= 6


def slow_autocorrelation(values, split):
    parts = [values[:split], values[split:]]
    residuals = [value - sum(part) / len(part) for part in parts for value in part]
    squares = sum(one * one for one in residuals)
    pairs = sum(a * b for a, b in pairwise(residuals))
    return pairs / squares if squares > 1e-9 else 0.0


@settings(deadline=None)
@given(st.lists(st.integers(0, 50).map(float), min_size=6, max_size=14))
def test_dependence_is_the_autocorrelation_beside_the_best_split(values):
    split, _ = best_split(np.array(values))
    ours, p_value = dependence(np.array(values))
    assert ours == pytest.approx(slow_autocorrelation(values, split), abs=1e-6)
    assert 0 < p_value <= 1


def test_each_run_is_a_dot():
    def run(name, value):
        values = dict.fromkeys(FIGURES, value)
        seconds = {figure: np.full(6, value) for figure in FIGURES}
        return RunFigures(name, 0, values, values, seconds)

    sets = {"base": [1.0, 2.0, 4.0, 2.0, 2.0], "candidate": [3.0, 5.0, 6.0, 5.0, 7.0, 8.0]}
    base, candidate = ([run(str(n), value) for n, value in enumerate(s)] for s in sets.values())
    charts = run_dots(compare_figures(base, candidate))
    assert len(charts) == len(FIGURES)
    for chart in charts:
        dots = [shape.xs.tolist() for shape in chart.shapes if not shape.form]
        assert dots == list(sets.values())
