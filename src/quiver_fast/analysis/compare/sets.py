"""Sets of runs: one against another, and a series of them in order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from quiver_fast.analysis.compare.changepoints import change_points, dependence, detectable_step
from quiver_fast.analysis.compare.comparison import (
    NOT_COMPARABLE,
    NOT_COMPARED,
    Rules,
    Sample,
    compare,
    overall_verdict,
)
from quiver_fast.analysis.figures.run_data import AnalysedRun, RunData, RunFigures
from quiver_fast.analysis.figures.statistics import arrivals, ending, sending_end, steadiness
from quiver_fast.analysis.figures.steady import NOT_STEADY, Steady, measured_seconds
from quiver_fast.analysis.model.distribution import Float64Array
from quiver_fast.analysis.model.figures import LATENCY, SET_FIGURES
from quiver_fast.analysis.model.ranks import PER_SECOND
from quiver_fast.analysis.model.units import per_millisecond
from quiver_fast.analysis.tables.latencies import Histogram

MINIMUM_RUNS = 12
"""Runs from which a step of 4 standard deviations in their midst is found in 80 of 100 series."""
_DEPENDENT = 0.05
# A maximum of so much more messages is larger with 1.1 : 1, which twenty runs do not show.
_MOST_MESSAGES = 1.1
# A percentile with so many messages beyond it in each run depends little on their number.
_BEYOND = 100
_LENGTHS = f"{NOT_COMPARED}: runs of different lengths"
_EXTREME = f"{NOT_COMPARED}: --detect leaves it out"


def run_figures(run: RunData) -> RunFigures:
    """Return the figures of a run."""
    if isinstance(run, AnalysedRun):
        return run.figures
    received = run.histogram is not None and run.histogram.total > 0
    values = _values(run) if received else {}
    found = steadiness(run)
    counts, part = _steady_seconds(run, found.part)
    steady = _steady_values(counts, part) if received and found.part else {}
    results = _results(run) if received else {}
    latencies = part if steady else run.histogram
    return RunFigures(
        run.name,
        results.get("first_receive_time"),
        results.get("last_receive_time"),
        0 if latencies is None else latencies.total,
        values,
        values | steady,
        ending(run)[0],
        found.verdict,
        1 / per_millisecond(run.receiver["latency"]["unit"]) if received and run.receiver else 0.0,
    )


def _incomplete(runs: Sequence[RunFigures]) -> list[str]:
    return [run.name for run in runs if run.complete is False]


def compare_figures(
    base: Sequence[RunFigures], candidate: Sequence[RunFigures], rules: Rules | None = None
) -> dict[str, Any]:
    """Compare two sets of runs. The run is the unit: each gives one value per figure.

    That value is of the run's steady state, or of the whole run where there is none or the
    run is too short to tell. Runs that received nothing have no figures and are left out.

    Returns:
        ``base`` and ``candidate`` (names of the runs), ``verdict`` (``better`` or ``worse``
        when every figure that differs says so, ``mixed`` when they disagree, else that of
        :func:`.comparison.overall_verdict`),
        ``incomplete`` (names of the runs that did not do all that was asked),
        ``not_steady`` (names of those that are not), and ``figures``: each of
        :data:`.figures.SET_FIGURES` to its :class:`.comparison.Comparison` with ``unit``, and
        ``raw_base`` and ``raw_candidate``: the medians over the runs of the figure of each whole
        run. Latencies are in milliseconds.
    """
    rules = rules or Rules()
    larger = {name: figure.is_load for name, figure in SET_FIGURES.items()}
    left_out = _left_out(base, candidate, rules)
    found = compare(_samples(base), _samples(candidate), larger, left_out, rules)
    figures = {
        name: {
            "unit": figure.unit,
            **asdict(found[name]),
            "raw_base": _raw(base, name),
            "raw_candidate": _raw(candidate, name),
        }
        for name, figure in SET_FIGURES.items()
    }
    return {
        "base": [run.name for run in base],
        "candidate": [run.name for run in candidate],
        "incomplete": _incomplete([*base, *candidate]),
        "not_steady": [run.name for run in (*base, *candidate) if run.verdict == NOT_STEADY],
        "verdict": overall_verdict(
            [figure["verdict"] for figure in figures.values()],
            [figure["no_difference_above"] for figure in figures.values()],
        ),
        "figures": figures,
    }


def _raw(runs: Sequence[RunFigures], name: str) -> float | None:
    values = [run.values[name] for run in runs if name in run.values]
    return float(np.median(values)) if values else None


def _left_out(
    base: Sequence[RunFigures], candidate: Sequence[RunFigures], rules: Rules
) -> dict[str, str]:
    """Return the figures that such runs cannot be judged by, with their verdicts."""
    base, candidate = ([run for run in side if run.values] for side in (base, candidate))
    if not base or not candidate:
        return {}
    if not rules.trust_order and not in_turns(base, candidate):
        return dict.fromkeys(SET_FIGURES, NOT_COMPARABLE)
    fewer, more = sorted(
        float(np.median([run.messages for run in side])) for side in (base, candidate)
    )
    found = {
        name: _LENGTHS
        for name, rank in PER_SECOND.items()
        if more > _MOST_MESSAGES * fewer and fewer * (100 - rank) / 100 < _BEYOND
    }
    return found if rules.detect is None else found | {"latency_max": _EXTREME}


def in_turns(base: Sequence[RunFigures], candidate: Sequence[RunFigures]) -> bool:
    """Say whether a change of the machine over time affects both sides alike.

    So it does where the sides overlap, or take turns: at least half as often as ABBA, and
    neither side mostly before the other. Runs without times are taken for such.
    """
    times = [
        [
            (run.first_receive_time, run.last_receive_time, side)
            for run in runs
            if run.first_receive_time is not None and run.last_receive_time is not None
        ]
        for side, runs in enumerate((base, candidate))
    ]
    pairs = len(times[0]) * len(times[1])
    before = sum(a[1] < b[0] for a in times[0] for b in times[1])
    after = sum(b[1] < a[0] for a in times[0] for b in times[1])
    if 2 * (before + after) <= pairs:
        return True
    order = [side for _, _, side in sorted(times[0] + times[1])]
    switches = sum(one != other for one, other in pairwise(order))
    return 2 * switches >= min(map(len, times)) and 2 * abs(before - after) <= pairs


def _samples(runs: Sequence[RunFigures]) -> dict[str, list[Sample]]:
    """Return each figure of the runs that have it."""
    return {
        name: [
            Sample(run.steady[name], run.tick if figure.quantity is LATENCY else 0.0)
            for run in runs
            if name in run.steady
        ]
        for name, figure in SET_FIGURES.items()
    }


def _steady_seconds(run: RunData, steady: Steady | None) -> tuple[Float64Array, Histogram | None]:
    """Return messages per second of the steady state, and its latencies where there are any."""
    counts = measured_seconds(arrivals(run), sending_end(run))
    chosen = np.ones(len(counts.seconds), np.bool_)
    if steady is not None:
        chosen = (counts.seconds >= steady.first) & (counts.seconds <= steady.last)
    seconds = counts.seconds[chosen]
    part = None
    if run.histogram is not None and len(seconds):
        part = run.histogram.within(int(seconds[0]), int(seconds[-1]))
    return counts.counts[chosen].astype(np.float64), part


def _steady_values(counts: Float64Array, part: Histogram | None) -> dict[str, float]:
    """Return the figures of the steady state; none where it has no message."""
    if part is None or part.total == 0:
        return {}
    percentiles = part.distribution().percentiles(PER_SECOND.values())
    ticks = per_millisecond(part.unit)
    latencies = {name: value / ticks for name, value in zip(PER_SECOND, percentiles, strict=True)}
    return {"message_rate": float(counts.mean())} | latencies


def changes_of(runs: Sequence[RunFigures]) -> dict[str, Any] | None:
    """Look for change points over a series of runs; None for under twelve that have a rate.

    Returns:
        ``runs`` (names in order of their first receive time) and ``figures``: each of
        :data:`.figures.SET_FIGURES` to ``unit``, ``values`` (one per run), ``autocorrelation`` of
        neighbouring runs, ``dependent`` (whether it is more than chance; then no change
        point is told from a drift), ``detectable_step`` (the step in the midst of the series
        that is found in four of five such, as a share of the median; None where runs are
        dependent and of a median of 0) and ``change_points``: a list of ``run`` (the first
        at the new level), ``before`` and ``after`` (medians of the levels).
        ``incomplete`` has the names of runs that did not do all that was asked.
    """
    received = [run for run in runs if run.values.keys() == SET_FIGURES.keys()]
    if len(received) < MINIMUM_RUNS:
        return None
    received.sort(key=lambda run: run.first_receive_time or 0)
    names = [run.name for run in received]
    return {
        "runs": names,
        "incomplete": _incomplete(received),
        "figures": {
            name: _figure_changes(
                figure.unit, names, np.array([run.values[name] for run in received])
            )
            for name, figure in SET_FIGURES.items()
        },
    }


def _figure_changes(unit: str, runs: Sequence[str], values: Float64Array) -> dict[str, Any]:
    found = change_points(values)
    autocorrelation, p_value = dependence(values, found)
    dependent = p_value < _DEPENDENT
    starts = [] if dependent else found
    bounds = [0, *starts, len(values)]
    levels = [float(np.median(values[a:b])) for a, b in pairwise(bounds)]
    return {
        "unit": unit,
        "values": values.tolist(),
        "autocorrelation": autocorrelation,
        "dependent": dependent,
        "detectable_step": None if dependent else _detectable(values, starts),
        "change_points": [
            {"run": runs[start], "before": levels[n], "after": levels[n + 1]}
            for n, start in enumerate(starts)
        ],
    }


def _detectable(values: Float64Array, starts: Sequence[int]) -> float | None:
    level = abs(float(np.median(values)))
    return detectable_step(values, starts) / level if level else None


def _results(run: RunData) -> dict[str, Any]:
    if run.receiver is None:
        raise ValueError("only runs that received are compared as a series")
    results: dict[str, Any] = run.receiver["results"]
    return results


def _values(run: RunData) -> dict[str, float]:
    latency = (run.receiver or {})["latency"]
    percentiles, ticks = latency["percentiles"], per_millisecond(latency["unit"])
    values = {name: float(percentiles[f"{rank:g}"]) / ticks for name, rank in PER_SECOND.items()}
    rate = _results(run)["message_rate"]
    return values if rate is None else {"message_rate": float(rate)} | values
