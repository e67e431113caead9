"""The figures of runs as a part of a line, and the report of a campaign."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quiver_fast.analysis.figures.run_data import RunFigures
from quiver_fast.analysis.model.figures import SET_FIGURES
from quiver_fast.analysis.model.units import NO_RATE, average_text
from quiver_fast.analysis.read.answer_file import SET
from quiver_fast.analysis.sections.campaigns import campaign_sections
from quiver_fast.analysis.sections.rows import Row, Section
from quiver_fast.analysis.sections.sets import comparison_section
from quiver_fast.analysis.sections.verdicts import verdict_section
from quiver_fast.analysis.show.text import section_text

_LATENCIES = {key: one.name for key, one in SET_FIGURES.items() if one.rank}


def campaign_text(kind: str, document: dict[str, Any]) -> str:
    """Return the report that a campaign prints, from its document.

    Args:
        kind: one of those of :mod:`quiver_fast.analysis.read.answer_file`.
        document: the one that ``--json`` prints.
    """
    text = "".join(map(section_text, campaign_sections(kind, document)))
    if kind != SET:
        return text
    found = {name: document[name] for name in _OF_SETS if document[name]}
    return text + "".join(section_text(_OF_SETS[name](part)) for name, part in found.items())


def _detection(detect: Mapping[str, Any]) -> Section:
    end = "decided" if detect["decided"] else f"inconclusive: {detect['reason']}"
    return Section("DETECTION", [Row("Change", f"{100 * detect['change']:g} %"), Row("", end)])


def trial_text(trial: dict[str, Any]) -> str:
    """Return the result of a trial that has ended, as a part of one line."""
    word = "sustained" if trial["sustained"] else f"not sustained: {trial['reason']}"
    word = trial["reason"] if trial["void"] else word
    return f"{word} ({_figures(_LATENCIES, trial['figures'])})" if trial["figures"] else word


def place_text(place: dict[str, Any]) -> str:
    """Return the result at one point of a sweep, as a part of one line."""
    if place["figures"] is None:
        return str(place["reason"] or NO_RATE)
    figures = _figures({"message_rate": "throughput", **_LATENCIES}, place["figures"])
    return f"{figures}; {place['reason']}" if place["reason"] else figures


def progress_text(figures: RunFigures | None, reason: str | None) -> str:
    """Return the result of a run of a set that has ended, as a part of one line."""
    parts = [] if reason is None else [f"INCOMPLETE: {reason}"]
    if figures is not None:
        parts.append(_figures({"message_rate": "rate", **_LATENCIES}, figures.steady))
        parts += [] if "message_rate" in figures.steady else [NO_RATE]
    return "; ".join(parts)


def _figures(heads: Mapping[str, str], figures: Mapping[str, float]) -> str:
    """Return figures with their heads: ``p50 1.02 ms, p99 3.4 ms``."""
    return ", ".join(
        f"{head} {average_text(figures.get(name), SET_FIGURES[name].unit)}"
        for name, head in heads.items()
    )


_OF_SETS: Mapping[str, Callable[[Any], Section]] = {
    "comparison": comparison_section, "detect": _detection, "thresholds": verdict_section,
}  # fmt: skip
