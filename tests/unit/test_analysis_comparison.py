"""Comparison and change points against slow twins, and SciPy as a judge."""

from dataclasses import asdict
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.change_calibration import limit
from support.simulated_runs import run_of, samples
from support.simulated_seconds import autoregression

from quiver_fast.analysis.compare.changepoints import (
    best_split,
    change_points,
    dependence,
    detectable_step,
    separation,
    separation_limit,
)
from quiver_fast.analysis.compare.comparison import (
    BETTER,
    NOT_SHOWN,
    TOO_FEW,
    WORSE,
    Rules,
    Sample,
    compare,
    in_words,
    rank_test,
    undecided,
)
from quiver_fast.analysis.compare.sets import compare_figures
from quiver_fast.analysis.model.figures import SET_FIGURES
from quiver_fast.analysis.show.set_charts import change_intervals, run_dots

values = st.lists(st.integers(0, 30).map(float), min_size=1, max_size=40)
few_values = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5)


def rank_tested(base, candidate, level=1.0):
    return rank_test(np.array(base), np.array(candidate), level)


@given(values, values)
def test_effect_counts_pairs(base, candidate):
    above = sum((c > b) - (c < b) for b in base for c in candidate)
    assert rank_tested(base, candidate).effect == pytest.approx(
        above / (len(base) * len(candidate))
    )


@given(few_values, few_values)
def test_p_value_counts_all_permutations(base, candidate):
    """Every choice of which ranks are the candidate's; equal runs count for both directions."""
    n, m = len(base), len(candidate)
    against = min(
        sum(c <= b for b in base for c in candidate), sum(c >= b for b in base for c in candidate)
    )
    below = [
        sum(low < one for one in chosen for low in range(n + m) if low not in chosen)
        for chosen in combinations(range(n + m), m)
    ]
    share = sum(one <= against for one in below) / len(below)
    assert rank_tested(base, candidate).p_value == pytest.approx(min(1, 2 * share))


@settings(deadline=None)  # SciPy takes its time to load
@given(values, values)
def test_p_value_is_scipys(base, candidate):
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the judge")
    if len(set(base + candidate)) < len(base + candidate):
        return  # SciPy's exact method does not know ties
    judge = stats.mannwhitneyu(candidate, base, method="exact", alternative="two-sided")
    assert rank_tested(base, candidate).p_value == pytest.approx(judge.pvalue, rel=1e-9)


def test_p_value_of_many_runs_is_scipys():
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the judge")
    random = np.random.default_rng(11)
    base, candidate = random.normal(10, 1, 70), random.normal(10.3, 1, 60)
    judge = stats.mannwhitneyu(candidate, base, method="asymptotic", alternative="two-sided")
    assert rank_tested(base, candidate).p_value == pytest.approx(judge.pvalue, rel=1e-9)


run_values = st.lists(
    st.one_of(st.integers(0, 5).map(float), st.floats(0.001, 1000)), min_size=5, max_size=15
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(run_values, run_values), min_size=1, max_size=4), st.sampled_from([0, 0.01])
)
def test_an_interval_without_0_is_a_difference_and_the_other_way_round(sets, relevant):
    """p50 +31.3 %, interval 541 us to 7.23 ms, "not shown": no such thing for any sets."""
    sides = [
        {str(n): samples(np.array(pair[side])) for n, pair in enumerate(sets)} for side in (0, 1)
    ]
    found = compare(*sides, dict.fromkeys(sides[0], True), rules=Rules(relevant))
    for figure in found.values():
        low, high = figure.interval
        assert low <= figure.difference <= high
        apart = not low <= 0 <= high
        assert apart == (figure.adjusted_p_value <= 0.05)
        assert apart == (
            figure.verdict in (BETTER, WORSE) or figure.verdict.startswith("difference")
        )
        if figure.verdict in (BETTER, WORSE):
            assert figure.change is None or abs(figure.change) >= relevant
            assert (figure.verdict == BETTER) == (low > 0)
        assert (figure.shown_from is not None) <= (figure.verdict == NOT_SHOWN)


@pytest.mark.parametrize("runs", [5, 10])
def test_the_interval_covers_the_truth(runs):
    random = np.random.default_rng(7)
    hits = 0
    for _ in range(200):
        low, high = rank_tested(
            random.normal(10, 1, runs), random.normal(11, 1, runs), 0.05
        ).interval
        hits += low <= 1 <= high
    assert hits >= 185


def level(mean, runs=10, seed=0):
    random = np.random.default_rng(seed)
    return samples(mean * (1 + 0.01 * random.normal(size=runs)))


def one(base, candidate, larger_is_better=True, rules=None):
    return compare({"f": base}, {"f": candidate}, {"f": larger_is_better}, rules=rules)["f"]


