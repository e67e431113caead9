"""Sets of runs whose truth is known, to judge comparisons by: levels, scatter and order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.compare.comparison import (
    BETTER,
    LOOKS,
    WORSE,
    Comparison,
    Rules,
    Sample,
    compare,
)
from quiver_fast.analysis.compare.sets import compare_figures, in_turns
from quiver_fast.analysis.figures.run_data import RunFigures
from quiver_fast.analysis.model.figures import SET_FIGURES
from quiver_fast.cli.pair.run_set import turns
from support.simulated_seconds import autoregression

Float64Array = NDArray[np.float64]
Shape = Callable[[np.random.Generator, int], Float64Array]

SCATTER = 0.02
"""Of a run's figure, as a share of it."""
# Judged together, as the four figures of two sets of runs are.
LARGER = dict.fromkeys(SET_FIGURES, True)
# Even the smallest difference is one.
PLAIN = Rules(relevant=0)


def _slow(random: np.random.Generator, runs: int) -> Float64Array:
    return np.where(random.random(runs) < 0.05, 0.1, 1 + SCATTER * random.normal(size=runs))


SHAPES: dict[str, Shape] = {
    "normal": lambda random, runs: 1 + SCATTER * random.normal(size=runs),
    "skewed": lambda random, runs: np.exp(0.5 * random.normal(size=runs)),
    "heavy-tailed": lambda random, runs: 1 + SCATTER * random.standard_t(2, size=runs),
    "one in twenty ten times slower": _slow,
    "whole ticks": lambda random, runs: random.poisson(5, runs) + 1.0,
}
"""Values of runs that do not depend on each other; those of equal sets have the same shape."""


def samples(values: Float64Array) -> list[Sample]:
    return [Sample(value) for value in values.tolist()]


def pair_of_sets(
    random: np.random.Generator, shape: Shape, runs: int, gain: float = 0.0
) -> dict[str, Comparison]:
    """Compare two simulated sets; all figures of the candidate are larger by ``gain``."""
    sides = [{name: samples(shape(random, runs) + more) for name in LARGER} for more in (0, gain)]
    return compare(*sides, LARGER, rules=PLAIN)


def differs(found: dict[str, Comparison]) -> bool:
    return any(figure.verdict in (BETTER, WORSE) for figure in found.values())


def false_alarms(shape: Shape, *, sets: int, runs: int) -> float:
    """Return the share of pairs of equal sets with a figure that seems to differ."""
    random = np.random.default_rng(runs)
    return sum(differs(pair_of_sets(random, shape, runs)) for _ in range(sets)) / sets


def run_of(name: str, begin: int, values: dict[str, float], messages: int = 10**6) -> RunFigures:
    return RunFigures(name, begin, begin + 900, messages, values, values)


def drifting_alarms(
    memory: float, drift: float, *, sets: int, runs: int, one_after_the_other: bool = False
) -> tuple[float, float]:
    """Return the shares of equal sets that are called different, and that are not compared.

    Neighbouring runs resemble each other, or each is a little faster than the one before.
    """
    random = np.random.default_rng([runs, int(100 * memory)])
    order = [side for side, _ in turns(runs, "AB")]
    order = sorted(order) if one_after_the_other else order
    alarms = refused = 0
    for _ in range(sets):
        series = autoregression(random, len(SET_FIGURES), 2 * runs, memory)
        series = 1 + SCATTER * (series + drift * np.arange(2 * runs))
        made = [
            run_of(str(n), 1000 * n, dict(zip(SET_FIGURES, series[:, n].tolist(), strict=True)))
            for n in range(2 * runs)
        ]
        sides = [[run for run, at in zip(made, order, strict=True) if at == side] for side in "AB"]
        refused += not in_turns(*sides)
        verdicts = [one["verdict"] for one in compare_figures(*sides, PLAIN)["figures"].values()]
        alarms += BETTER in verdicts or WORSE in verdicts
    return alarms / sets, refused / sets


def maxima_alarms(times: int, *, sets: int, runs: int) -> float:
    """Return the share of equal sets whose maximum differs: one side's runs are longer."""
    random = np.random.default_rng(times)
    alarms = 0
    for _ in range(sets):
        sides = []
        for messages in (10_000, 10_000 * times):
            latencies = random.lognormal(0, 1, (runs, messages))
            sides.append([
                run_of(str(n), 0, {
                    "message_rate": 1000.0 + random.normal(),
                    "latency_p50": float(np.median(each)),
                    "latency_p99": float(np.quantile(each, 0.99)),
                    "latency_max": float(each.max()),
                }, messages)
                for n, each in enumerate(latencies)
            ])  # fmt: skip
        figures = compare_figures(*sides, PLAIN)["figures"].values()
        alarms += any(figure["verdict"] in (BETTER, WORSE) for figure in figures)
    return alarms / sets


def detected(
    random: np.random.Generator, shape: Shape, gain: float, change: float = 0.05
) -> tuple[str, int]:
    """Return the verdict of ``--detect`` on a rate, p50 and p99, and after how many runs.

    As the command does: it looks at each of :data:`LOOKS`, and a last time when its own is over.
    """
    names = [name for name in SET_FIGURES if name != "latency_max"]
    most = LOOKS[-1]
    values = {name: (shape(random, most), shape(random, most) + gain) for name in names}
    end = int(random.integers(6, most + 1))
    larger = dict.fromkeys(names, True)
    for runs in sorted({*(look for look in LOOKS if look <= end), end}):
        sides = [
            {name: samples(both[side][:runs]) for name, both in values.items()} for side in (0, 1)
        ]
        found = compare(*sides, larger, rules=Rules(0, change))
        verdicts = [figure.verdict for figure in found.values()]
        if WORSE in verdicts or "not shown" not in verdicts or runs == end:
            break
    if BETTER in verdicts or WORSE in verdicts:
        return "differs", runs
    return "inconclusive" if "not shown" in verdicts else "no difference", runs
