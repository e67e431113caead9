"""Whether one set of runs is better than another. The run is the unit of comparison.

The seconds of one run share its machine, its connections and its luck. They say how
exact the figure of that run is, and nothing of the next run. Each run therefore
counts once, with one value for each figure, and the typical runs are compared: a set is
shown by its median, and two sets by the median of the differences of all pairs of a candidate's
run and a base's (Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963).

One procedure gives p-value, interval, power and verdict: how many of these differences are
above 0, and how many below (Mann and Whitney, Annals of Mathematical Statistics 18, 1947). Of
equal sets that number has a known distribution, whatever that of the runs (:func:`_tails`). The
interval goes from the k-th smallest difference to the k-th largest one, with the k of the level
(Moses, in Walker and Lev, Statistical Inference, 1953). So p is below the level if and only if
the interval leaves out 0. A difference of exactly 0 counts for both directions: ties make a
verdict harder, never easier.

Several figures are judged together: each at the level divided by their number (Bonferroni), so
that all intervals hold at once in 95 of 100 comparisons.

Under five runs on a side there is no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from quiver_fast.analysis.model.distribution import Float64Array

BETTER, WORSE = "better", "worse"
NOT_SHOWN = "not shown"
NO_DIFFERENCE = "no difference above"
BELOW = "difference below"
MAYBE_RELEVANT = "difference, not shown to be relevant"
NOT_COMPARED = "not compared"
NOT_COMPARABLE = "not comparable: made one after the other"

MINIMUM_RUNS = 5
TOO_FEW = f"too few runs: at least {MINIMUM_RUNS} of each"
OPEN = (NOT_SHOWN, MAYBE_RELEVANT, NOT_COMPARABLE)
"""Verdicts that other runs may decide."""
EXACT_RUNS = 100
"""Runs of both sides together up to which the test is exact."""
LOOKS = (6, 8, 11, 15, 21, 29, 41, 57, 80)
"""The runs of each side at which ``--detect`` looks whether the verdict is decided."""
LEAST_VALUES = 6
"""Values from which their smallest and largest enclose the median in 95 of 100 cases."""
_SIGNIFICANCE = 0.05
# Of each look, so that any of the looks, or one more at the end, is wrong in 5 of 100: equal
# levels as Pocock has them (Biometrika 64, 1977), by simulation (docs/analysis.md).
_LOOK_SIGNIFICANCE = 0.009
_POWER = 0.9
_BOUND_STEPS = 1000
_SLOW = 2

_SENTENCES = {
    NOT_SHOWN: "No difference of the typical runs is shown. More runs show smaller ones.",
    MAYBE_RELEVANT: "The typical runs differ. More runs show whether by as much as is relevant.",
    TOO_FEW: "With so few runs a difference of the sets is not told from one between runs.",
    NOT_COMPARABLE: "What changed meanwhile looks like a difference of the sets. Measure both in "
    "turns (quiver --runs 10 --baseline BASE), or give --trust-order if nothing changed.",
}


@dataclass(frozen=True)
class Rules:
    """What a comparison goes by.

    Attributes:
        relevant: the smallest change that is better or worse, a share of the base.
        detect: with ``--detect``, the change that the runs are to show or to rule out.
        trust_order: compare runs of which one side was made after the other, too.
    """

    relevant: float = 0.01
    detect: float | None = None
    trust_order: bool = False

    @property
    def significance(self) -> float:
        """The share of equal sets in which a figure may differ."""
        return _SIGNIFICANCE if self.detect is None else _LOOK_SIGNIFICANCE

    @property
    def largest_bound(self) -> float:
        """The change above which its absence is not worth a verdict: the runs scatter too much."""
        return 0.05 if self.detect is None else self.detect


@dataclass(frozen=True)
class Sample:
    """One figure of one run.

    Attributes:
        value: the figure of the run as a whole.
        tick: the step that the clock cuts the figure to; 0 for none.
    """

    value: float
    tick: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """One figure of a set of candidate runs against that of a set of base runs.

    Attributes:
        base, candidate: medians over the runs; None without runs.
        base_runs, candidate_runs: the value of each run.
        base_slow, candidate_slow: runs that are twice as bad as the median of their side.
        change: difference / base; None when the base is 0, and with too few runs.
        difference: the median of the differences candidate - base of all pairs of runs.
        interval: of the difference, 95 % for all figures at once; None without a test.
        p_value: of the rank-sum test, two-sided; None without a test.
        adjusted_p_value: for the number of figures and looks: below 5 % when 0 is not in the
            interval.
        effect: Cliff's delta, -1 to 1; above 0 when the candidate's runs are larger.
        no_difference_above: the share of the base that the change is proven not to exceed;
            None where there is a relevant difference or no proof.
        shown_from: the change, as a share of the base, that so many runs show in 90 of 100
            sets; None but of a verdict ``not shown``.
        runs_to_show: how many runs of each set show the change, likewise; None of one that is
            not relevant.
        verdict: ``better``, ``worse``, ``difference below X %`` (proven not to be relevant),
            ``difference, not shown to be relevant``,
            ``no difference above X %``, ``not shown``, ``not compared: ...``,
            ``not comparable: ...`` or ``too few runs: ...``.
    """

    base: float | None
    candidate: float | None
    base_runs: tuple[float, ...]
    candidate_runs: tuple[float, ...]
    base_slow: int
    candidate_slow: int
    change: float | None
    difference: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    adjusted_p_value: float | None
    effect: float | None
    no_difference_above: float | None
    shown_from: float | None
    runs_to_show: int | None
    verdict: str


@dataclass(frozen=True)
class RankTest:
    """The test of one figure: interval, p-value and effect are those of :class:`Comparison`."""

    interval: tuple[float, float]
    p_value: float
    effect: float


def compare(
    base: Mapping[str, Sequence[Sample]],
    candidate: Mapping[str, Sequence[Sample]],
    larger_is_better: Mapping[str, bool],
    left_out: Mapping[str, str] | None = None,
    rules: Rules | None = None,
) -> dict[str, Comparison]:
    """Compare two sets of runs, figure by figure.

    Args:
        base: for each figure one sample per run.
        candidate: the same figures.
        larger_is_better: for each figure; true of rates, false of latencies.
        left_out: figures that are not judged, with their verdicts.
        rules: what the comparison goes by.
    """
    rules, left_out = rules or Rules(), left_out or {}
    verdicts = {name: left_out.get(name) for name in larger_is_better}
    for name, verdict in verdicts.items():
        # No number of runs makes a figure comparable that is not compared.
        if _are_few(base[name], candidate[name]) and not (verdict or "").startswith(NOT_COMPARED):
            verdicts[name] = TOO_FEW
    judged = sum(verdict is None for verdict in verdicts.values())
    level = rules.significance / max(judged, 1)
    return {
        name: _compared(base[name], candidate[name], larger, verdicts[name], level, rules)
        for name, larger in larger_is_better.items()
    }


def _are_few(base: Sized, candidate: Sized) -> bool:
    return min(len(base), len(candidate)) < MINIMUM_RUNS


def _compared(
    base: Sequence[Sample],
    candidate: Sequence[Sample],
    larger_is_better: bool,
    verdict: str | None,
    level: float,
    rules: Rules,
) -> Comparison:
    """Compare one figure; a verdict is given where there is nothing to test."""
    before, after = (np.array([sample.value for sample in side]) for side in (base, candidate))
    typical, now, difference = map(_median, (before, after, np.subtract.outer(after, before)))
    test = rank_test(before, after, level) if verdict is None else None
    change = difference / typical if difference is not None and typical else None
    if _are_few(before, after):
        change = None
    bound = reach = needed = None
    if test is not None:
        verdict = _verdict(test, typical, change, larger_is_better, rules.relevant)
        tick = max(sample.tick for sample in (*base, *candidate))
        if typical and verdict not in (BETTER, WORSE):
            bound = proven_bound(typical, test.interval, tick, rules.largest_bound)
        if verdict == NOT_SHOWN and bound is not None:
            verdict = no_difference(bound)
        if verdict == NOT_SHOWN and typical:
            runs = min(len(base), len(candidate))
            reach = detectable(runs, test.interval, level) / abs(typical)
            is_relevant = change is not None and abs(change) >= rules.relevant
            needed = runs_to_show(runs, reach, change) if is_relevant else None
    return Comparison(
        base=typical,
        candidate=now,
        base_runs=tuple(before.tolist()),
        candidate_runs=tuple(after.tolist()),
        base_slow=_slow(before, larger_is_better),
        candidate_slow=_slow(after, larger_is_better),
        change=change,
        difference=difference,
        interval=None if test is None else test.interval,
        p_value=None if test is None else test.p_value,
        adjusted_p_value=None if test is None else min(1.0, test.p_value * _SIGNIFICANCE / level),
        effect=None if test is None else test.effect,
        no_difference_above=bound,
        shown_from=reach,
        runs_to_show=needed,
        verdict=verdict or NOT_SHOWN,
    )


def _median(values: Float64Array) -> float | None:
    return float(np.median(values)) if values.size else None


def _slow(values: Float64Array, larger_is_better: bool) -> int:
    """Return how many values are twice as bad as their median."""
    if not values.size:
        return 0
    typical = np.median(values)
    bad = values * _SLOW < typical if larger_is_better else values > typical * _SLOW
    return int(bad.sum())


def _verdict(
    test: RankTest,
    typical: float | None,
    change: float | None,
    larger_is_better: bool,
    relevant: float,
) -> str:
    low, high = test.interval
    if low <= 0 <= high:
        return NOT_SHOWN
    if typical and change is not None and abs(change) < relevant:
        is_below = max(map(abs, test.interval)) < relevant * abs(typical)
        return f"{BELOW} {100 * relevant:g} %" if is_below else MAYBE_RELEVANT
    return BETTER if (low > 0) == larger_is_better else WORSE


def rank_test(base: Float64Array, candidate: Float64Array, level: float) -> RankTest | None:
    """Test whether ``candidate`` differs from ``base``; None if so few runs never would.

    Args:
        base: float64[n], a value per run.
        candidate: float64[m], likewise.
        level: two-sided, of the interval.
    """
    pairs = np.sort(np.subtract.outer(candidate, base), axis=None)
    above, below = int((pairs > 0).sum()), int((pairs < 0).sum())
    tails = _tails(len(base), len(candidate))
    # So many pairs may be on the other side of 0, or at it.
    most = int(np.searchsorted(tails, level, "right")) - 1
    if most < 0:
        return None
    return RankTest(
        (float(pairs[most]), float(pairs[-1 - most])),
        min(1.0, float(tails[len(pairs) - max(above, below)])),
        (above - below) / len(pairs),
    )


@lru_cache(maxsize=64)
def _tails(n: int, m: int) -> Float64Array:
    """Return how probable at most u of n * m pairs on one side are, twice, for each u.

    Counted up to :data:`EXACT_RUNS` runs: the ways of n and m runs are those whose largest run
    is of the second set, with n pairs each, and those whose largest is of the first one. The
    normal approximation, corrected for continuity, beyond.
    """
    if n + m > EXACT_RUNS:
        places = (np.arange(n * m + 1) + 0.5 - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
        return np.array([2 * NormalDist().cdf(place) for place in places])
    ways = [np.ones(1)] * (m + 1)
    for first in range(1, n + 1):
        found = [np.ones(1)]
        for second in range(1, m + 1):
            both = np.zeros(first * second + 1)
            both[second:] += ways[second]
            both[: len(found[-1])] += found[-1]
            found.append(both)
        ways = found
    shares: Float64Array = 2 * np.cumsum(ways[m]) / ways[m].sum()
    return shares


def no_difference(bound: float) -> str:
    """Return the verdict that no change is above a bound, such as 0.012."""
    return f"{NO_DIFFERENCE} {100 * bound:.1f} %"


def proven_bound(
    base: float, interval: tuple[float, float], tick: float, largest: float
) -> float | None:
    """Return the share of the base that the change is proven not to exceed.

    None where it is above ``largest``. It is rounded up to a tenth of a percent. As the whole
    interval lies within it, each side is tested at half of the level (Schuirmann's two one-sided
    tests, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).

    Args:
        base: the median of the base, not 0.
        interval: of the difference.
        tick: the step that the clock cuts figures to: a difference of one does not show.
        largest: bound.
    """
    share = (max(map(abs, interval)) + tick) / abs(base)
    # Less than a millionth of a step is an error of rounding.
    bound = max(math.ceil(share * _BOUND_STEPS - 1e-6), 1) / _BOUND_STEPS
    return bound if bound <= largest else None


def detectable(runs: int, interval: tuple[float, float], level: float) -> float:
    """Return the difference that so many runs show in at least 90 of 100 sets.

    Half of an interval is the error times the quantile of the level; a difference must be
    larger by the error times the quantile of the power. The error of few runs is not well
    known: by simulation (docs/analysis.md) it takes 3 / runs more.
    """
    normal = NormalDist()
    edge = normal.inv_cdf(1 - level / 2)
    return (interval[1] - interval[0]) / 2 * (1 + normal.inv_cdf(_POWER) / edge) * (1 + 3 / runs)


def runs_to_show(runs: int, shown_from: float, change: float | None) -> int | None:
    """Return how many runs of each set show a change; None of no change.

    The width of an interval falls with the root of the number of runs.

    Args:
        runs: how many there are of the smaller set.
        shown_from: the change that these show.
        change: the change to show.
    """
    return max(math.ceil(runs * (shown_from / change) ** 2), runs + 1) if change else None


def overall_verdict(verdicts: Sequence[str], bounds: Sequence[float | None]) -> str:
    """Return the verdict that follows from the verdicts of the figures.

    Args:
        verdicts: of each figure.
        bounds: of each, the change that is proven not to be exceeded; None where none is.
    """
    clear = {verdict for verdict in verdicts if verdict in (BETTER, WORSE)}
    if clear:
        return "mixed" if len(clear) == 2 else clear.pop()
    compared = [one for one in verdicts if not one.startswith(NOT_COMPARED)]
    for verdict, bound in zip(verdicts, bounds, strict=True):
        if verdict in (NOT_COMPARABLE, NOT_SHOWN):
            return verdict
        if verdict == MAYBE_RELEVANT and bound is None:
            return verdict
    if not compared or TOO_FEW in compared:
        return TOO_FEW if TOO_FEW in verdicts else verdicts[0]
    proven = [bound for bound in bounds if bound is not None]
    if len(proven) == len(compared):
        return no_difference(max(proven))
    return next(one for one in compared if one.startswith(BELOW))


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the median; None for under six values.

    The bounds are values themselves: the k-th smallest and the k-th largest. Whatever the
    distribution, they miss the median with the probability that a fair coin falls on one
    side fewer than k times in n throws, twice (David and Nagaraja, Order Statistics, 2003,
    section 7.1). The largest k is taken that keeps 95 %.
    """
    ordered = sorted(values)
    n = len(ordered)
    outside, k = 0.0, 0
    while k < n // 2:
        outside += 2 * math.comb(n, k) / 2**n
        if outside > _SIGNIFICANCE:
            break
        k += 1
    return (ordered[k - 1], ordered[n - k]) if k else None