@pytest.mark.parametrize(
    ("mean", "larger_is_better", "verdict"),
    [
        (105, True, "better"), (105, False, "worse"),
        (95, True, "worse"), (95, False, "better"),
        (100, True, "no difference above 1.0 %"),
    ],
)  # fmt: skip
def test_verdict(mean, larger_is_better, verdict):
    ours = one(level(100, seed=1), level(mean, seed=2), larger_is_better)
    assert ours.verdict == verdict
    assert ours.change == pytest.approx(mean / 100 - 1, abs=0.02)
    assert ours.interval[0] < ours.difference < ours.interval[1]
    assert (len(ours.base_runs), len(ours.candidate_runs)) == (10, 10)
    assert ours.base == np.median(ours.base_runs)


def test_few_runs_have_no_verdict_and_no_interval():
    ours = one(level(100, runs=4), level(200, runs=9))
    assert (ours.verdict, ours.p_value, ours.adjusted_p_value, ours.effect, ours.interval) == (
        TOO_FEW, None, None, None, None,
    )  # fmt: skip
    nothing = one([], level(9))
    assert (nothing.base, nothing.difference, nothing.interval) == (None, None, None)
    assert nothing.verdict == TOO_FEW


def test_one_message_of_12_000_is_no_difference_that_matters():
    """Five runs of 12,000 messages and five of 11,999: "worse in message rate (-0.0%)"."""
    ours = one([Sample(400.0)] * 5, [Sample(399.97)] * 5)
    assert (ours.verdict, ours.no_difference_above) == ("difference below 1 %", 0.001)
    assert one([Sample(400.0)] * 5, [Sample(399.97)] * 5, rules=Rules(0)).verdict == "worse"
    assert one([Sample(400.0)] * 5, [Sample(395.0)] * 5).verdict == "worse"


def test_equal_sets_do_not_differ():
    same = level(5, runs=5)
    assert one(same, same).verdict.startswith("no difference above ")
    flat = [Sample(3.0)] * 5
    assert one(flat, flat).p_value == 1
    assert one(flat, flat).verdict == "no difference above 0.1 %"


def scattered(random, mean, scatter, runs=5):
    return samples(mean * (1 + scatter * random.normal(size=runs)))


def test_what_a_coarse_clock_may_hide_is_in_the_bound():
    """Runs of 40 ms each by a clock of milliseconds: up to a millisecond may differ."""
    sides = [[Sample(40.0, tick)] * 5 for tick in (0.0, 0.001, 1.0, 2.5)]
    bounds = [one(side, side).no_difference_above for side in sides]
    assert bounds == [0.001, 0.001, 0.025, None]
    assert one(sides[3], sides[0]).verdict == "not shown"
    nothing = [Sample(0.0)] * 5
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


def test_one_outlier_decides_nothing_and_is_counted():
    """A run of five that the machine disturbed moves no verdict."""
    disturbed = [*level(100, runs=4, seed=3), Sample(10.0)]
    ours = one(level(100, runs=5), disturbed)
    assert (ours.verdict, ours.base_slow, ours.candidate_slow) == ("not shown", 0, 1)
    assert one(disturbed, disturbed, larger_is_better=False).base_slow == 0


def in_pairs(base, candidate, messages=(10**6, 10**6)):
    """Return runs in turns, given the rates of each side and the messages of its runs."""
    return [
        [
            run_of(f"{side}{n}", 2000 * n + 1000 * side, {"message_rate": rate, **OTHERS}, length)
            for n, rate in enumerate(rates)
        ]
        for side, (rates, length) in enumerate(zip((base, candidate), messages, strict=True))
    ]


OTHERS = {"latency_p50": 5.0, "latency_p99": 6.0, "latency_max": 9.0}


def test_rare_slow_runs_are_counted_beside_the_typical_run():
    """One run in 20 of the candidate is ten times slower: the mean falls by 4.5 %."""
    steady, slow = [100.0] * 20, [100.0] * 19 + [10.0]
    found = compare_figures(*in_pairs(steady, slow))
    assert found["verdict"] == "no difference above 0.1 %"
    assert in_words(found) == (
        "The candidate's typical run differs by no more than that in any figure: the intervals "
        "prove it. Runs that are twice as bad as the typical one, of base and candidate: "
        "message rate 0 of 20 and 1 of 20."
    )


def test_maxima_of_runs_of_different_lengths_are_not_compared():
    sides = in_pairs([100.0] * 5, [100.0] * 5, (10**6, 4 * 10**6))
    figures = compare_figures(*sides)["figures"]
    assert figures["latency_max"]["verdict"] == "not compared: runs of different lengths"
    assert figures["latency_max"]["interval"] is None
    assert figures["latency_p99"]["verdict"] == "no difference above 0.1 %"
    # Of a hundred messages the 99th percentile is an extreme, too.
    sides = in_pairs([100.0] * 5, [100.0] * 5, (100, 400))
    figures = compare_figures(*sides)["figures"]
    assert figures["latency_p99"]["verdict"] == "not compared: runs of different lengths"


def test_no_number_of_runs_decides_a_figure_that_is_not_compared():
    sides = in_pairs([100.0] * 2, [100.0] * 2)
    comparison = compare_figures(*sides, Rules(detect=0.05))
    assert undecided(comparison) == ["message_rate", "latency_p50", "latency_p99"]
    assert comparison["verdict"].startswith("too few runs")
    assert comparison["figures"]["latency_max"]["change"] is None


