"""The sides of a comparison, at the top of a page: base, candidate, and their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.read.summary_file import workload_beside
from quiver_fast.analysis.sections.headline import run_facts
from quiver_fast.analysis.show.html import html_facts

Facts = dict[str, str | None]


def sides_section(base: Sequence[RunData], candidate: Sequence[RunData]) -> str:
    """Return as HTML the facts of each side, by its first run, and those that both share.

    Raises:
        RecordError: a summary is damaged.
        OSError: it cannot be read.
    """
    sides = {"A, the base": base, "B, the candidate": candidate}
    facts = [_facts(runs[0]) for runs in sides.values()]
    options = [_workload(runs[0]) for runs in sides.values()]
    shared = {key: value for key, value in facts[0].items() if facts[1][key] == value}
    shown = ""
    for (title, runs), own, others, given in zip(
        sides.items(), facts, reversed(options), options, strict=True
    ):
        differing = {key: value for key, value in own.items() if key not in shared}
        rows = {"Runs": _names(runs), **differing, "Options": _words(given, others)}
        shown += f'<section><p class="side">{title}</p>{html_facts(rows)}</section>'
    return f'<div class="charts">{shown}</div>{html_facts(shared)}'


def _names(runs: Sequence[RunData]) -> str:
    first, last = runs[0].name, runs[-1].name
    return first if len(runs) == 1 else f"{len(runs)}: {first} to {last}"


def _facts(run: RunData) -> Facts:
    ends = [end for end in (run.sender, run.receiver) if end is not None]
    modes = {(end["config"] or {}).get("connection_mode") for end in ends}
    document = {
        "sender": run.sender,
        "receiver": run.receiver,
        "ends": run.ends,
        "peer_to_peer": len(ends) > 1 and "server" in modes,
    }
    return run_facts(document)


def _workload(run: RunData) -> Mapping[str, Any]:
    ends = run.ends or [end for end in (run.sender, run.receiver) if end is not None]
    return workload_beside(Path(ends[-1]["file"])) or {}


def _words(given: Mapping[str, Any], others: Mapping[str, Any]) -> str | None:
    """Return the options that the other side has not; the target is said already."""
    words = [
        f"--{name} {value}" if value is not True else f"--{name}"
        for name, value in given.items()
        if name not in ("url", "output", "html") and others.get(name) != value
    ]
    return " ".join(words) or None
