"""The printed analysis: pure functions from documents to text in the summary's layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from quiver_fast.analysis.compare.comparison import in_words
from quiver_fast.analysis.model.ranks import HEADLINE
from quiver_fast.analysis.model.units import (
    PER_SECOND,
    average_text,
    checked_text,
    latency_text,
    percent_text,
)
from quiver_fast.analysis.show.headline import run_rate, run_state
from quiver_fast.analysis.show.run_sections import findings
from quiver_fast.analysis.show.sections import section_text
from quiver_fast.cli.arrow.summary_text import (
    arrow_summary_text,
    pair_summary_text,
    section,
    text_field,
)
from quiver_fast.cli.shared.thresholds import state_text
from quiver_fast.words import counted

_OVERVIEW = ("", "messages/s", "p50", "p99", "p99.9", "max", "unreceived", "state")
STEADY_OR_WHOLE = "of the steady states, or of the whole run where there is none"


def overview_text(documents: Sequence[dict[str, Any]]) -> str:
    """Return a table with a line for each run; a folder that all are in is left out."""
    folders = {document["name"].rpartition("/")[0] for document in documents}
    shared = folders.pop() if len(folders) == 1 else ""
    rows = [_OVERVIEW, *(_overview_row(document, shared) for document in documents)]
    width = max(len(row[0]) for row in rows)
    lines = [
        f"{name:<{width}}" + "".join(f" {cell:>11}" for cell in cells) + f"  {state}"
        for name, *cells, state in rows
    ]
    return section("RUNS", [line.rstrip() for line in lines])


def _overview_row(document: dict[str, Any], shared: str) -> tuple[str, ...]:
    latency = (document["receiver"] or {}).get("latency") or {"count": 0}
    ticks = [latency["percentiles"][rank] for rank in HEADLINE] if latency["count"] else []
    latencies = [latency_text(one, latency["unit"]) for one in ticks] or ["-"] * len(HEADLINE)
    unreceived = (document["delivery"] or {}).get("unreceived")
    return (
        document["name"].removeprefix(shared).removeprefix("/"),
        _or_dash(run_rate(document), ",.0f"),
        *latencies,
        _or_dash(unreceived, ","),
        run_state(document),
    )


def summary_text(document: dict[str, Any]) -> str:
    """Return the summary of a run as the wrappers print it."""
    if document["sender"] is not None and document["receiver"] is not None:
        return pair_summary_text(document)
    return arrow_summary_text(lone_summary(document))


def lone_summary(document: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of the end that a run has, which may be one of two."""
    end: dict[str, Any] = document["receiver"] or document["sender"]
    return end | {key: document[key] for key in ("complete", "reason")}


def findings_text(document: dict[str, Any]) -> Iterator[str]:
    """Yield our sections after a run's summary; the windows stand before the clock."""
    sections = findings(document)
    seconds = [one for one in sections if one.title in ("STEADY STATE", "STALLS")]
    yield from map(section_text, seconds)
    yield from windows_text(document)
    yield from map(section_text, sections[len(seconds) :])


def comparison_text(comparison: dict[str, Any]) -> str:
    """Return the verdict on a candidate against its base, figure by figure."""
    heads = ("", "base", "candidate", "change", "p", "effect", "raw base", "raw cand.", "verdict")
    lines = [
        _comparison_line(*heads),
        *(_figure_line(name, figure) for name, figure in comparison["figures"].items()),
        "",
        *_intervals(comparison["figures"]),
        *_reach(comparison["figures"]),
        f"base, candidate: medians {STEADY_OR_WHOLE}; raw: of the whole runs",
        "change: the median of the differences of all pairs of runs; p: for all figures at once",
        *(f"INCOMPLETE: {name}" for name in comparison["incomplete"]),
        *(f"NOT STEADY: {name}, by the whole run" for name in comparison["not_steady"]),
        "",
        text_field("Verdict", comparison["verdict"]),
        in_words(comparison),
    ]
    return section("COMPARISON", lines)


def _intervals(figures: dict[str, Any]) -> list[str]:
    """Return the interval of each difference, and the name of its figure."""
    lines = []
    for name, figure in figures.items():
        if figure["interval"] is None:
            continue
        low, high = (average_text(bound, figure["unit"]) for bound in figure["interval"])
        lines.append(f"difference of {name.replace('_', ' ')}: {low} to {high}")
    if not lines:
        return []
    return ["95 % intervals, for all figures at once:", *lines, ""]


