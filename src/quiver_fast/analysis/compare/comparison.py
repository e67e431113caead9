"""Whether one set of runs is better than another. The run is the unit of comparison.

The seconds of one run share its machine, its connections and its luck. They say how
exact the figure of that run is, and nothing of the next run. Each run therefore
counts once, with one value for each figure. A figure is better or worse when both hold:

- The rank-sum test (Wilcoxon 1945; Mann and Whitney 1947) rejects equality, two-sided.
  Its distribution is the exact permutation distribution of the mid-ranks, ties included,
  up to :data:`EXACT_RUNS` runs, and the normal approximation with the corrections for
  ties and continuity beyond. Several figures are judged together, so the p-values are
  adjusted by Holm's method (Scandinavian Journal of Statistics 6, 1979), and the
  adjusted value must be below 5 %.
- The 95 % interval of the difference of means leaves out 0. It is the percentile
  bootstrap over runs, with the percentiles expanded for few runs (Hesterberg, "What
  Teachers Should Know About the Bootstrap", The American Statistician 69, 2015). Runs
  are resampled whole: a second level, of seconds within runs, would count the scatter
  within runs twice (Davison and Hinkley, "Bootstrap Methods and their Application",
  1997, section 3.8).

A figure that is neither has no difference above X % where the interval proves that
(:func:`proven_bound`); else a difference is not shown.

Under five runs on a side there is no verdict. Then there is only the interval
within the runs that there are (:func:`within_runs`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.compare.blocks import resampled_means

Float64Array = NDArray[np.float64]

BETTER, WORSE = "better", "worse"
NOT_SHOWN = "not shown"
NO_DIFFERENCE = "no difference above"

MINIMUM_RUNS = 5
TOO_FEW = f"too few runs: at least {MINIMUM_RUNS} of each"
CONFIDENCE = 0.95
SIGNIFICANCE = 0.05
EXACT_RUNS = 100
"""Runs of both sides together up to which the test is exact."""
SMALL_CHANGE = 0.05
"""A larger bound of a change is not worth a verdict: the runs scatter too much."""
_BOUND_STEPS = 1000
_RESAMPLES = 4000
# Equal inputs give equal answers: the resampling is seeded.
_SEED = 20160828


@dataclass(frozen=True, eq=False)
class Sample:
    """One figure of one run.

    Attributes:
        value: the figure of the run as a whole.
        windows: float64, the figure in each second of the run, in order of time.
        tick: the step that the clock cuts the figure to; 0 for none.
    """

    value: float
    windows: Float64Array
    tick: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """One figure of a set of candidate runs against that of a set of base runs.

    Attributes:
        base, candidate: means over the runs; None without runs.
        base_runs, candidate_runs: the value of each run.
        change: (candidate - base) / base; None when the base is 0, and with too few runs.
        difference: candidate - base.
        interval: the 95 % interval of the difference; None where nothing can be said.
        interval_of: "runs", or "within these runs" where there are too few: that interval
            leaves out how runs differ from each other.
        p_value: of the rank-sum test, two-sided; None with too few runs.
        adjusted_p_value: by Holm's method over the figures compared.
        effect: Cliff's delta, -1 to 1; above 0 when the candidate's runs are larger.
        no_difference_above: the share of the base that the change is proven not to exceed,
            where the verdict says so; else None.
        shown_from: the change, as a share of the base, that so many runs would show; None
            but of a verdict ``not shown``.
        runs_to_show: how many runs of each set would show the change; likewise.
        verdict: ``better``, ``worse``, ``no difference above X %``, ``not shown`` or
            ``too few runs: …``.
    """

    base: float | None
    candidate: float | None
    base_runs: tuple[float, ...]
    candidate_runs: tuple[float, ...]
    change: float | None
    difference: float | None
    interval: tuple[float, float] | None
    interval_of: str | None
    p_value: float | None
    adjusted_p_value: float | None
    effect: float | None
    no_difference_above: float | None
    shown_from: float | None
    runs_to_show: int | None
    verdict: str


@dataclass(frozen=True)
class _Test:
    """The test of one figure, before the figures are judged together."""

    interval: tuple[float, float]
    p_value: float
    effect: float


def compare(
    base: Mapping[str, Sequence[Sample]],
    candidate: Mapping[str, Sequence[Sample]],
    larger_is_better: Mapping[str, bool],
) -> dict[str, Comparison]:
    """Compare two sets of runs, figure by figure.

    Args:
        base: for each figure one sample per run.
        candidate: the same figures.
        larger_is_better: for each figure; true of rates, false of latencies.
    """
    tests = {
        name: _test(base[name], candidate[name])
        for name in larger_is_better
        if min(len(base[name]), len(candidate[name])) >= MINIMUM_RUNS
    }
    adjusted = dict(zip(tests, holm([test.p_value for test in tests.values()]), strict=True))
    return {
        name: _comparison(base[name], candidate[name], tests.get(name), adjusted.get(name), larger)
        for name, larger in larger_is_better.items()
    }


def _comparison(
    base: Sequence[Sample],
    candidate: Sequence[Sample],
    test: _Test | None,
    adjusted: float | None,
    larger_is_better: bool,
) -> Comparison:
    values = [tuple(sample.value for sample in side) for side in (base, candidate)]
    before, after = (_mean(side) for side in values)
    difference = None if before is None or after is None else after - before
    interval = within_runs(base, candidate) if test is None else test.interval
    interval_of = "within these runs" if test is None else "runs"
    verdict, bound = _verdict(test, adjusted, larger_is_better), None
    if test and verdict == NOT_SHOWN and before:
        bound = proven_bound(before, test.interval, _tick(base, candidate))
    open_test = test if verdict == NOT_SHOWN and bound is None else None
    return Comparison(
        base=before,
        candidate=after,
        base_runs=values[0],
        candidate_runs=values[1],
        change=difference / before if test and difference is not None and before else None,
        difference=difference,
        interval=interval,
        interval_of=None if interval is None else interval_of,
        p_value=None if test is None else test.p_value,
        adjusted_p_value=adjusted,
        effect=None if test is None else test.effect,
        no_difference_above=bound,
        shown_from=None if not (open_test and before) else shown_from(before, open_test.interval),
        runs_to_show=None
        if not (open_test and difference)
        else runs_to_show(min(len(base), len(candidate)), difference, open_test.interval),
        verdict=verdict if bound is None else no_difference(bound),
    )


def _tick(base: Sequence[Sample], candidate: Sequence[Sample]) -> float:
    return max(sample.tick for sample in (*base, *candidate))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _test(base: Sequence[Sample], candidate: Sequence[Sample]) -> _Test:
    before, after = (np.array([sample.value for sample in side]) for side in (base, candidate))
    p_value, effect = rank_sum(before, after)
    return _Test(bootstrap_difference(before, after), p_value, effect)


def _verdict(test: _Test | None, adjusted: float | None, larger_is_better: bool) -> str:
    if test is None or adjusted is None:
        return TOO_FEW
    low, high = test.interval
    upwards = low > 0 and test.effect > 0
    downwards = high < 0 and test.effect < 0
    if adjusted >= SIGNIFICANCE or not (upwards or downwards):
        return NOT_SHOWN
    return BETTER if upwards == larger_is_better else WORSE


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for their number, in their order (Holm 1979)."""
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = largest
    return adjusted


