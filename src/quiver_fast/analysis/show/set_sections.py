"""The sections of several runs: their table, a comparison, change points, and a campaign's runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quiver_fast.analysis.compare.comparison import LEAST_VALUES, in_words
from quiver_fast.analysis.figures.steady import STEADY
from quiver_fast.analysis.model.figures import SET_FIGURES
from quiver_fast.analysis.model.ranks import BENCH, BENCH_KEYS, FEW, exists, rank_head
from quiver_fast.analysis.model.units import NO_RATE, average_text, latency_text, percent_text
from quiver_fast.analysis.read.answer_file import CHURN, HOLD, SEARCH, SET, SWEEP
from quiver_fast.analysis.read.set_layout import CANDIDATE
from quiver_fast.analysis.show.headline import run_rate, run_state
from quiver_fast.analysis.show.run_sections import cell_text, few_latencies
from quiver_fast.analysis.show.sections import TEXT, Grid, Row, Section, number, told
from quiver_fast.words import counted

Document = Mapping[str, Any]

STEADY_OR_WHOLE = "of the steady states, or of the whole run where there is none"
HEADS = [one.head for one in SET_FIGURES.values()]
"""The heads of the figures of a run in tables of several."""
_NOTE = (Row("", "", only=TEXT), Row("", STEADY_OR_WHOLE, only=TEXT))


def overview(documents: Sequence[Document]) -> Grid:
    """Return a table with a line for each run."""
    heads = ("Run", "Messages/s", *map(rank_head, FEW), "Unreceived", "State")
    rows = [
        (
            str(one["name"]),
            average_text(run_rate(one), "/s").removesuffix("/s"),
            *few_latencies((one["receiver"] or {}).get("latency")),
            cell_text((one["delivery"] or {}).get("unreceived")),
            run_state(one),
        )
        for one in documents
    ]
    return Grid("Runs", heads, rows)


def comparison_section(comparison: Document) -> Section:
    """Return the verdict on a candidate against its base, figure by figure."""
    heads = ("figure", "base", "candidate", "change", "95 % interval of the difference", "p",
             "effect", "raw base", "raw candidate", "verdict")  # fmt: skip
    figures = comparison["figures"]
    rows = [_compared(name, figure) for name, figure in figures.items()]
    return Section("COMPARISON", [
        Grid("Comparison", heads, rows),
        Row("", f"base, candidate: medians {STEADY_OR_WHOLE}; raw: of the whole runs"),
        Row("", "change: the median of the differences of all pairs of runs; intervals, p: for all "
                "figures at once"),
        *_reach(figures),
        *(Row("", f"INCOMPLETE: {name}", only=TEXT) for name in comparison["incomplete"]),
        *(Row("", f"NOT STEADY: {name}, by the whole run", only=TEXT)
          for name in comparison["not_steady"]),
        Row("", "", only=TEXT),
        Row("Verdict", comparison["verdict"], only=TEXT),
        Row("", in_words(comparison), only=TEXT),
    ])  # fmt: skip


def _compared(name: str, figure: Document) -> list[str]:
    unit = figure["unit"]
    return [
        _words(name),
        average_text(figure["base"], unit),
        average_text(figure["candidate"], unit),
        cell_text(figure["change"], "+.1%"),
        interval_text(figure["interval"], unit),
        cell_text(figure["adjusted_p_value"], ".2g"),
        cell_text(figure["effect"], "+.2f"),
        average_text(figure["raw_base"], unit),
        average_text(figure["raw_candidate"], unit),
        figure["verdict"],
    ]


def _words(name: str) -> str:
    return name.replace("_", " ")


def interval_text(bounds: Sequence[float] | None, unit: str) -> str:
    """Return an interval as ``1.00 ms to 2.00 ms``."""
    return " to ".join(average_text(bound, unit) for bound in bounds or ()) or "-"


def _reach(figures: Mapping[str, Document]) -> Iterator[Row]:
    """Yield from which change on so many runs show it, and how many would show this one."""
    lines = []
    for name, figure in figures.items():
        if figure["shown_from"] is None:
            continue
        line = f"{_words(name)}: so many runs show {figure['shown_from']:.0%}"
        if figure["runs_to_show"] is not None:
            line += f", about {figure['runs_to_show']:,} of each show {figure['change']:+.1%}"
        lines.append(line)
    heading = ["not shown (to show a change: in 90 of 100 sets):"] if lines else []
    yield from (Row("", line) for line in [*heading, *lines])


def change_section(changes: Document) -> Section:
    """Return where a series of runs changed its level."""
    figures, heads = changes["figures"], ("figure", "from run", "before", "after")
    steps = [
        [_words(name), one["run"], *(average_text(one[key], figure["unit"]) for key in heads[2:])]
        for name, figure in figures.items()
        for one in figure["change_points"]
    ]
    found = Grid("Change points", heads, steps) if steps else Row("", "none")
    dependent = [
        f"{_words(name)}: neighbouring runs depend on each other "
        f"(autocorrelation {figure['autocorrelation']:.2f}); a step is not told from a drift"
        for name, figure in figures.items()
        if figure["dependent"]
    ]
    seen = [
        (_words(name), percent_text(figure["detectable_step"]))
        for name, figure in figures.items()
        if figure["detectable_step"] is not None
    ]
    grid = Grid("Steps that so many runs show", ("figure", "step that so many runs show"), seen)
    return Section("CHANGE POINTS", [
        Row("", f"{counted(len(changes['runs']), 'run')} in order of time", only=TEXT),
        found,
        *(Row("", line) for line in dependent),
        *(Row("", f"INCOMPLETE: {name}") for name in changes["incomplete"]),
        *([grid] if seen else []),
    ])  # fmt: skip


def campaign_sections(kind: str, document: Document) -> list[Section]:
    """Return the sections of the answer of a search, a sweep, a set, a churn or a hold.

    A page has their tables; it has sentences in place of the rows.

    Args:
        kind: one of those of :mod:`quiver_fast.analysis.read.answer_file`.
        document: the document of the campaign.
    """
    return told(_CAMPAIGNS[kind](document))


def _search(document: Document) -> dict[str, Any]:
    found = document["found_rate"]
    unconfirmed = " (unconfirmed)" if found["rate"] and not found["confirmed"] else ""
    stalled = found.get("stalled") or {"failed": 0}
    below = f"{stalled['failed']} of {stalled.get('runs')} trials below failed: not by the rate"
    rows = {
        "Sustained": f"{_rate(found['rate'])}{unconfirmed}",
        "Interval, 95 %": f"{_rate(found['low'])} to {_rate(found['high'])}",
        "Target": document["target"],
        "Conditions": ", ".join(document["conditions"]),
        "Just above": found["reason"] or "-",
        "Confirmation": _confirmation(found["confirmation"], document["reason"]),
        "Stalled": below if stalled["failed"] else None,
        "Output files": document.get("output_dir"),
    }
    return {"FOUND RATE": _rows(rows), "TRIALS": [_trials(found["steps"]), *_NOTE]}


def _rows(rows: Mapping[str, str | None]) -> list[Row]:
    return [Row(name, value, only=TEXT) for name, value in rows.items() if value is not None]


def _rate(rate: int | None) -> str:
    return "-" if rate is None else f"{rate:,}/s"


def _confirmation(found: Document | None, reason: str | None) -> str:
    """Say how many of the runs at the answer, and just above it, were sustained."""
    if found is None:
        return "none: the search failed" if reason else "none: there was no time"
    sides = (found["at"], found["above"])
    return ", ".join(
        f"{side['sustained']} of {side['runs']} at {_rate(side['rate'])}"
        for side in sides if side["runs"]
    )  # fmt: skip


def _trials(steps: Sequence[Document]) -> Grid:
    """Return a line for each trial, in the order of measuring."""
    rows = [[one["name"], _rate(one["rate"]), *_measured(one)] for one in steps]
    return Grid("Trials", ("Trial", "Target rate", *HEADS, "State", "Reason"), rows)


def _measured(trial: Document) -> list[str]:
    figures = trial["figures"] or {}
    return [*_figures(figures), trial_state(trial), trial.get("reason") or ""]


def _figures(figures: Mapping[str, float]) -> list[str]:
    return [average_text(figures.get(name), one.unit) for name, one in SET_FIGURES.items()]


def trial_state(trial: Document) -> str:
    """Return the state of a trial or a point in a word or two."""
    if trial.get("void") or trial["sustained"] is None:
        return "void"
    return "sustained" if trial["sustained"] else "not sustained"


def _sweep(document: Document) -> dict[str, Any]:
    options = document["options"]
    rows = {
        "Target": document["target"],
        "Options": ", ".join(options),
        "Output files": document.get("output_dir"),
    }
    heads = ("Point", *(f"--{one}" for one in options), *HEADS, "State", "Reason")
    cells = [
        [one.get("name") or "-", *(one["values"][option] for option in options), *_measured(one)]
        for one in document["points"]
    ]
    return {"SWEEP": _rows(rows), "POINTS": [Grid("Points", heads, cells), *_NOTE]}


def _set(document: Document) -> dict[str, Any]:
    done = f"{document['complete_runs']} of {document['asked_runs']} complete"
    labels = {side.capitalize(): label for side, label in document["sides"].items()}
    order = document.get("order") or ()
    runs = [[one["name"], *_figures(one["figures"] or {}), _remarks(one)] for one in order]
    sections: dict[str, Any] = {
        "INCOMPLETE": () if document.get("complete", True) else _missing(document, done),
        "SET": _rows(labels | {"Runs": done, "Output files": document.get("output_dir")}),
        "RUNS": [Grid("Runs", ("Run", *HEADS, "State"), runs, TEXT), *_NOTE],
    }
    for side, summary in document["summary"].items():
        title = counted(summary["runs"], "run").upper()
        several = len(document["summary"]) > 1 or side != CANDIDATE
        title = f"{side.upper()}: {title}" if several else title
        sections[title] = _medians(side, summary) if summary["runs"] else ()
    return sections


def _missing(document: Document, done: str) -> list[Row]:
    asked = counted(document["asked_runs"], "run", ("is", "are"))
    done = f"{document['complete_runs']} of {asked} complete"
    reasons = [f"{run['name']}: {run['reason']}" for run in document["order"] if run["reason"]]
    return [Row("", line, only=TEXT) for line in (done, *reasons)]


def _remarks(run: Document) -> str:
    remarks = [] if run["complete"] else ["INCOMPLETE"]
    if run["figures"] is not None and "message_rate" not in run["figures"]:
        remarks.append(NO_RATE)
    if run["verdict"] not in (None, STEADY):
        remarks.append(f"whole run: {run['verdict']}")
    return "  ".join(remarks)


def _medians(side: str, summary: Document) -> Iterator[Row | Grid]:
    """Yield the medians of one side of a set, each with its interval."""
    rows = [
        (SET_FIGURES[name].head, average_text(one["median"], one["unit"]),
         interval_text(one["interval"], one["unit"]))
        for name, one in summary["figures"].items()
    ]  # fmt: skip
    heads = ("Figure", "Median of the runs", "95 % interval")
    yield Grid(f"Medians of the {side}", heads, rows)
    if summary["runs"] < LEAST_VALUES:
        yield Row("", f"too few runs for an interval: at least {LEAST_VALUES}", only=TEXT)


def _churn(document: Document) -> dict[str, Any]:
    attempts, unit = document["attempts"], f"{document['of']}s"
    server = document["server"]
    rows = [
        Row("Target", document["target"]),
        number("Target rate", document["rate"], f"{unit}/s"),
        number("Achieved rate", document["achieved_rate"], f"{unit}/s"),
        *(number(name.capitalize(), count, unit) for name, count in attempts.items()),
    ]
    if server:
        megabytes = [server[key] / 1e6 for key in ("memory_begin", "memory_end")]
        rows += [
            number("Server memory before", megabytes[0], "MB", None, ",.1f"),
            number("Server memory after", megabytes[1], "MB", None, ",.1f"),
            number("Server CPU time", server["cpu_seconds"], "seconds", None, ",.2f"),
        ]
    note = "Of attempts that succeeded; 'all' from when each was due to its end"
    return {
        "CHURN": _with_files(rows, document),
        "STEPS": [*_steps(document), Row("", note, only=TEXT)] if document["latency"] else (),
        "FAILURES": _reasons("Failures", document.get("failures") or ()),
    }


def _with_files(rows: Sequence[Row], document: Document) -> list[Row]:
    files = document.get("output_dir")
    shown = [*rows, *([Row("Output files", files)] if files else [])]
    return [row._replace(only=TEXT) for row in shown]


def _hold(document: Document) -> dict[str, Any]:
    opening, holding = document["opening"], document["holding"]
    rows = [
        Row("Target", document["target"]),
        number("Opened", opening["opened"], "connections"),
        number("Not opened", opening["failed"], "connections"),
        number("Opening took", opening["seconds"], "seconds", None, ",.2f"),
        number("Held for", holding["seconds"], "seconds", None, ",.1f"),
        number("Lost", holding["lost"], "connections"),
    ]
    note = "Resident memory; CPU time to open a connection, CPU to hold them all"
    return {
        "HOLD": _with_files(rows, document),
        "OPENING": _steps(document),
        "COST": [_cost(document), Row("", note, only=TEXT)],
        "FAILURES": _reasons("Failures", document.get("failures") or ()),
        "LOSSES": _reasons("Losses", document.get("losses") or ()),
    }


def steps_of(document: Document) -> list[tuple[str, Document]]:
    """Return the latencies of the steps of a churn or a hold that have some."""
    if "opening" in document:
        steps = [("open", document["opening"]["latency"])]
    else:
        steps = [(one["step"], one["latency"]) for one in document["steps"]]
        steps.append(("all", document["latency"]))
    return [(name, latency) for name, latency in steps if latency]


def _steps(document: Document) -> list[Grid]:
    """Return a line for each step, and one for all of them together."""
    rows = [
        [name, *(latency_text(latency[key], "us") if exists(f"{rank:g}", latency["count"]) else "-"
                 for key, rank in BENCH_KEYS.items())]
        for name, latency in steps_of(document)
    ]  # fmt: skip
    heads = ("Step", *map(rank_head, BENCH))
    return [Grid("Steps", heads, rows)] if rows else []


def _cost(document: Document) -> Grid:
    """Return a line for each process: its memory, and its CPU time for each connection."""
    opened, seconds = document["opening"]["opened"], document["holding"]["seconds"]
    rows = [
        (
            name,
            f"{cost['memory_begin'] / 1e6:,.1f} MB",
            f"{cost['memory_end'] / 1e6:,.1f} MB",
            "-" if cost["memory_each"] is None else f"{cost['memory_each'] / 1e3:,.1f} kB",
            f"{cost['cpu_opening'] / opened * 1e6:,.0f} us" if opened else "-",
            percent_text(cost["cpu_holding"] / seconds) if seconds else "-",
        )
        for key, name in (("server", "server"), ("own", "quiver"))
        if (cost := document[key])
    ]
    heads = ("Process", "Memory before", "Memory held", "Memory of each", "CPU time to open each",
             "CPU to hold")  # fmt: skip
    return Grid("Cost", heads, rows)


def _reasons(title: str, found: Sequence[Document]) -> list[Grid]:
    rows = [(f"{one['count']:,}", one["reason"]) for one in found]
    return [Grid(title, ("Count", "Reason"), rows)] if rows else []


_CAMPAIGNS = {SEARCH: _search, SWEEP: _sweep, SET: _set, CHURN: _churn, HOLD: _hold}
