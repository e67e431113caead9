"""The plots of runs and of their comparison, drawn by matplotlib without a display.

Latencies are shown on a scale that is logarithmic above one tick of the records' clock and
linear below, so that zero and negative latencies have a place; each mark has the unit that
suits it. A rate is that of the covered part of a second: a run begins and ends within one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.omission import CorrectedDistribution
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.statistics import (
    BY_INTERVAL,
    OF_STEADY,
    arrivals,
    departures,
    ending,
)
from quiver_fast.analysis.figures.windows import latency_windows
from quiver_fast.analysis.model.ranks import AXIS, FEW, rank_head
from quiver_fast.analysis.model.units import fine_text, per_millisecond
from quiver_fast.analysis.read.sweep_file import SweptPoint, SweptValues
from quiver_fast.analysis.show.curves import (
    heat_cells,
    merged_latencies,
    percentile_curve,
    sweep_curves,
    with_silence,
)
from quiver_fast.analysis.tables.latencies import Histogram, Latencies, coarse
from quiver_fast.extras import optional_module

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]

_SIZE = (9.0, 3.6)
# Okabe and Ito's colours, which the colour-blind can tell apart.
_BLUE, _ORANGE, _GREEN, _PURPLE, _GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#999999"
_CURVES = (_BLUE, _ORANGE, _GREEN, _PURPLE, _GREY, "#56B4E9", "#E69F00", "#000000")


def run_plots(run: RunData, statistics: Mapping[str, Any]) -> dict[str, Figure]:
    """Return the plots of one run by name.

    ``throughput`` is always there; ``latency``, ``percentiles`` and ``heatmap`` where
    messages were received.

    Args:
        run: as a backend returned it.
        statistics: its section ``analysis``.

    Raises:
        QuiverError: matplotlib is not installed.
    """
    plots = {"throughput": _throughput(run, statistics)}
    if run.histogram is not None and run.histogram.total:
        plots["latency"] = _latency(run.histogram)
        plots["percentiles"] = _percentiles(run.histogram, statistics["coordinated_omission"])
        plots["heatmap"] = _heat_map(run.histogram)
    return plots


def comparison_plots(base: Sequence[RunData], candidate: Sequence[RunData]) -> dict[str, Figure]:
    """Return the overlays of two sets of runs: throughput, and percentiles where received."""
    sets = {"base": (base, _GREY), "candidate": (candidate, _BLUE)}
    figure, axes = _axes("Throughput, base and candidate", "seconds from the start", "messages/s")
    for label, (runs, colour) in sets.items():
        for number, run in enumerate(runs):
            counts = arrivals(run)
            name = label if number == 0 else None
            seconds, rates = with_silence(counts.seconds, counts.rates, 0.0)
            axes.plot(seconds - seconds[:1], rates, color=colour, label=name, lw=1)
    axes.set_ylim(bottom=0)
    _finish(axes)
    plots = {"comparison-throughput": figure}
    merged = {label: merged_latencies(runs) for label, (runs, _) in sets.items()}
    if all(merged.values()):
        figure, axes = _percentile_axes("Latency by percentile, base and candidate")
        for label, latencies in merged.items():
            if latencies is not None:
                _curve(axes, *latencies, label, sets[label][1])
        _finish(axes)
        plots["comparison-percentiles"] = figure
    return plots


def run_dots(comparison: Mapping[str, Any]) -> dict[str, Figure]:
    """Return one plot of a comparison's figures: a dot for each run, a bar at each mean.

    Args:
        comparison: what :func:`quiver_fast.analysis.compare.sets.compare_sets` returned.
    """
    module = optional_module("matplotlib.figure", "drawing plots")
    figure: Figure = module.Figure(figsize=_SIZE, layout="constrained")
    figure.suptitle("Each run, base and candidate", x=0.01, ha="left")
    panels = figure.subplots(1, len(comparison["figures"]))
    for axes, (name, found) in zip(panels, comparison["figures"].items(), strict=True):
        for place, (label, colour) in enumerate((("base", _GREY), ("candidate", _BLUE))):
            values = found[f"{label}_runs"]
            axes.plot([place] * len(values), values, color=colour, marker="o", ls="", alpha=0.6)
            if values:
                axes.hlines(found[label], place - 0.25, place + 0.25, color=colour, lw=2)
        axes.set_title(name.replace("_", " "), loc="left", fontsize="medium")
        axes.set_ylabel(found["unit"])
        axes.set_xticks([0, 1], ["base", "candidate"])
        axes.set_xlim(-0.6, 1.6)
        axes.spines[["top", "right"]].set_visible(False)
    return {"comparison-runs": figure}


def series_plots(series: Mapping[str, Any]) -> dict[str, Figure]:
    """Return a plot of each figure over a series of runs, with its change points."""
    plots = {}
    for name, figure_of_runs in series["figures"].items():
        title = f"{name.replace('_', ' ').capitalize()} of each run"
        figure, axes = _axes(title, "run, in order of time", figure_of_runs["unit"])
        if figure_of_runs["unit"] == "ms":
            _latency_axis(axes)
        values = figure_of_runs["values"]
        axes.plot(range(1, len(values) + 1), values, color=_BLUE, marker="o", lw=1)
        for change in figure_of_runs["change_points"]:
            place = series["runs"].index(change["run"]) + 0.5
            axes.axvline(place, color=_ORANGE, ls="--", label="change point")
        _finish(axes)
        plots[f"series-{name.replace('_', '-')}"] = figure
    return plots


def sweep_plots(sweeps: Sequence[SweptValues]) -> dict[str, Figure]:
    """Return the curves of latency over throughput of sweeps: one plot, or none without figures.

    Of two options the one with fewer values has a curve for each of them. A hollow mark is a
    point whose load was not sustained.

    Raises:
        QuiverError: matplotlib is not installed.
    """
    curves = [curve for sweep in sweeps for curve in sweep_curves(sweep, len(sweeps) > 1)]
    if not curves:
        return {}
    figure, axes = _axes("Latency over throughput", "thousand messages/s", "latency")
    for number, (label, points) in enumerate(curves):
        _draw_sweep(axes, label, points, _CURVES[number % len(_CURVES)])
    axes.set_xlim(left=0)
    if axes.dataLim.y0 > 0:
        axes.set_yscale("log")
        _latency_axis(axes)
    else:
        _scale(axes, "us")
    _finish(axes)
    return {"sweep": figure}


def _draw_sweep(axes: Axes, label: str, points: Sequence[SweptPoint], colour: str) -> None:
    figures = [point.figures for point in points if point.figures is not None]
    fills = [colour if point.sustained else "white" for point in points]
    rates = [found["message_rate"] / 1000 for found in figures]
    for name, part, style in (("latency_p99", "99 %", "-"), ("latency_p50", "median", ":")):
        values = [found[name] for found in figures]
        axes.plot(rates, values, style, color=colour, label=f"{label}{part}", lw=1.2)
        axes.scatter(rates, values, s=22, c=fills, edgecolors=colour, zorder=3)


def _axes(title: str, x_label: str, y_label: str) -> tuple[Figure, Axes]:
    module = optional_module("matplotlib.figure", "drawing plots")
    figure: Figure = module.Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#dddddd", lw=0.5)
    axes.set_axisbelow(True)
    return figure, axes


def _finish(axes: Axes) -> None:
    """Add a legend with each label once, if there are labels."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    if once:
        axes.legend(once.values(), once.keys(), frameon=False)


