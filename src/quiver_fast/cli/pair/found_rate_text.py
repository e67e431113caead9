"""The printed report of a search for a rate: pure functions from its document to text."""

from __future__ import annotations

from typing import Any

from quiver_fast.cli.analyze.text import STEADY_OR_WHOLE
from quiver_fast.cli.arrow.summary_text import section, text_field
from quiver_fast.cli.pair.figures_text import LATENCIES, WIDTH, figures_table, figures_text


def trial_text(trial: dict[str, Any]) -> str:
    """Return the result of a trial that has ended, as a part of one line."""
    word = "sustained" if trial["sustained"] else f"not sustained: {trial['reason']}"
    word = trial["reason"] if trial["void"] else word
    return f"{word} ({figures_text(LATENCIES, trial['figures'])})" if trial["figures"] else word


def found_rate_text(document: dict[str, Any]) -> str:
    """Return the report that `quiver --find-rate` prints, from its document."""
    return _found(document) + _trials(document["found_rate"]["steps"])


def _found(document: dict[str, Any]) -> str:
    found = document["found_rate"]
    interval = f"{_rate(found['low'])} to {_rate(found['high'])}"
    unconfirmed = " (unconfirmed)" if found["rate"] and not found["confirmed"] else ""
    fields = [
        text_field("Sustained", f"{_rate(found['rate'])}{unconfirmed}"),
        text_field("Interval, 95 %", interval),
        text_field("Target", document["target"]),
        text_field("Conditions", ", ".join(document["conditions"])),
        text_field("Just above", found["reason"] or "-"),
        text_field("Confirmation", _confirmation(found["confirmation"], document["reason"])),
    ]
    stalled = found["stalled"]
    if stalled["failed"]:
        below = f"{stalled['failed']} of {stalled['runs']} trials below failed: not by the rate"
        fields.append(text_field("Stalled", below))
    return section("FOUND RATE", [*fields, text_field("Output files", document["output_dir"])])


def _confirmation(found: dict[str, Any] | None, reason: str | None) -> str:
    """Say how many of the runs at the answer, and just above it, were sustained."""
    if found is None:
        return "none: the search failed" if reason else "none: there was no time"
    sides = (found["at"], found["above"])
    return ", ".join(
        f"{side['sustained']} of {side['runs']} at {_rate(side['rate'])}"
        for side in sides if side["runs"]
    )  # fmt: skip


def _trials(steps: list[dict[str, Any]]) -> str:
    """Return a line for each trial, in the order of measuring."""
    width = max((len(step["name"]) for step in steps), default=0)
    rows = [
        (
            f"{step['name']:<{width}}{_rate(step['rate']):>{WIDTH}}",
            step["figures"],
            "" if step["sustained"] else step["reason"],
        )
        for step in steps
    ]
    table = figures_table(LATENCIES, rows, f"{'':<{width}}{'rate':>{WIDTH}}")
    return section("TRIALS", [*table, "", f"{STEADY_OR_WHOLE}; conditions: of the whole run"])


def _rate(rate: int | None) -> str:
    return "-" if rate is None else f"{rate:,}/s"