def rank_sum(base: Float64Array, candidate: Float64Array) -> tuple[float, float]:
    """Return (two-sided p-value, Cliff's delta) of non-empty ``candidate`` against ``base``."""
    n, m = len(base), len(candidate)
    together = np.concatenate((base, candidate))
    _, places, ties = np.unique(together, return_inverse=True, return_counts=True)
    # Twice the mean rank of equal values, so that it is a whole number.
    ranks = (2 * np.cumsum(ties) - ties + 1)[places]
    found = int(ranks[n:].sum())
    centre = m * (n + m + 1)
    effect = (found - centre) / (n * m)
    if n + m <= EXACT_RUNS:
        return _exact_p_value(ranks, m, abs(found - centre)), effect
    cubes = float((ties.astype(np.float64) ** 3 - ties).sum())
    variance = n * m / 12 * ((n + m + 1) - cubes / ((n + m) * (n + m - 1)))
    if variance <= 0:
        return 1.0, effect
    distance = max(abs(found - centre) / 2 - 0.5, 0.0)
    return math.erfc(distance / math.sqrt(2 * variance)), effect


def _exact_p_value(ranks: NDArray[np.int64], chosen: int, distance: int) -> float:
    """Return the share of choices of ``chosen`` ranks at least ``distance`` from the centre.

    Args:
        ranks: int64, twice the mid-ranks of all runs.
        chosen: how many of them one side has.
        distance: of the sum of that side's from the centre, chosen * (len(ranks) + 1).
    """
    # ways[k, s]: choices of k ranks, of those looked at, with the sum s. Shares of all
    # choices stay within floating-point range where counts would not.
    ways = np.zeros((chosen + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1
    for seen, rank in enumerate(ranks.tolist()):
        for k in range(min(seen + 1, chosen), 0, -1):
            ways[k, rank:] += ways[k - 1, : ways.shape[1] - rank]
    sums = np.arange(ways.shape[1])
    far = np.abs(sums - chosen * (len(ranks) + 1)) >= distance
    return float(ways[chosen][far].sum() / ways[chosen].sum())


def bootstrap_difference(base: Float64Array, candidate: Float64Array) -> tuple[float, float]:
    """Return the 95 % interval of mean(candidate) - mean(base), resampling whole runs.

    Args:
        base: float64[n], a value per run, at least two.
        candidate: float64[m], likewise.
    """
    generator = np.random.default_rng(_SEED)
    draws = [
        side[generator.integers(len(side), size=(_RESAMPLES, len(side)))].mean(axis=1)
        for side in (candidate, base)
    ]
    tail = _expanded_tail(min(len(base), len(candidate)))
    return _quantiles(draws[0] - draws[1], tail)


def _expanded_tail(runs: int) -> float:
    """Return the tail of the bootstrap distribution that leaves 95 % between, of few runs.

    A resample of n values has a spread too small by sqrt((n - 1) / n), and the normal
    tail is too thin for n values: Hesterberg's expanded percentiles mend both.
    """
    widening = math.sqrt(runs / (runs - 1)) * _student(runs - 1)
    return NormalDist().cdf(-widening)


def _student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t (Hill's expansion, within 0.5 % from 4 on).

    The expansion is that of Abramowitz and Stegun, 26.7.5.
    """
    x = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    terms = (
        x,
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def within_runs(base: Sequence[Sample], candidate: Sequence[Sample]) -> tuple[float, float] | None:
    """Return the 95 % interval of the difference of means over the seconds of these runs.

    The seconds of each run are resampled in blocks as long as its autocorrelation asks
    for. How other runs would differ is not in it. None where a run has under two seconds.
    """
    sides = [[sample.windows for sample in side] for side in (candidate, base)]
    if any(len(windows) < 2 for side in sides for windows in side) or not all(sides):
        return None
    generator = np.random.default_rng(_SEED)
    after, before = (
        np.mean([resampled_means(windows, _RESAMPLES, generator) for windows in side], axis=0)
        for side in sides
    )
    return _quantiles(after - before, (1 - CONFIDENCE) / 2)


def _quantiles(values: Float64Array, tail: float) -> tuple[float, float]:
    low, high = np.quantile(values, (tail, 1 - tail))
    return float(low), float(high)


def no_difference(bound: float) -> str:
    """Return the verdict that no change is above a bound, such as 0.012."""
    return f"{NO_DIFFERENCE} {100 * bound:.1f} %"


def proven_bound(base: float, interval: tuple[float, float], tick: float) -> float | None:
    """Return the share of the base that the change is proven not to exceed.

    None of a base of 0 and where it is above :data:`SMALL_CHANGE`. It is rounded up to a tenth
    of a percent. As the whole 95 % interval lies within it, each side is tested at 2.5 %
    (Schuirmann's two one-sided tests, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).

    Args:
        base: the mean of the base.
        interval: of the difference.
        tick: the step that the clock cuts figures to: a difference of one does not show.
    """
    if base == 0:
        return None
    largest = (max(map(abs, interval)) + tick) / abs(base)
    # Less than a millionth of a step is an error of rounding.
    bound = max(math.ceil(largest * _BOUND_STEPS - 1e-6), 1) / _BOUND_STEPS
    return bound if bound <= SMALL_CHANGE else None


def shown_from(base: float, interval: tuple[float, float]) -> float | None:
    """Return the change, as a share of the base, that leaves 0 out of an interval so wide."""
    return (interval[1] - interval[0]) / 2 / abs(base) if base else None


def runs_to_show(runs: int, difference: float, interval: tuple[float, float]) -> int | None:
    """Return how many runs of each set would show a difference of this size.

    The width of an interval falls with the root of the number of runs.

    Args:
        runs: how many there are of the smaller set.
        difference: candidate - base, as found; None is returned of 0.
        interval: of the difference.
    """
    if difference == 0:
        return None
    half = (interval[1] - interval[0]) / 2
    return max(math.ceil(runs * (half / difference) ** 2), runs + 1)


def in_words(comparison: Mapping[str, Any]) -> str:
    """Return the verdict on a comparison as a sentence, for the terminal and the page."""
    parts = []
    for verdict in (BETTER, WORSE):
        found = [
            name.replace("_", " ")
            + (f" ({figure['change']:+.1%})" if figure["change"] is not None else " (-)")
            for name, figure in comparison["figures"].items()
            if figure["verdict"] == verdict
        ]
        if found:
            parts.append(f"{verdict} in {', '.join(found)}")
    if parts:
        return f"The candidate is {' and '.join(parts)}."
    if comparison["verdict"] == NOT_SHOWN:
        return "No difference of the runs is shown. More runs show smaller ones."
    if comparison["verdict"].startswith(NO_DIFFERENCE):
        return "No figure of the candidate differs by more than that: the intervals prove it."
    return "With so few runs a difference of the sets is not told from one between runs."