def _throughput(run: RunData, statistics: Mapping[str, Any]) -> Figure:
    title = "Throughput (incomplete run)" if ending(run)[0] is False else "Throughput"
    figure, axes = _axes(title, "seconds from the start", "messages/s")
    received = None if run.histogram is None else arrivals(run)
    lines = [(departures(run), "sent", _ORANGE), (received, "received", _BLUE)]
    starts = [int(counts.seconds[0]) for counts, _, _ in lines if counts and len(counts.seconds)]
    start = min(starts, default=0)
    for counts, label, colour in lines:
        if counts is not None:
            seconds, rates = with_silence(counts.seconds, counts.rates, 0.0)
            axes.plot(seconds - start, rates, color=colour, label=label, lw=1.2)
    steady = statistics["steady_state"]
    if steady["figures_of"] == OF_STEADY:
        span = (steady["first_second"] - start, steady["last_second"] - start)
        axes.axvspan(*span, color=_GREEN, alpha=0.12, lw=0, label="steady state")
    if statistics["sending_end"] is not None:
        place = statistics["sending_end"] - start
        axes.axvline(place, color=_GREY, ls="--", lw=1, label="end of the sending")
    axes.set_ylim(bottom=0)
    _finish(axes)
    return figure


def _latency(histogram: Histogram) -> Figure:
    figure, axes = _axes("Latency of each second", "seconds from the start", "latency")
    seconds, table = latency_windows(histogram, [float(rank) for rank in FEW])
    seconds, table = with_silence(seconds, table, np.nan)
    colours = dict(zip(("50", "99", "100"), (_GREEN, _BLUE, _ORANGE), strict=True))
    for column, rank in enumerate(FEW):
        label, colour = rank_head(rank).lower(), colours.get(rank, _CURVES[3 + column])
        # The dots are for seconds between silent ones, which have no line.
        axes.plot(
            seconds - seconds[0], table[:, column], color=colour, label=label, lw=1.2,
            marker=".", ms=2.5,
        )  # fmt: skip
    _scale(axes, histogram.unit)
    _finish(axes)
    return figure


