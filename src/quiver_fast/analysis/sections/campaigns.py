"""The answer of a search, a sweep, a set, a churn or a hold: its sentences and its sections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from quiver_fast.analysis.compare.comparison import LEAST_VALUES
from quiver_fast.analysis.figures.steady import STEADY
from quiver_fast.analysis.model.figures import SET_FIGURES, Document
from quiver_fast.analysis.model.ranks import BENCH, BENCH_KEYS, exists, rank_head
from quiver_fast.analysis.model.units import (
    NO_RATE,
    average_text,
    latency_text,
    percent_text,
    seconds_text,
)
from quiver_fast.analysis.read.answer_file import CHURN, HOLD, SEARCH, SET, SWEEP, Answer
from quiver_fast.analysis.read.set_layout import CANDIDATE
from quiver_fast.analysis.sections.headline import environment_facts
from quiver_fast.analysis.sections.rows import TEXT, Grid, Row, Section, number, told
from quiver_fast.analysis.sections.sets import STEADY_OR_WHOLE, interval_text
from quiver_fast.errors import RecordError
from quiver_fast.words import counted

Shown = TypeVar("Shown")

HEADS = [one.head for one in SET_FIGURES.values()]
"""The heads of the figures of a run in tables of several."""

_NOTE = (Row("", "", only=TEXT), Row("", STEADY_OR_WHOLE, only=TEXT))


def answer_sentences(answer: Answer) -> list[str]:
    """Return the answer in words, the most important one first.

    Raises:
        RecordError: the document is damaged.
    """
    return checked(answer, lambda: [*_SENTENCES[answer.kind](answer.document)])


def answer_title(answer: Answer) -> str:
    """Return the title of a page that has this answer alone."""
    sides = answer.document.get("sides") or {}
    target = answer.document.get("target") or sides.get(CANDIDATE) or answer.place.parent
    return f"Quiver: {answer.kind} of {'runs of ' * (answer.kind == SET)}{target}"


def answer_facts(answer: Answer) -> dict[str, str | None]:
    """Return host, processor, versions and command of a measurement without runs."""
    return environment_facts(answer.document.get("environment") or {})


def checked(answer: Answer, work: Callable[[], Shown]) -> Shown:
    """Return the result of ``work`` on an answer; raise a RecordError where that is damaged."""
    try:
        return work()
    except KeyError as error:
        raise RecordError(
            f"{answer.place} is no {answer.kind}: it has no {error.args[0]}"
        ) from None
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
        raise RecordError(f"{answer.place} is no {answer.kind}: a value has a wrong type") from None


def campaign_sections(kind: str, document: Document) -> list[Section]:
    """Return the sections of the answer of a search, a sweep, a set, a churn or a hold.

    A page has their tables; it has sentences in place of the rows.

    Args:
        kind: one of those of :mod:`quiver_fast.analysis.read.answer_file`.
        document: the document of the campaign.
    """
    return told(_CAMPAIGNS[kind](document))


def _target(document: Document) -> str:
    """Return the target of a label such as ``pyfast, //host/q0``."""
    name, comma, url = str(document["target"]).rpartition(", ")
    if url == "peer-to-peer":
        return f"{name} peer to peer"
    return f"{url} (with {name})" if comma else f"The pair {url}"


def _search_sentences(document: Document) -> Iterator[str]:
    found, target = document["found_rate"], _target(document)
    conditions = "".join(f" and {one}" for one in document["conditions"]).removeprefix(" and ")
    within = f" with {conditions}" if conditions else ""
    rate, low, high = found["rate"], found["low"], found["high"]
    if rate is None:
        yield f"No rate was found: {target} sustained none of the tried rates{within}."
    elif high is None:
        yield f"{target} sustained every tried rate, up to {rate:,} messages/s{within}."
    else:
        word = "" if found["confirmed"] else "Unconfirmed: "
        yield f"{word}{target} sustains {rate:,} messages/s{within}."
        yield f"Its limit is between {low:,} and {high:,} messages/s (95 % interval)."
    sides = [found["confirmation"][key] for key in ("at", "above")] if found["confirmation"] else ()
    counts = [f"{one['sustained']} of {counted(one['runs'], 'trial')} at {one['rate']:,}/s"
              for one in sides if one["runs"]]  # fmt: skip
    if counts:
        yield f"Confirmation: {' and '.join(counts)} were sustained."
    if found["reason"]:
        yield f"Reason of the limit: {found['reason']}."
    stalled = found.get("stalled") or {"failed": 0}
    if stalled["failed"]:
        yield f"Below it, {stalled['failed']} of {stalled['runs']} trials failed: not by the rate."
    void = sum(trial_state(trial) == "void" for trial in found["steps"])
    of = f", {void:,} of them void" if void else ""
    yield f"The search made {counted(len(found['steps']), 'trial')}{of}{_ended(document)}."


def _ended(document: Document) -> str:
    return f", and ended early: {document['reason']}" if document["reason"] else ""


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