def ordered(order, drift=0.0):
    """Runs one after the other, each slower by a share, of the sides that a text names."""
    made = [
        (side, run_of(str(n), 1000 * n, {"message_rate": 100.0 * (1 - drift * n), **OTHERS}))
        for n, side in enumerate(order)
    ]
    return [[run for side, run in made if side == one] for one in "AB"]


@pytest.mark.parametrize("order", ["AAAAABBBBB", "BBBBBAAAAA", "AAAAAABBBBBAB", "AAAAABBBBBBAAAAA"])
def test_sides_made_one_after_the_other_are_not_compared(order):
    """A machine that slows down makes the second side "worse"."""
    found = compare_figures(*ordered(order, 0.02))
    verdicts = {found["verdict"], *(figure["verdict"] for figure in found["figures"].values())}
    assert verdicts == {"not comparable: made one after the other"}
    assert {figure["interval"] for figure in found["figures"].values()} == {None}
    assert "--trust-order" in in_words(found)
    trusted = compare_figures(*ordered("AAAAABBBBB", 0.02), Rules(trust_order=True))
    assert trusted["verdict"] == "worse"


@pytest.mark.parametrize("order", ["ABBAABBAAB", "ABABABABAB", "AABBAABBAABB"])
def test_sides_in_turns_are_compared(order):
    assert compare_figures(*ordered(order))["verdict"] == "no difference above 0.1 %"


def test_sides_that_overlap_are_compared():
    values = {"message_rate": 100.0, **OTHERS}
    sides = [[run_of(str(n), n + 10 * side, values) for n in range(5)] for side in (0, 1)]
    assert compare_figures(*sides)["verdict"] == "no difference above 0.1 %"
    late = [[run_of(str(n), 2000 * side + n, values) for n in range(5)] for side in (0, 1)]
    assert compare_figures(*late)["verdict"].startswith("not comparable")


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


def test_intervals_are_drawn_where_there_are_any():
    [chart] = change_intervals(compare_figures(*in_pairs([100.0] * 5, [150.0] * 5)))
    assert "An interval that does not have 0 in it is a difference." in chart.html()
    assert change_intervals(compare_figures(*in_pairs([100.0] * 4, [150.0] * 4))) == []


def test_each_run_is_a_dot():
    def run(name, value):
        return run_of(name, 0, dict.fromkeys(SET_FIGURES, value))

    sets = {"base": [1.0, 2.0, 4.0, 2.0, 2.0], "candidate": [3.0, 5.0, 6.0, 5.0, 7.0, 8.0]}
    base, candidate = ([run(str(n), value) for n, value in enumerate(s)] for s in sets.values())
    charts = run_dots(compare_figures(base, candidate))
    assert len(charts) == len(SET_FIGURES)
    for chart in charts:
        dots = [shape.xs.tolist() for shape in chart.shapes if not shape.form]
        assert dots == list(sets.values())


def test_a_difference_is_below_what_is_relevant_only_if_its_interval_is():
    """Typical runs 0.5 % apart, and an interval up to 30 %: "difference below 1 %", all green."""
    base, candidate = [Sample(1.0)] * 6, [Sample(1.005)] * 4 + [Sample(1.3)] * 2
    ours = one(base, candidate, larger_is_better=False)
    assert ours.change == pytest.approx(0.005)
    assert ours.interval == pytest.approx((0.005, 0.3))
    assert ours.verdict == "difference, not shown to be relevant"
    assert undecided({"figures": {"f": asdict(ours)}}) == ["f"]
    near = one(base, [Sample(1.005)] * 4 + [Sample(1.02)] * 2)
    assert (near.verdict, near.no_difference_above) == (ours.verdict, 0.02)
    assert not undecided({"figures": {"f": asdict(near)}})
    wide = one(base, candidate, rules=Rules(0.31))
    assert wide.verdict == "difference below 31 %"


def test_five_runs_that_detect_nothing_are_not_fewer_than_five():
    """--within over after five runs of each: "too few runs: at least 5 of each"."""
    rules = Rules(detect=0.05)
    sides = [dict.fromkeys("abc", level(mean, runs=5)) for mean in (100, 200)]
    found = compare(*sides, dict.fromkeys("abc", True), rules=rules)
    assert {figure.verdict for figure in found.values()} == {NOT_SHOWN}
    assert {figure.interval for figure in found.values()} == {None}


def test_no_number_of_runs_shows_a_change_that_is_not_relevant():
    """A change of a billionth: "about 2,400,017,556,091,030,016 of each show +0.0%"."""
    values = np.random.default_rng(1).normal(10, 2, 10)
    ours = one(samples(values), samples(values * (1 + 1e-9)))
    assert (ours.verdict, ours.runs_to_show) == (NOT_SHOWN, None)
    assert ours.shown_from is not None
