"""The printed report of a sweep: pure functions from its document to text."""

from __future__ import annotations

from typing import Any

from quiver_fast.analysis.compare.sets import FIGURES
from quiver_fast.analysis.model.units import average_text
from quiver_fast.cli.analyze.text import STEADY_OR_WHOLE
from quiver_fast.cli.arrow.summary_text import section, text_field

_HEADS = {
    "message_rate": "throughput",
    "latency_p50": "p50",
    "latency_p99": "p99",
    "latency_max": "max",
}
_WIDTH = 12


def place_text(place: dict[str, Any]) -> str:
    """Return what was measured at one point, as a part of one line."""
    figures = f"{', '.join(f'{head} {_cell(place, name)}' for name, head in _HEADS.items())}"
    if place["figures"] is None:
        return str(place["reason"] or "too short for figures")
    return f"{figures}; {place['reason']}" if place["reason"] else figures


def sweep_text(document: dict[str, Any]) -> str:
    """Return the report that `quiver --sweep` prints, from its document."""
    fields = [
        text_field("Target", document["target"]),
        text_field("Options", ", ".join(document["options"])),
        text_field("Output files", document["output_dir"]),
    ]
    return section("SWEEP", fields) + section("POINTS", _points(document))


def _points(document: dict[str, Any]) -> list[str]:
    """Return a line for each point, in the order of measuring."""
    options = document["options"]
    widths = {
        option: max([len(option), *(len(place["values"][option]) for place in document["points"])])
        for option in options
    }
    named = "  ".join(f"{option:>{widths[option]}}" for option in options)
    lines = [named + "".join(f"{head:>{_WIDTH}}" for head in _HEADS.values())]
    for place in document["points"]:
        values = "  ".join(f"{place['values'][option]:>{widths[option]}}" for option in options)
        figures = "".join(f"{_cell(place, name):>{_WIDTH}}" for name in _HEADS)
        mark = f"  {place['reason']}" if place["reason"] else ""
        lines.append(f"{values}{figures}{mark}")
    return [*lines, "", STEADY_OR_WHOLE]


def _cell(place: dict[str, Any], name: str) -> str:
    return average_text((place["figures"] or {}).get(name), FIGURES[name][0])
