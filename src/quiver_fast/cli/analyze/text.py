"""The printed analysis: pure functions from documents to text in the summary's layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from quiver_fast.analysis.model.units import PER_SECOND, latency_text
from quiver_fast.analysis.sections.findings import findings
from quiver_fast.analysis.sections.rows import cell_text
from quiver_fast.analysis.sections.sets import overview
from quiver_fast.analysis.show.text import grid_lines, heading_text, section_text


def overview_text(documents: Sequence[dict[str, Any]]) -> str:
    """Return a table with a line for each run; a folder that all are in is left out."""
    folders = {document["name"].rpartition("/")[0] for document in documents}
    shared = folders.pop() if len(folders) == 1 else ""
    named = [one | {"name": one["name"].removeprefix(shared).lstrip("/")} for one in documents]
    return heading_text("RUNS", grid_lines(overview(named)))


def findings_text(document: dict[str, Any]) -> Iterator[str]:
    """Yield our sections after a run's summary; the windows stand before the clock."""
    sections = findings(document)
    seconds = [one for one in sections if one.title in ("STEADY STATE", "STALLS")]
    yield from map(section_text, seconds)
    yield from windows_text(document)
    yield from map(section_text, sections[len(seconds) :])


def windows_text(document: dict[str, Any]) -> Iterator[str]:
    """Yield the table of windows, a row at a time: they may be as many as seconds."""
    windows, receiver = document["analysis"]["windows"], document["receiver"]
    if windows is None:
        return
    unit = "ms" if receiver is None else receiver["latency"]["unit"]
    heads = {"rate": "messages/s", "latency_p50": "p50", "latency_p99": "p99"}
    heads = {name: head for name, head in heads.items() if name in windows}
    head = f"{'seconds':>8}" + "".join(f"{head:>14}" for head in heads.values())
    yield heading_text(f"WINDOWS OF {windows['seconds']} s", [head])
    beginning = next(iter(windows["start"]), 0)
    columns = [windows[name] for name in heads]
    for start, *row in zip(windows["start"], *columns, strict=True):
        cells = [
            f"{_window_cell(value, name, unit):>14}" for name, value in zip(heads, row, strict=True)
        ]
        yield f"{start - beginning:>8}" + "".join(cells) + "\n"


def _window_cell(value: float | None, name: str, unit: str) -> str:
    if value is None or name == "rate":
        return cell_text(value, ",.0f")
    return latency_text(value * PER_SECOND[unit] / PER_SECOND["ms"], unit)