def _sweep_sentences(document: Document) -> Iterator[str]:
    points = document["points"]
    held = [point for point in points if point["sustained"] and point["figures"]]
    options = " and ".join(document["options"])
    yield (
        f"{_target(document)} was measured at {counted(len(points), 'value')} of {options}: "
        f"{len(held):,} of {len(points):,} loads were sustained."
    )
    if held:
        best = max(held, key=lambda point: float(point["figures"]["message_rate"]))
        figures = best["figures"]
        yield (
            f"The highest sustained rate is {average_text(figures['message_rate'], '/s')}, at "
            f"{_values(best)}, with a median latency of "
            f"{average_text(figures['latency_p50'], 'ms')} and a 99 % latency of "
            f"{average_text(figures['latency_p99'], 'ms')}."
        )
    if document.get("reason"):
        yield f"The sweep ended early: {document['reason']}."


def _values(point: Document) -> str:
    return ", ".join(f"{name}={value}" for name, value in point["values"].items())


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


def _set_sentences(document: Document) -> Iterator[str]:
    for side, summary in document["summary"].items():
        figures, label = summary["figures"], document["sides"][side]
        medians = {name: found["median"] for name, found in figures.items()}
        yield (
            f"Median of {counted(summary['runs'], 'run')} of {label}: "
            f"{average_text(medians['message_rate'], '/s')}, median latency "
            f"{average_text(medians['latency_p50'], 'ms')}, 99 % latency "
            f"{average_text(medians['latency_p99'], 'ms')}."
        )
    done = f"{document['complete_runs']} of {document['asked_runs']} runs are complete"
    yield f"{done}: {document['reason']}." if document["reason"] else f"{done}."


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


def _churn_sentences(document: Document) -> Iterator[str]:
    attempts, unit = document["attempts"], f"{document['of']}s"
    yield (
        f"{document['target']} opened and closed {document['achieved_rate']:,.0f} {unit}/s, of "
        f"{document['rate']:,}/s asked for {document['duration']:,} s."
    )
    if attempts["failed"]:
        most = document["failures"][0]
        yield (
            f"{attempts['failed']:,} of {attempts['due']:,} attempts failed, {most['count']:,} of "
            f"them so: {most['reason']}."
        )
    else:
        yield f"{attempts['succeeded']:,} of {attempts['due']:,} attempts succeeded, none failed."
    if document["latency"]:
        yield f"An attempt took {_took(document['latency'])}."
    server = document["server"]
    if server:
        before, after = (f"{server[key] / 1e6:,.1f} MB" for key in ("memory_begin", "memory_end"))
        went = f"stayed at {after}" if before == after else f"went from {before} to {after}"
        yield f"The server's memory {went}; it used {server['cpu_seconds']:,.2f} s of CPU time."
    if document["reason"]:
        yield f"The churn ended early: {document['reason']}."


def _took(latency: Document) -> str:
    parts = [f"{latency_text(latency['p50_us'], 'us')} in the median"]
    if exists("99", latency["count"]):
        parts.append(f"{latency_text(latency['p99_us'], 'us')} at 99 %")
    return ", ".join([*parts, f"{latency_text(latency['max_us'], 'us')} at most"])


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


def _hold_sentences(document: Document) -> Iterator[str]:
    opening, holding = document["opening"], document["holding"]
    yield (
        f"{document['target']} kept {opening['opened'] - holding['lost']:,} of "
        f"{counted(document['connections'], 'idle connection')} for {holding['seconds']:,.1f} s."
    )
    for count, word, key in (
        (opening["failed"], "not opened", "failures"),
        (holding["lost"], "lost", "losses"),
    ):
        if count:
            most = document[key][0]
            yield f"{count:,} {word}, {most['count']:,} of them so: {most['reason']}."
    server = document["server"]
    if server and server["memory_each"] is not None:
        yield f"Each connection took {server['memory_each'] / 1e3:,.1f} kB of the server's memory."
    each = f"; one took {_took(opening['latency'])}" if opening["latency"] else ""
    yield f"The opening took {seconds_text(opening['seconds'])}{each}."
    if document["reason"]:
        yield f"The hold ended early: {document['reason']}."


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
        "PARTS": _parts(document),
        "FAILURES": _reasons("Failures", document.get("failures") or ()),
        "LOSSES": _reasons("Losses", document.get("losses") or ()),
    }


def _parts(document: Document) -> list[Grid]:
    """Return a line for each kind of part, if there are more than connections."""
    parts = document.get("parts") or ()
    rows = [
        (
            str(one["of"]),
            f"{one['opened']:,}",
            seconds_text(one["seconds"]),
            "-" if one["memory_each"] is None else f"{one['memory_each'] / 1e3:,.2f} kB",
            "-" if one["cpu_each_us"] is None else f"{one['cpu_each_us']:,.1f} us",
        )
        for one in parts
    ]
    heads = ("Part", "Opened", "Opening took", "Server memory each", "Server CPU time each")
    return [Grid("Parts", heads, rows)] if len(rows) > 1 else []


def steps_of(document: Document) -> list[tuple[str, Document]]:
    """Return the latencies of the steps of a churn or a hold that have some."""
    if "opening" in document:
        steps = [("open", document["opening"]["latency"])]
    else:
        steps = [(str(one["step"]), one["latency"]) for one in document["steps"]]
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
_SENTENCES = {
    SEARCH: _search_sentences,
    SWEEP: _sweep_sentences,
    SET: _set_sentences,
    CHURN: _churn_sentences,
    HOLD: _hold_sentences,
}
