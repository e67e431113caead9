"""The charts of several runs on a page: comparison, series, and sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quiver_fast.analysis.compare.comparison import BETTER, WORSE
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.statistics import arrivals
from quiver_fast.analysis.model.distribution import Float64Array
from quiver_fast.analysis.model.units import average_text, per_millisecond, short_text
from quiver_fast.analysis.read.sweep_file import SweptPoint, SweptValues
from quiver_fast.analysis.show.chart import Chart
from quiver_fast.analysis.show.run_charts import draw_curve, highest, with_centres
from quiver_fast.analysis.show.scales import (
    Scale,
    count_scale,
    latency_scale,
    percentile_scale,
    time_scale,
)
from quiver_fast.analysis.tables.latencies import Latencies
from quiver_fast.analysis.tables.spilled import LatencyRows

_BASE, _CANDIDATE = 7, 0
_SETS = (("base", _BASE), ("candidate", _CANDIDATE))
_FINEST = 1e-3  # one microsecond: for figures without a clock of their own


def comparison_charts(base: Sequence[RunData], candidate: Sequence[RunData]) -> list[Chart]:
    """Return the overlays of two sets of runs: throughput, and percentiles where received."""
    sets = {"base": (base, _BASE), "candidate": (candidate, _CANDIDATE)}
    charts = [_overlaid_throughput(sets)]
    merged = {label: merged_latencies(runs) for label, (runs, _) in sets.items()}
    known = {label: found for label, found in merged.items() if found is not None}
    if len(known) < len(sets):
        return charts
    lows, highs, ticks = [], [], []
    for latencies, unit in known.values():
        ticks.append(1 / per_millisecond(unit))
        lows.append(latencies.minimum * ticks[-1])
        highs.append(latencies.maximum * ticks[-1])
    chart = Chart(
        "comparison-percentiles",
        "Latency by percentile, base and candidate",
        percentile_scale(max(latencies.total for latencies, _ in known.values())),
        latency_scale(min(lows), max(highs), min(ticks)),
    )
    for side, (latencies, unit) in known.items():
        draw_curve(chart, latencies, unit, side, sets[side][1])
    return [*charts, chart]


def _overlaid_throughput(sets: Mapping[str, tuple[Sequence[RunData], int]]) -> Chart:
    lines: list[tuple[Float64Array, Float64Array, int, str | None, str]] = []
    for label, (runs, colour) in sets.items():
        for number, run in enumerate(runs):
            xs, ys = with_centres(arrivals(run))
            if len(xs):
                named = label if number == 0 else None
                lines.append((xs - xs[0], ys, colour, named, f"{label}: {run.name}"))
    longest = max((float(xs[-1]) for xs, *_ in lines), default=1.0)
    top = max((highest(ys) for _, ys, *_ in lines), default=1.0)
    chart = Chart(
        "comparison-throughput",
        "Throughput, base and candidate",
        time_scale(longest),
        count_scale("messages/s", top),
    )
    for xs, ys, colour, named, title in lines:
        chart.line(xs, ys, colour, named, thin=len(lines) > 4, title=title)
    return chart


def run_dots(comparison: Mapping[str, Any]) -> list[Chart]:
    """Return a chart of each figure of a comparison: runs as dots, and their medians.

    Args:
        comparison: the result of :func:`quiver_fast.analysis.compare.sets.compare_figures`.
    """
    return [
        _figure_dots(name, found, values)
        for name, found in comparison["figures"].items()
        if (values := [*found["base_runs"], *found["candidate_runs"]])
    ]


def _figure_dots(name: str, found: Mapping[str, Any], values: Sequence[float]) -> Chart:
    title = name.replace("_", " ")
    chart = Chart(
        f"comparison-runs-{name.replace('_', '-')}",
        f"{title[0].upper()}{title[1:]}: {found['verdict']}",
        _value_scale(found["unit"], values),
        Scale("each run, and hollow the median", 0, 3, ((2, "base"), (1, "candidate"))),
    )
    for (label, colour), height in zip(_SETS, (2, 1), strict=True):
        runs = found[f"{label}_runs"]
        texts = [f"{label}: {average_text(value, found['unit'])}" for value in runs]
        chart.dots(runs, [height] * len(runs), colour, None, texts)
        if found[label] is not None:
            middle = found[label]
            text = f"median of {label}: {average_text(middle, found['unit'])}"
            chart.dots([middle], [height - 0.45], colour, None, [text], hollow=True)
    return chart


def _value_scale(unit: str, values: Sequence[float]) -> Scale:
    low, high = min(values), max(values)
    if unit == "ms":
        return latency_scale(low, high, _FINEST, apart=0.24)
    margin = (high - low) * 0.1 or abs(high) * 0.05 or 1.0
    return count_scale(unit, high + margin, low=max(low - margin, 0.0))


def change_intervals(comparison: Mapping[str, Any]) -> list[Chart]:
    """Return a chart of the change of each figure with its interval, if some figure has one.

    Changes are shares of the base.
    """
    known = [
        (name, found)
        for name, found in comparison["figures"].items()
        if found["interval"] is not None and found["base"]
    ]
    if not known:
        return []
    shares = {
        name: [100 * bound / abs(found["base"]) for bound in found["interval"]]
        for name, found in known
    }
    limit = max(max(abs(bound) for bound in bounds) for bounds in shares.values()) or 1.0
    top = len(known)
    marks = tuple((top - n, name.replace("_", " ")) for n, (name, _) in enumerate(known))
    chart = Chart(
        "comparison-intervals",
        "Change of each figure, with its 95 % interval",
        _centred_scale(limit),
        Scale("", 0.4, top + 0.6, marks),
        "An interval that does not have 0 in it is a difference. All of them hold at once in 95 "
        "of 100 comparisons.",
        wide=True,
    )
    chart.rule(0, "no change")
    for n, (name, found) in enumerate(known):
        low, high = shares[name]
        colour = {BETTER: 2, WORSE: 1}.get(found["verdict"], _BASE)
        middle = 100 * found["change"] if found["change"] is not None else (low + high) / 2
        title = f"{name.replace('_', ' ')}: {middle:+.3g} %, {low:+.3g} to {high:+.3g} %"
        title += f": {found['verdict']}"
        chart.span(top - n, low, high, colour, title)
        chart.dots([middle], [top - n], colour, None, [title])
    return [chart]


def _centred_scale(limit: float) -> Scale:
    half = count_scale("", limit)
    steps = half.marks[1:]
    # The end, and the middle where there is one: a phone has room for no more.
    chosen = [*([] if len(steps) % 2 else [steps[len(steps) // 2 - 1]]), steps[-1]]
    marks = [(-value, f"-{text} %") for value, text in reversed(chosen)]
    marks += [(0.0, "0 %"), *((value, f"+{text} %") for value, text in chosen)]
    return Scale("change from the base", -half.high, half.high, tuple(marks))


def series_charts(series: Mapping[str, Any]) -> list[Chart]:
    """Return a chart of each figure over a series of runs, with its change points."""
    return [_series_chart(series, name, found) for name, found in series["figures"].items()]


def _series_chart(series: Mapping[str, Any], name: str, found: Mapping[str, Any]) -> Chart:
    values, unit = found["values"], found["unit"]
    count = len(values)
    step = max(-(-count // 6), 1)
    marks = tuple((float(n), str(n)) for n in range(1, count + 1, step))
    scale = (
        latency_scale(min(values), max(values), _FINEST)
        if unit == "ms"
        else count_scale(unit, max(values))
    )
    title = f"{name.replace('_', ' ').capitalize()} of each run"
    chart = Chart(
        f"series-{name.replace('_', '-')}",
        title,
        Scale("run, in order of time", 0.5, count + 0.5, marks),
        scale,
    )
    numbers = [float(n) for n in range(1, count + 1)]
    chart.line(numbers, values, 0, None)
    texts = [f"{run}: {average_text(value, unit)}"
             for run, value in zip(series["runs"], values, strict=True)]  # fmt: skip
    chart.dots(numbers, values, 0, None, texts)
    for change in found["change_points"]:
        chart.rule(series["runs"].index(change["run"]) + 0.5, "change point")
    return chart


def sweep_charts(sweeps: Sequence[SweptValues], *, through_all: bool = True) -> list[Chart]:
    """Return the curves of latency over throughput of sweeps: one chart, or none without figures.

    Of two options the one with fewer values has a curve for each of them. A hollow mark is a
    point whose load was not sustained; ``through_all`` says whether lines lead there.
    """
    curves = [curve for sweep in sweeps for curve in sweep_curves(sweep, len(sweeps) > 1)]
    if not curves:
        return []
    points = [point.figures for _, of_curve in curves for point in of_curve if point.figures]
    latencies = [p[name] for p in points for name in ("latency_p50", "latency_p99")]
    chart = Chart(
        "sweep",
        "Latency over throughput",
        count_scale("messages/s", max(point["message_rate"] for point in points)),
        latency_scale(min(latencies), max(latencies), _FINEST),
        "A hollow dot is a load that was not sustained.",
    )
    for number, (label, of_curve) in enumerate(curves):
        _draw_sweep(chart, label, of_curve, number, through_all)
    return [chart]


def _draw_sweep(
    chart: Chart, label: str, points: Sequence[SweptPoint], colour: int, through_all: bool
) -> None:
    known = [(point, point.figures) for point in points if point.figures is not None]
    rates = [figures["message_rate"] for _, figures in known]
    for name, part, dashed in (("latency_p99", "99 %", False), ("latency_p50", "median", True)):
        values = [figures[name] for _, figures in known]
        line = [n for n, (point, _) in enumerate(known) if point.sustained or through_all]
        chart.line(
            [rates[n] for n in line], [values[n] for n in line], colour, f"{label}{part}",
            dashed=dashed,
        )  # fmt: skip
        for (point, _), rate, value in zip(known, rates, values, strict=True):
            options = ", ".join(f"{key}={text}" for key, text in point.values.items())
            state = "" if point.sustained else ", not sustained"
            said = f"{options}: {short_text(rate)}/s, {part} {average_text(value, 'ms')}{state}"
            chart.dots([rate], [value], colour, None, [said], hollow=not point.sustained)


def merged_latencies(runs: Sequence[RunData]) -> tuple[Latencies, str] | None:
    """Return the latencies of all runs in the finest of their units, None if none received."""
    histograms = [run.histogram for run in runs if run.histogram is not None]
    histograms = [histogram for histogram in histograms if histogram.total]
    if not histograms:
        return None
    finest = max((histogram.unit for histogram in histograms), key=per_millisecond)
    together = LatencyRows()
    for histogram in histograms:
        factor = per_millisecond(finest) // per_millisecond(histogram.unit)
        for part in histogram.parts():
            together.add(part.latencies * factor, part.counts)
    return together.total(), finest


def sweep_curves(sweep: SweptValues, named: bool) -> list[tuple[str, list[SweptPoint]]]:
    """Return the points of each curve of a sweep, in the order of measuring, with its label."""
    several = {option: len({p.values[option] for p in sweep.points}) for option in sweep.options}
    apart = sorted(sweep.options, key=lambda option: several[option])[:-1]
    curves: dict[str, list[SweptPoint]] = {}
    for point in sweep.points:
        words = [sweep.name] * named + [f"{option}={point.values[option]}" for option in apart]
        label = f"{' '.join(words)}, " if words else ""
        if point.figures is not None:
            curves.setdefault(label, []).append(point)
    return list(curves.items())
