"""The curve and the tables of the answer of a search, a sweep, a set, a churn or a hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quiver_fast.analysis.model.ranks import BENCH_KEYS
from quiver_fast.analysis.read.answer_file import CHURN, HOLD, SEARCH, Answer
from quiver_fast.analysis.read.sweep_file import SweptPoint, SweptValues
from quiver_fast.analysis.sections.campaigns import (
    campaign_sections,
    checked,
    steps_of,
    trial_state,
)
from quiver_fast.analysis.sections.rows import PAGE, Grid
from quiver_fast.analysis.show.chart import Chart, percentile_chart
from quiver_fast.analysis.show.html import escape, html_grid
from quiver_fast.analysis.show.scales import Scale, count_scale
from quiver_fast.analysis.show.set_charts import sweep_charts

Links = Mapping[str, int]
"""The number of the section of each run on the page, by the run's directory."""


def answer_charts(answer: Answer) -> list[Chart]:
    """Return the curve of an answer.

    Raises:
        RecordError: the document is damaged.
    """
    charts = _CHARTS.get(answer.kind)
    return [] if charts is None else checked(answer, lambda: charts(answer))


def answer_tables(answer: Answer, links: Links) -> str:
    """Return as HTML the trials, points or steps of an answer.

    Raises:
        RecordError: the document is damaged.
    """
    return checked(answer, lambda: _tables(answer, links))


def _rate_charts(answer: Answer) -> list[Chart]:
    """Return the curve of latency over throughput, whose points stand in the order of rates."""
    trials = sorted(answer.document["found_rate"]["steps"], key=lambda trial: int(trial["rate"]))
    points = tuple(
        SweptPoint({"rate": f"{trial['rate']:,}/s"}, bool(trial["sustained"]), trial["figures"])
        for trial in trials
    )
    swept = SweptValues("", answer.document["target"], ("rate",), points)
    charts = sweep_charts([swept], through_all=False)
    return [*charts, _in_order(answer.document["found_rate"])] if trials else charts


def _in_order(found: Mapping[str, Any]) -> Chart:
    """Return the rate of each trial, in the order of measuring."""
    trials = found["steps"]
    names = [f"{trial['name']}, {trial['rate']:,}/s: {trial_state(trial)}" for trial in trials]
    rates = [float(trial["rate"]) for trial in trials]
    step = max(-(-len(trials) // 6), 1)
    marks = tuple((float(n), str(n)) for n in range(1, len(trials) + 1, step))
    chart = Chart(
        "trials",
        "Rate of each trial",
        Scale("trial, in order of time", 0.5, len(trials) + 0.5, marks),
        count_scale("messages/s", max(rates)),
        "A hollow dot is a trial that was not sustained; the line is the answer.",
    )
    if found["rate"] is not None:
        chart.line([0.5, len(trials) + 0.5], [found["rate"]] * 2, 7, "answer", dashed=True)
    for number, (trial, rate, name) in enumerate(zip(trials, rates, names, strict=True), start=1):
        chart.dots([number], [rate], 0, None, [name], hollow=trial_state(trial) != "sustained")
    return chart


def _step_charts(answer: Answer) -> list[Chart]:
    """Return the latencies by percentile: a curve for each step."""
    curves = {
        name: (
            int(latency["count"]),
            {float(rank): latency[key] / 1000 for key, rank in BENCH_KEYS.items()},
        )
        for name, latency in steps_of(answer.document)
    }
    note = "Lines lead from one percentile to the next; the last one is the maximum."
    return [percentile_chart("steps", "Latency by percentile", curves, note)] if curves else []


def _tables(answer: Answer, links: Links) -> str:
    shown = ""
    for section in campaign_sections(answer.kind, answer.document):
        for grid in section.of(PAGE):
            if isinstance(grid, Grid):
                rows = [
                    [_linked(answer, name, links), *cells, escape(last)]
                    for name, *cells, last in grid.rows
                ]
                table = html_grid(grid.heads, rows, grid.name, markup=True)
                shown += f"<h2>{escape(grid.name)}</h2>{table}"
    return shown


def _linked(answer: Answer, name: str, links: Links) -> str:
    """Return a name that leads to the run's section, where the page has one."""
    number = links.get(str(answer.place.parent / name))
    text = escape(name)
    return text if number is None else f'<a href="#run-{number}">{text}</a>'


# The report draws all sweeps in one chart.
_CHARTS = {SEARCH: _rate_charts, CHURN: _step_charts, HOLD: _step_charts}
