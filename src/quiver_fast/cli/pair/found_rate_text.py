"""The printed report of a search for a rate: pure functions from its document to text."""

from __future__ import annotations

from typing import Any

from quiver_fast.analysis.compare.sets import FIGURES
from quiver_fast.analysis.model.units import average_text
from quiver_fast.cli.analyze.text import STEADY_OR_WHOLE
from quiver_fast.cli.arrow.summary_text import section, text_field

_HEADS = {"latency_p50": "p50", "latency_p99": "p99", "latency_max": "max"}
_WIDTH = 12


def trial_text(trial: dict[str, Any]) -> str:
    """Return what a trial that has ended says, as a part of one line."""
    word = "sustained" if trial["sustained"] else f"not sustained: {trial['reason']}"
    values = [f"{head} {_cell(trial, name)}" for name, head in _HEADS.items()]
    return f"{word} ({', '.join(values)})" if trial["figures"] else word


def found_rate_text(document: dict[str, Any]) -> str:
    """Return the report that `quiver --find-rate` prints, from its document."""
    return _found(document) + _trials(document["found_rate"]["steps"])


def _found(document: dict[str, Any]) -> str:
    found = document["found_rate"]
    interval = f"{_rate(found['low'])} to {_rate(found['high'])}"
    return section(
        "FOUND RATE",
        [
            text_field("Target", document["target"]),
            text_field("Conditions", ", ".join(document["conditions"])),
            text_field("Sustained", _rate(found["rate"])),
            text_field("Interval, 95 %", interval),
            text_field("Just above", found["reason"] or "-"),
            text_field("Confirmation", _confirmation(found["confirmation"])),
            text_field("Output files", document["output_dir"]),
        ],
    )


def _confirmation(found: dict[str, Any] | None) -> str:
    """Say how many of the runs at the answer, and just above it, were sustained."""
    if found is None:
        return "none: there was no time"
    sides = (found["at"], found["above"])
    return ", ".join(
        f"{side['sustained']} of {side['runs']} at {_rate(side['rate'])}"
        for side in sides if side["runs"]
    )  # fmt: skip


def _trials(steps: list[dict[str, Any]]) -> str:
    """Return a line for each trial, in the order of measuring."""
    width = max((len(step["name"]) for step in steps), default=0)
    heads = "".join(f"{head:>{_WIDTH}}" for head in ("rate", *_HEADS.values()))
    lines = [" " * width + heads]
    for step in steps:
        values = "".join(f"{_cell(step, name):>{_WIDTH}}" for name in _HEADS)
        mark = "" if step["sustained"] else f"  {step['reason']}"
        lines.append(f"{step['name']:<{width}}{_rate(step['rate']):>{_WIDTH}}{values}{mark}")
    lines += ["", f"{STEADY_OR_WHOLE}; conditions: of the whole run"]
    return section("TRIALS", lines)


def _rate(rate: int | None) -> str:
    return "-" if rate is None else f"{rate:,}/s"


def _cell(trial: dict[str, Any], name: str) -> str:
    return average_text((trial["figures"] or {}).get(name), FIGURES[name][0])