def _percentiles(histogram: Histogram, omission: Mapping[str, Any]) -> Figure:
    figure, axes = _percentile_axes("Latency by percentile")
    raw = histogram.distribution()
    _curve(axes, raw, histogram.unit, "as recorded", _BLUE)
    if omission["method"] == BY_INTERVAL:
        corrected = CorrectedDistribution(coarse(raw)[0], omission["expected_interval"])
        label = "corrected for coordinated omission"
        _curve(axes, corrected, histogram.unit, label, _PURPLE)
    _finish(axes)
    return figure


def _percentile_axes(title: str) -> tuple[Figure, Axes]:
    """Return axes on which every further nine of the percentile takes the same space."""
    figure, axes = _axes(title, "percentile", "latency")
    axes.set_xscale("log")
    axes.set_xticks([1 / (1 - rank / 100) for rank in AXIS], [f"{rank:g} %" for rank in AXIS])
    axes.minorticks_off()
    return figure, axes


def _curve(
    axes: Axes,
    latencies: Latencies | CorrectedDistribution,
    unit: str,
    label: str,
    colour: str,
) -> None:
    spread, values = percentile_curve(latencies, unit)
    axes.plot(spread, values, color=colour, label=label, lw=1.5)
    _scale(axes, unit)


def _scale(axes: Axes, unit: str) -> None:
    axes.set_yscale("symlog", linthresh=1 / per_millisecond(unit))
    _latency_axis(axes)


def _latency_axis(axes: Axes) -> None:
    """Have the marks of milliseconds named in the unit that suits each."""
    axes.yaxis.set_major_formatter(lambda value, _place: _mark(value))


def _mark(milliseconds: float) -> str:
    nanoseconds = round(milliseconds * 1e6)
    return "0" if nanoseconds == 0 else fine_text(nanoseconds, "ns")


def _heat_map(histogram: Histogram) -> Figure:
    figure, axes = _axes("Messages by time and latency", "seconds from the start", "latency")
    columns, rows, cells = heat_cells(histogram)
    colors = optional_module("matplotlib.colors", "drawing plots")
    mesh = axes.pcolormesh(
        columns - columns[0],
        rows / per_millisecond(histogram.unit),
        np.ma.masked_equal(cells.T, 0),
        norm=colors.LogNorm(vmin=1, vmax=max(float(cells.max()), 2)),
        cmap="viridis",
        rasterized=True,
    )
    _scale(axes, histogram.unit)
    figure.colorbar(mesh, ax=axes, label="messages")
    return figure
