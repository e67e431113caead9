"""The table of several runs on a page: a line and a small chart for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.statistics import arrivals
from quiver_fast.analysis.model.ranks import FEW, rank_head
from quiver_fast.analysis.model.units import average_text, latency_text
from quiver_fast.analysis.show.chart import sparkline
from quiver_fast.analysis.show.headline import run_rate, run_state
from quiver_fast.analysis.show.html import escape, html_grid

_HEADS = ("Run", "Messages/s", *map(rank_head, FEW), "Unreceived", "State", "Over time")


def overview(parts: Sequence[tuple[Mapping[str, Any], RunData]]) -> str:
    """Return the table as HTML; each name leads to the run's section."""
    rows = [_row(number, run, data) for number, (run, data) in enumerate(parts, start=1)]
    return html_grid(_HEADS, rows, "Runs", markup=True)


def _row(number: int, run: Mapping[str, Any], data: RunData) -> list[str]:
    latency = (run["receiver"] or {}).get("latency") or {}
    some = bool(latency.get("count"))
    figures = [
        latency_text(latency["percentiles"][rank], latency["unit"]) if some else "-" for rank in FEW
    ]
    unreceived = (run["delivery"] or {}).get("unreceived")
    name = escape(str(run["name"]))
    return [
        f'<a href="#run-{number}">{name}</a>',
        average_text(run_rate(run), "/s").removesuffix("/s"),
        *figures,
        "-" if unreceived is None else f"{unreceived:,}",
        run_state(run),
        sparkline(arrivals(data).rates, f"Throughput of {run['name']} over time"),
    ]