def _reach(figures: dict[str, Any]) -> list[str]:
    """Return, of each figure whose difference is not shown, the runs that would show it."""
    lines = []
    for name, figure in figures.items():
        if figure["shown_from"] is None:
            continue
        line = f"{name.replace('_', ' ')}: so many runs show {figure['shown_from']:.0%}"
        if figure["runs_to_show"] is not None:
            line += f", about {figure['runs_to_show']:,} of each show {figure['change']:+.1%}"
        lines.append(line)
    return ["not shown (to show a change: in 90 of 100 sets):", *lines, ""] if lines else []


def _figure_line(name: str, figure: dict[str, Any]) -> str:
    unit = figure["unit"]
    return _comparison_line(
        name.replace("_", " "),
        average_text(figure["base"], unit),
        average_text(figure["candidate"], unit),
        _or_dash(figure["change"], "+.1%"),
        _or_dash(figure["adjusted_p_value"], ".2g"),
        _or_dash(figure["effect"], "+.2f"),
        average_text(figure["raw_base"], unit),
        average_text(figure["raw_candidate"], unit),
        figure["verdict"],
    )


def _comparison_line(name: str, *cells: str) -> str:
    """Return a line of the table; a blank stands before each cell, however wide the cell is."""
    *figures, verdict = cells
    padded = zip(figures, (11, 11, 8, 8, 6, 11, 11), strict=True)
    return f"{name:<13}{''.join(f' {cell:>{width}}' for cell, width in padded)}  {verdict}"


def change_point_text(changes: dict[str, Any]) -> str:
    """Return where a series of runs changed its level."""
    lines = [
        f"{name.replace('_', ' ')}: from {average_text(change['before'], figure['unit'])} "
        f"to {average_text(change['after'], figure['unit'])} with {change['run']}"
        for name, figure in changes["figures"].items()
        for change in figure["change_points"]
    ]
    lines += [
        f"{name.replace('_', ' ')}: neighbouring runs depend on each other "
        f"(autocorrelation {figure['autocorrelation']:.2f}); a step is not told from a drift"
        for name, figure in changes["figures"].items()
        if figure["dependent"]
    ]
    seen = [
        f"{name.replace('_', ' ')} {percent_text(figure['detectable_step'])}"
        for name, figure in changes["figures"].items()
        if figure["detectable_step"] is not None
    ]
    runs = f"{counted(len(changes['runs']), 'run')} in order of time"
    incomplete = [f"INCOMPLETE: {name}" for name in changes["incomplete"]]
    smallest = ["", "steps that so many runs show: " + ", ".join(seen)] if seen else []
    return section("CHANGE POINTS", [runs, *(lines or ["none"]), *incomplete, *smallest])


def threshold_text(thresholds: list[dict[str, Any]]) -> str:
    """Return each threshold with its figure, and whether it was breached."""
    lines = [
        f"{one['condition']}: {one['reason'] or checked_text(one)}, "
        f"{state_text(one)} ({one['run']})"
        for one in thresholds
    ]
    return section("THRESHOLDS", [*lines, "", "figures of a run: of the whole run"])


def windows_text(document: dict[str, Any]) -> Iterator[str]:
    """Yield the table of windows, a row at a time: they may be as many as seconds."""
    windows, receiver = document["analysis"]["windows"], document["receiver"]
    if windows is None:
        return
    unit = "ms" if receiver is None else receiver["latency"]["unit"]
    heads = {"rate": "messages/s", "latency_p50": "p50", "latency_p99": "p99"}
    heads = {name: head for name, head in heads.items() if name in windows}
    head = f"{'seconds':>8}" + "".join(f"{head:>14}" for head in heads.values())
    yield section(f"WINDOWS OF {windows['seconds']} s", [head])
    beginning = next(iter(windows["start"]), 0)
    columns = [windows[name] for name in heads]
    for start, *row in zip(windows["start"], *columns, strict=True):
        cells = [
            f"{_window_cell(value, name, unit):>14}" for name, value in zip(heads, row, strict=True)
        ]
        yield f"{start - beginning:>8}" + "".join(cells) + "\n"


def _window_cell(value: float | None, name: str, unit: str) -> str:
    if value is None or name == "rate":
        return _or_dash(value, ",.0f")
    return latency_text(value * PER_SECOND[unit] / PER_SECOND["ms"], unit)


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
