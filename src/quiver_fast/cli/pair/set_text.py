"""The printed report of a set of runs: pure functions from its document to text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quiver_fast.analysis.compare.median import LEAST_VALUES
from quiver_fast.analysis.figures.run_data import RunFigures
from quiver_fast.analysis.figures.steady import STEADY
from quiver_fast.analysis.model.units import NO_RATE, average_text
from quiver_fast.analysis.read.set_layout import CANDIDATE
from quiver_fast.cli.analyze.text import STEADY_OR_WHOLE, comparison_text, threshold_text
from quiver_fast.cli.arrow.summary_text import section, text_field
from quiver_fast.cli.pair.figures_text import LATENCIES, figures_table, figures_text
from quiver_fast.words import counted

_HEADS = {"message_rate": "rate", **LATENCIES}
_WIDTH = 13


def progress_text(figures: RunFigures | None, reason: str | None) -> str:
    """Return the result of a run that has ended, as a part of one line."""
    parts = [] if reason is None else [f"INCOMPLETE: {reason}"]
    if figures is not None:
        parts.append(figures_text(_HEADS, figures.steady))
        parts += _no_rate(figures.steady)
    return "; ".join(parts)


def _no_rate(figures: dict[str, float]) -> list[str]:
    return [] if "message_rate" in figures else [NO_RATE]


def set_text(document: dict[str, Any]) -> str:
    """Return the report that `quiver --runs` prints, from the document that ``--json`` prints."""
    sections = [_incomplete(document), _set(document), _runs(document["order"])]
    sections += [
        _summary(side, summary, len(document["summary"]))
        for side, summary in document["summary"].items()
        if summary["runs"]
    ]
    if document["comparison"] is not None:
        sections.append(comparison_text(document["comparison"]))
    if document["detect"] is not None:
        sections.append(_detection(document["detect"]))
    if document["thresholds"]:
        sections.append(threshold_text(document["thresholds"]))
    return "".join(sections)


def _incomplete(document: dict[str, Any]) -> str:
    if document["complete"]:
        return ""
    reasons = [f"{run['name']}: {run['reason']}" for run in document["order"] if run["reason"]]
    asked = counted(document["asked_runs"], "run", ("is", "are"))
    done = f"{document['complete_runs']} of {asked} complete"
    return section("INCOMPLETE", [done, *reasons])


def _set(document: dict[str, Any]) -> str:
    labels = [text_field(side.capitalize(), label) for side, label in document["sides"].items()]
    runs = f"{document['complete_runs']} of {document['asked_runs']} complete"
    return section(
        "SET",
        [*labels, text_field("Runs", runs), text_field("Output files", document["output_dir"])],
    )


def _detection(detect: dict[str, Any]) -> str:
    """Return whether the runs decide, and otherwise why not."""
    end = "decided" if detect["decided"] else f"inconclusive: {detect['reason']}"
    return section("DETECTION", [text_field("Change", f"{100 * detect['change']:g} %"), end])


def _runs(order: list[dict[str, Any]]) -> str:
    """Return a line for each run, in the order of measuring."""
    rows = [(run["name"], run["figures"], "  ".join(_remarks(run))) for run in order]
    return section("RUNS", [*figures_table(_HEADS, rows, width=_WIDTH), "", STEADY_OR_WHOLE])


def _remarks(run: dict[str, Any]) -> Iterator[str]:
    if not run["complete"]:
        yield "INCOMPLETE"
    if run["figures"] is not None:
        yield from _no_rate(run["figures"])
    if run["verdict"] not in (None, STEADY):
        yield f"whole run: {run['verdict']}"


def _summary(side: str, summary: dict[str, Any], sides: int) -> str:
    """Return the medians of one side, each with its interval."""
    lines = [f"{'':<13}{'median':>{_WIDTH}}  95 % interval of the median"]
    for name, figure in summary["figures"].items():
        median = average_text(figure["median"], figure["unit"])
        lines.append(
            f"{name.replace('_', ' '):<13}{median:>{_WIDTH}}  "
            f"{_interval(figure['interval'], figure['unit'])}"
        )
    if summary["runs"] < LEAST_VALUES:
        lines += ["", f"too few runs for an interval: at least {LEAST_VALUES}"]
    runs = f"{summary['runs']} RUN{'' if summary['runs'] == 1 else 'S'}"
    return section(f"{side.upper()}: {runs}" if sides > 1 or side != CANDIDATE else runs, lines)


def _interval(bounds: tuple[float, float] | None, unit: str) -> str:
    if bounds is None:
        return "-"
    low, high = (average_text(bound, unit) for bound in bounds)
    return f"{low} to {high}"