def undecided(comparison: Mapping[str, Any]) -> list[str]:
    """Return the figures of which runs show neither a difference nor that there is none."""
    return [
        name
        for name, figure in comparison["figures"].items()
        if figure["verdict"] in (NOT_SHOWN, TOO_FEW)
        or (figure["verdict"] == MAYBE_RELEVANT and figure["no_difference_above"] is None)
    ]


def named(name: str, figure: Mapping[str, Any], without: str = "") -> str:
    """Return the name of a compared figure with its change, or ``without`` a change."""
    change = without if figure["change"] is None else f" ({figure['change']:+.1%})"
    return name.replace("_", " ") + change


def in_words(comparison: Mapping[str, Any]) -> str:
    """Return the verdict on a comparison as a sentence, for the terminal and the page."""
    slow = None if comparison["verdict"] == TOO_FEW else _slow_words(comparison["figures"])
    return " ".join(filter(None, (_verdict_words(comparison), slow)))


def _verdict_words(comparison: Mapping[str, Any]) -> str:
    parts = []
    for verdict in (BETTER, WORSE):
        found = [
            named(name, figure, " (-)")
            for name, figure in comparison["figures"].items()
            if figure["verdict"] == verdict
        ]
        if found:
            parts.append(f"{verdict} in {', '.join(found)}")
    if parts:
        return f"The candidate is {' and '.join(parts)}."
    return _SENTENCES.get(comparison["verdict"]) or (
        "The candidate's typical run differs by no more than that in any figure: the intervals "
        "prove it."
        if comparison["verdict"].startswith(NO_DIFFERENCE)
        else "The candidate's typical run differs, by less than is relevant."
    )


def _slow_words(figures: Mapping[str, Any]) -> str | None:
    """Return how many runs are slow; None if no run is.

    A maximum scatters by as much between equal runs.
    """
    found = [
        f"{name.replace('_', ' ')} {each['base_slow']} of {len(each['base_runs'])} and "
        f"{each['candidate_slow']} of {len(each['candidate_runs'])}"
        for name, each in figures.items()
        if (each["base_slow"] or each["candidate_slow"]) and name != "latency_max"
    ]
    words = "Runs that are twice as bad as the typical one, of base and candidate"
    return f"{words}: {', '.join(found)}." if found else None
