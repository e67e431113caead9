"""Sets of runs: one against another, and a series of them in order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.changepoints import MINIMUM_SEGMENT, change_points
from quiver_fast.analysis.comparison import BETTER, WORSE, compare
from quiver_fast.analysis.sources import RunData
from quiver_fast.analysis.statistics import arrivals, steady_part
from quiver_fast.analysis.units import per_millisecond
from quiver_fast.analysis.windows import latency_windows, within

__all__ = ["FIGURES", "changes", "compare_sets", "overall_verdict"]

Float64Array = NDArray[np.float64]

FIGURES = {
    "message_rate": ("messages/s", True),
    "latency_p50": ("ms", False),
    "latency_p99": ("ms", False),
    "latency_max": ("ms", False),
}
"""What is compared, with its unit and whether larger is better."""

_RANKS = {"latency_p50": 50.0, "latency_p99": 99.0, "latency_max": 100.0}
MINIMUM_RUNS = 2 * MINIMUM_SEGMENT


def compare_sets(base: Sequence[RunData], candidate: Sequence[RunData]) -> dict[str, Any]:
    """Compare two sets of runs by their windows of one second.

    The windows are those of each run's steady state, or, in runs too short to tell
    that, all whole seconds; the runs' windows are put one after the other.

    Returns:
        ``base`` and ``candidate`` (names of the runs), ``verdict`` (``better`` or ``worse``
        when every figure that differs says so, ``mixed`` when they disagree, else
        ``no difference`` or ``too few windows``), and ``figures``: each of
        :data:`FIGURES` to its :class:`quiver_fast.analysis.comparison.Comparison` with
        ``unit``. Latencies are in milliseconds.
    """
    before, after = _windows(base), _windows(candidate)
    figures = {
        name: {"unit": unit, **asdict(compare(before[name], after[name], larger_is_better=larger))}
        for name, (unit, larger) in FIGURES.items()
    }
    return {
        "base": [run.name for run in base],
        "candidate": [run.name for run in candidate],
        "verdict": overall_verdict([figure["verdict"] for figure in figures.values()]),
        "figures": figures,
    }


def overall_verdict(verdicts: Sequence[str]) -> str:
    """Return what the verdicts of the figures say together."""
    clear = {verdict for verdict in verdicts if verdict in (BETTER, WORSE)}
    if len(clear) == 2:
        return "mixed"
    # Without a clear one: the rate's, which is first and always there.
    return clear.pop() if clear else verdicts[0]


def _windows(runs: Sequence[RunData]) -> dict[str, Float64Array]:
    """Return the values of each figure in the windows of all runs."""
    parts = [_run_windows(run) for run in runs]
    empty = np.empty(0, np.float64)
    return {name: np.concatenate([empty, *(part[name] for part in parts)]) for name in FIGURES}


def _run_windows(run: RunData) -> dict[str, Float64Array]:
    counts = arrivals(run).whole()
    steady = steady_part(run)
    chosen = np.ones(len(counts.seconds), np.bool_)
    if steady is not None:
        chosen = (counts.seconds >= steady.first) & (counts.seconds <= steady.last)
    seconds = counts.seconds[chosen]
    windows = {"message_rate": counts.counts[chosen].astype(np.float64)}
    table = np.empty((0, len(_RANKS)))
    if run.histogram is not None and len(seconds):
        part = within(run.histogram, int(seconds[0]), int(seconds[-1]))
        _, table = latency_windows(part, _RANKS.values())
    return windows | {name: table[:, column] for column, name in enumerate(_RANKS)}


def changes(runs: Sequence[RunData]) -> dict[str, Any] | None:
    """Look for change points over a series of runs; None for under six runs that received.

    Returns:
        ``runs`` (names in order of their first receive time) and ``figures``: each of
        :data:`FIGURES` to ``unit``, ``values`` (one per run) and ``change_points``: a list of
        ``run`` (the first at the new level), ``before`` and ``after`` (medians of the
        levels).
    """
    received = [run for run in runs if run.histogram is not None and run.histogram.total]
    if len(received) < MINIMUM_RUNS:
        return None
    received.sort(key=lambda run: _results(run)["first_receive_time"])
    return {
        "runs": [run.name for run in received],
        "figures": {
            name: _figure_changes(unit, received, np.array([_value(r, name) for r in received]))
            for name, (unit, _) in FIGURES.items()
        },
    }


def _figure_changes(unit: str, runs: Sequence[RunData], values: Float64Array) -> dict[str, Any]:
    starts = change_points(values)
    bounds = [0, *starts, len(values)]
    levels = [float(np.median(values[a:b])) for a, b in pairwise(bounds)]
    return {
        "unit": unit,
        "values": values.tolist(),
        "change_points": [
            {"run": runs[start].name, "before": levels[n], "after": levels[n + 1]}
            for n, start in enumerate(starts)
        ],
    }


def _results(run: RunData) -> dict[str, Any]:
    if run.receiver is None:
        raise ValueError("only runs that received are compared as a series")
    results: dict[str, Any] = run.receiver["results"]
    return results


def _value(run: RunData, figure: str) -> float:
    if figure == "message_rate":
        return float(_results(run)["message_rate"] or 0)
    latency = (run.receiver or {})["latency"]
    rank = f"{_RANKS[figure]:g}"
    return float(latency["percentiles"][rank]) / per_millisecond(latency["unit"])
