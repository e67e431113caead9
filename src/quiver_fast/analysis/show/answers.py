"""The answer of a search, a sweep, a set, a churn or a hold: sentences, its curve, its trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from quiver_fast.analysis.model.ranks import BENCH_KEYS, exists
from quiver_fast.analysis.model.units import average_text, latency_text, seconds_text
from quiver_fast.analysis.read.answer_file import CHURN, HOLD, SEARCH, SET, SWEEP, Answer
from quiver_fast.analysis.read.set_layout import CANDIDATE
from quiver_fast.analysis.read.sweep_file import SweptPoint, SweptValues
from quiver_fast.analysis.show.chart import Chart, percentile_chart
from quiver_fast.analysis.show.headline import environment_facts
from quiver_fast.analysis.show.html import escape, html_grid
from quiver_fast.analysis.show.scales import (
    Scale,
    count_scale,
)
from quiver_fast.analysis.show.sections import PAGE, Grid
from quiver_fast.analysis.show.set_charts import sweep_charts
from quiver_fast.analysis.show.set_sections import (
    campaign_sections,
    steps_of,
    trial_state,
)
from quiver_fast.errors import RecordError
from quiver_fast.words import counted

Document = Mapping[str, Any]
Shown = TypeVar("Shown")
Links = Mapping[str, int]
"""The number of the section of each run on the page, by the run's directory."""


def answer_sentences(answer: Answer) -> list[str]:
    """Return the answer in words, the most important one first.

    Raises:
        RecordError: the document is damaged.
    """
    return _checked(answer, lambda: [*_SENTENCES[answer.kind](answer.document)])


def answer_title(answer: Answer) -> str:
    """Return the title of a page that has this answer alone."""
    sides = answer.document.get("sides") or {}
    target = answer.document.get("target") or sides.get(CANDIDATE) or answer.place.parent
    return f"Quiver: {answer.kind} of {'runs of ' * (answer.kind == SET)}{target}"


def answer_facts(answer: Answer) -> dict[str, str | None]:
    """Return host, processor, versions and command of a measurement without runs."""
    return environment_facts(answer.document.get("environment") or {})


def answer_charts(answer: Answer) -> list[Chart]:
    """Return the curve of an answer.

    Raises:
        RecordError: the document is damaged.
    """
    charts = _CHARTS.get(answer.kind)
    return [] if charts is None else _checked(answer, lambda: charts(answer))


def answer_tables(answer: Answer, links: Links) -> str:
    """Return as HTML the trials, points or steps of an answer.

    Raises:
        RecordError: the document is damaged.
    """
    return _checked(answer, lambda: _tables(answer, links))


def _checked(answer: Answer, work: Callable[[], Shown]) -> Shown:
    try:
        return work()
    except KeyError as error:
        raise RecordError(
            f"{answer.place} is no {answer.kind}: it has no {error.args[0]}"
        ) from None
    except (TypeError, ValueError, AttributeError):
        raise RecordError(f"{answer.place} is no {answer.kind}: a value has a wrong type") from None


def _target(document: Document) -> str:
    """Return the target of a label such as ``pyfast, //host/q0``."""
    name, comma, url = str(document["target"]).rpartition(", ")
    if url == "peer-to-peer":
        return f"{name} peer to peer"
    return f"{url} (with {name})" if comma else f"The pair {url}"


def _search(document: Document) -> Iterator[str]:
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


def _sweep(document: Document) -> Iterator[str]:
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


def _set(document: Document) -> Iterator[str]:
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


def _churn(document: Document) -> Iterator[str]:
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


def _hold(document: Document) -> Iterator[str]:
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


def _values(point: Document) -> str:
    return ", ".join(f"{name}={value}" for name, value in point["values"].items())


def _rate_charts(answer: Answer) -> list[Chart]:
    """Return the curve of latency over throughput, whose points stand in the order of rates."""
    trials = sorted(answer.document["found_rate"]["steps"], key=lambda trial: int(trial["rate"]))
    points = tuple(
        SweptPoint({"rate": f"{trial['rate']:,}/s"}, bool(trial["sustained"]), trial["figures"])
        for trial in trials
    )
    swept = SweptValues("", answer.document["target"], ("rate",), points)
    charts = sweep_charts([swept], through_all=False)
    return [*charts, _in_order(answer.document["found_rate"])] if trials else charts


def _in_order(found: Document) -> Chart:
    """Return the rate of each trial, in the order of measuring."""
    trials = found["steps"]
    names = [f"{trial['name']}, {trial['rate']:,}/s: {trial_state(trial)}" for trial in trials]
    rates = [float(trial["rate"]) for trial in trials]
    step = max(-(-len(trials) // 6), 1)
    marks = tuple((float(n), str(n)) for n in range(1, len(trials) + 1, step))
    chart = Chart(
        "trials",
        "Rate of each trial",
        Scale("trial, in order of time", 0.5, len(trials) + 0.5, marks),
        count_scale("messages/s", max(rates)),
        "A hollow dot is a trial that was not sustained; the line is the answer.",
    )
    if found["rate"] is not None:
        chart.line([0.5, len(trials) + 0.5], [found["rate"]] * 2, 7, "answer", dashed=True)
    for number, (trial, rate, name) in enumerate(zip(trials, rates, names, strict=True), start=1):
        chart.dots([number], [rate], 0, None, [name], hollow=trial_state(trial) != "sustained")
    return chart


def _step_charts(answer: Answer) -> list[Chart]:
    """Return the latencies by percentile: a curve for each step."""
    curves = {
        name: (
            int(latency["count"]),
            {float(rank): latency[key] / 1000 for key, rank in BENCH_KEYS.items()},
        )
        for name, latency in steps_of(answer.document)
    }
    note = "Lines lead from one percentile to the next; the last one is the maximum."
    return [percentile_chart("steps", "Latency by percentile", curves, note)] if curves else []


def _tables(answer: Answer, links: Links) -> str:
    shown = ""
    for section in campaign_sections(answer.kind, answer.document):
        for grid in section.of(PAGE):
            if isinstance(grid, Grid):
                rows = [
                    [_linked(answer, name, links), *cells, escape(last)]
                    for name, *cells, last in grid.rows
                ]
                table = html_grid(grid.heads, rows, grid.name, markup=True)
                shown += f"<h2>{escape(grid.name)}</h2>{table}"
    return shown


def _linked(answer: Answer, name: str, links: Links) -> str:
    """Return a name that leads to the run's section, where the page has one."""
    number = links.get(str(answer.place.parent / name))
    text = escape(name)
    return text if number is None else f'<a href="#run-{number}">{text}</a>'


_SENTENCES = {SEARCH: _search, SWEEP: _sweep, SET: _set, CHURN: _churn, HOLD: _hold}
# The report draws all sweeps in one chart.
_CHARTS = {SEARCH: _rate_charts, CHURN: _step_charts, HOLD: _step_charts}
