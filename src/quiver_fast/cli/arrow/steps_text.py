"""The printed figures of the steps of a rate that changed."""

from __future__ import annotations

from typing import Any

from quiver_fast.analysis.model.ranks import SECTIONS
from quiver_fast.analysis.model.units import latency_text
from quiver_fast.rate_steps import rate_text

_HEADS = ("seconds", "asked", "sent", "received", "sent/s", "p50", "p99", "p99.9", "max")
_WIDTHS = (9, 17, 11, 11, 11, 9, 9, 9, 9)


def step_lines(steps: list[dict[str, Any]]) -> list[str]:
    """Return a table with a line for each step, which ``docs/load.md`` describes."""
    return [_line(_HEADS), *(_line(_cells(step)) for step in steps)]


def _cells(step: dict[str, Any]) -> tuple[str, ...]:
    first, last = rate_text(step["first_rate"]), rate_text(step["last_rate"])
    latency, achieved = step["latency"], step["achieved"]
    ticks = [latency["percentiles"][rank] for rank in SECTIONS]
    return (
        f"{step['begin']:.4g}-{step['end']:.4g}",
        first if first == last else f"{first}..{last}",
        f"{step['sent']:,}",
        f"{step['received']:,}",
        "-" if achieved is None else f"{achieved:.3g}" if achieved < 10 else f"{achieved:,.0f}",
        *("-" if value is None else latency_text(value, latency["unit"]) for value in ticks),
    )


def _line(cells: tuple[str, ...]) -> str:
    """Return a line of the table; a blank stands before each cell, however wide the cell is."""
    padded = (f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))
    return " ".join(padded).rstrip()
