"""The printed report of a sweep: pure functions from its document to text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quiver_fast.analysis.model.units import NO_RATE
from quiver_fast.cli.analyze.text import STEADY_OR_WHOLE
from quiver_fast.cli.arrow.summary_text import section, text_field
from quiver_fast.cli.pair.figures_text import LATENCIES, figures_table, figures_text

_HEADS = {"message_rate": "throughput", **LATENCIES}


def place_text(place: dict[str, Any]) -> str:
    """Return the result at one point, as a part of one line."""
    figures = figures_text(_HEADS, place["figures"])
    if place["figures"] is None:
        return str(place["reason"] or NO_RATE)
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

    def label(values: Mapping[str, str]) -> str:
        return "  ".join(f"{values[option]:>{widths[option]}}" for option in options)

    rows = [
        (label(place["values"]), place["figures"], place["reason"] or "")
        for place in document["points"]
    ]
    heads = label({option: option for option in options})
    return [*figures_table(_HEADS, rows, heads), "", STEADY_OR_WHOLE]
