"""The printed report of a set of runs: pure functions from its document to text."""

from __future__ import annotations

from typing import Any

from quiver_fast.analysis.compare.median import LEAST_VALUES
from quiver_fast.analysis.compare.sets import FIGURES
from quiver_fast.analysis.figures.run_data import RunFigures
from quiver_fast.analysis.figures.steady import STEADY
from quiver_fast.analysis.model.units import average_text
from quiver_fast.analysis.read.set_layout import CANDIDATE
from quiver_fast.cli.analyze.text import STEADY_OR_WHOLE, comparison_text, threshold_text
from quiver_fast.cli.arrow.summary_text import section, text_field

_HEADS = {
    "message_rate": "rate",
    "latency_p50": "p50",
    "latency_p99": "p99",
    "latency_max": "max",
}
_WIDTH = 13


def progress_text(figures: RunFigures | None, reason: str | None) -> str:
    """Return what a run that has ended says, as a part of one line."""
    parts = [] if reason is None else [f"INCOMPLETE: {reason}"]
    if figures is not None:
        values = [f"{head} {_cell(figures.steady, name)}" for name, head in _HEADS.items()]
        parts.append(", ".join(values))
    return "; ".join(parts)


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
    if document["thresholds"]:
        sections.append(threshold_text(document["thresholds"]))
    return "".join(sections)


def _incomplete(document: dict[str, Any]) -> str:
    if document["complete"]:
        return ""
    reasons = [f"{run['name']}: {run['reason']}" for run in document["order"] if run["reason"]]
    done = f"{document['complete_runs']} of {document['asked_runs']} runs are complete"
    return section("INCOMPLETE", [done, *reasons])


def _set(document: dict[str, Any]) -> str:
    labels = [text_field(side.capitalize(), label) for side, label in document["sides"].items()]
    runs = f"{document['complete_runs']} of {document['asked_runs']} complete"
    return section(
        "SET",
        [*labels, text_field("Runs", runs), text_field("Output files", document["output_dir"])],
    )


def _runs(order: list[dict[str, Any]]) -> str:
    """Return a line for each run, in the order of measuring."""
    width = max((len(run["name"]) for run in order), default=0)
    lines = [" " * width + "".join(f"{head:>{_WIDTH}}" for head in _HEADS.values())]
    for run in order:
        values = "".join(f"{_cell(run['figures'] or {}, name):>{_WIDTH}}" for name in _HEADS)
        mark = "" if run["complete"] else "  INCOMPLETE"
        mark += _of_which(run["verdict"])
        lines.append(f"{run['name']:<{width}}{values}{mark}")
    lines += ["", STEADY_OR_WHOLE]
    return section("RUNS", lines)


def _of_which(verdict: str | None) -> str:
    """Name the part of a run that a line is of, where it is not the steady state."""
    return "" if verdict in (None, STEADY) else f"  whole run: {verdict}"


def _cell(figures: dict[str, float], name: str) -> str:
    return average_text(figures.get(name), FIGURES[name][0])


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
