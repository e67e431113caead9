"""The verdicts on conditions: a row each, which text, terminal, page and files show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from quiver_fast.analysis.model.units import figure_text
from quiver_fast.analysis.sections.rows import PAGE, TEXT, Grid, Row, Section
from quiver_fast.words import counted

BREACHED, INCONCLUSIVE, OK = "breached", "inconclusive", "ok"


class Verdict(NamedTuple):
    """A condition that must not hold, and what it came to.

    Attributes:
        condition: as the user wrote it.
        run: the name of the run; "comparison" of a condition on that.
        figure: the value in words, or why there is none.
        state: breached, inconclusive or ok.
        why: why nobody can say; empty where the state is another.
    """

    condition: str
    run: str
    figure: str
    state: str
    why: str

    @property
    def words(self) -> str:
        """The figure and the state in one line."""
        state = f"INCONCLUSIVE: {self.why}" if self.why else self.state
        return f"{self.figure}, {'BREACHED' if self.state == BREACHED else state}"


def verdicts(results: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """Return the verdict of each of the ``thresholds`` of a document."""
    return [
        Verdict(one["condition"], one["run"], one["reason"] or checked_text(one), *_state(one))
        for one in results
    ]


def _state(one: Mapping[str, Any]) -> tuple[str, str]:
    if one["breached"]:
        return BREACHED, ""
    return (INCONCLUSIVE, one["inconclusive"]) if one["inconclusive"] else (OK, "")


def verdict_section(results: Sequence[Mapping[str, Any]]) -> Section:
    """Return the verdicts; a terminal has them for one run, which needs no name."""
    found = verdicts(results)
    heads = ("condition", "run", "figure", "verdict")
    return Section("THRESHOLDS", [
        *(Row("", f"{one.condition}: {one.words} ({one.run})", "",
              ("Threshold", f"{one.condition}: {one.words}"), TEXT) for one in found),
        Grid("Thresholds", heads, [one[:4] for one in found], PAGE),
        Row("", "", only=TEXT),
        Row("", "Figures of a run are of the whole run."),
    ])  # fmt: skip


def breach_text(one: Mapping[str, Any]) -> str:
    """Return one line that tells the breach of a condition, from its result."""
    if one["reason"] is None:
        return f"threshold {one['condition']} is breached: {checked_text(one)} ({one['run']})"
    return f"--fail-if {one['condition']}: {one['reason']} ({one['run']})"


def checked_text(one: Mapping[str, Any]) -> str:
    """Return the figure of a condition, and the number of messages beside it."""
    figure = figure_text(one["value"], one["unit"])
    if not one["never_sent"]:
        return figure
    unsent = counted(one["never_sent"], "message", ("that was", "that were"))
    return f"{figure} with {unsent} due and never sent"
