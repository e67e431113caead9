"""The HTML report: one file that needs no network and runs no script.

The load, the few figures and the verdict come first, then charts, then tables. Charts
are inline SVG of our own; the page's Content-Security-Policy forbids the browser to load anything.
docs/analysis.md defines each label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from quiver_fast.analysis.compare.comparison import in_words
from quiver_fast.analysis.figures.each_end import shown_of_each
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.statistics import arrivals
from quiver_fast.analysis.model.figures import Document
from quiver_fast.analysis.read.answer_file import Answer, any_compares
from quiver_fast.analysis.read.summary_file import workload_beside
from quiver_fast.analysis.read.sweep_file import SweptValues
from quiver_fast.analysis.sections.campaigns import answer_facts, answer_sentences, answer_title
from quiver_fast.analysis.sections.ends import end_sections
from quiver_fast.analysis.sections.findings import findings
from quiver_fast.analysis.sections.headline import (
    environment_facts,
    run_brief,
    run_facts,
    run_sentences,
    run_tiles,
    run_verdict,
)
from quiver_fast.analysis.sections.rows import PAGE, Row, Section, share_text
from quiver_fast.analysis.sections.run import faults_of, run_sections
from quiver_fast.analysis.sections.sets import (
    change_section,
    comparison_section,
    overview,
)
from quiver_fast.analysis.sections.verdicts import verdict_section
from quiver_fast.analysis.show.answers import answer_charts, answer_tables
from quiver_fast.analysis.show.chart import Chart, sparkline
from quiver_fast.analysis.show.html import (
    Rows,
    escape,
    html_bars,
    html_columns,
    html_details,
    html_facts,
    html_grid,
    html_page,
    html_section,
    html_sentences,
    html_state,
    html_tiles,
    html_verdict,
)
from quiver_fast.analysis.show.run_charts import run_charts
from quiver_fast.analysis.show.set_charts import (
    change_intervals,
    comparison_charts,
    run_dots,
    series_charts,
    sweep_charts,
)
from quiver_fast.options.arrow import ARROW_OPTIONS
from quiver_fast.words import counted

ReportPart = tuple[Mapping[str, Any], RunData]
"""The document of a run, and the run as a backend returned it."""

Facts = dict[str, str | None]

# They stand before the folded ones.
_ABOVE = ("FAIRNESS", "ENDS", "QUEUES", "FAULTS")
_OPTIONS = {one.name: one for one in ARROW_OPTIONS if one.flag and not one.inverted}
_UNITS = {"SECONDS": " s", "BYTES": " B", "MESSAGES": " messages", "PER-SECOND": " messages/s"}


def html_report(
    parts: Sequence[ReportPart],
    document: Mapping[str, Any],
    base: Sequence[RunData] = (),
    sweeps: Sequence[SweptValues] = (),
    answers: Sequence[Answer] = (),
) -> str:
    """Return the report as one HTML document.

    Every chart is a ``figure`` element; its id is the chart's name, in runs after ``run-N-``.

    Args:
        parts: one for each run.
        document: the whole document, for ``comparison``, ``change_points``, ``thresholds``
            and ``analysed_with``.
        base: the runs that these are compared with.
        sweeps: those that the runs are points of.
        answers: those that the runs are trials, points or members of.

    Raises:
        RecordError: an answer, or a file of snapshots beside records, is damaged.
        OSError: it cannot be read.
    """
    title = _title(parts, document, answers)
    lead = _lead(parts, document, base, answers)
    body = [f"<header><h1>{escape(title)}</h1>{lead}</header>", _answers(answers, parts, sweeps)]
    body.append(_comparison(document["comparison"]))
    if base:
        body.append(_charts(comparison_charts(base, [run for _, run in parts])))
    body += [_thresholds(document["thresholds"]), _changes(document["change_points"])]
    if len(parts) > 1 and not any_compares(answers):
        body.append("<h2>Runs</h2>" + _overview(parts))
    for number, (one, run) in enumerate(parts, start=1):
        body.append(_run(number, one, run, folded=len(parts) > 1))
    analysed = environment_facts(document["analysed_with"])
    if not all(_made_with(analysed, run_facts(run)) for run, _ in parts):
        body.append(html_details("Analysed with", html_facts(analysed)))
    return html_page(title, "\n".join(part for part in body if part))


def _title(
    parts: Sequence[ReportPart], document: Mapping[str, Any], answers: Sequence[Answer]
) -> str:
    if document["comparison"] is not None:
        return "Quiver: comparison of runs"
    if len(answers) == 1:
        return answer_title(answers[0])
    if len(parts) > 1:
        return f"Quiver: {counted(len(parts), 'run')}"
    target = run_facts(parts[0][0]).get("Target") if parts else None
    return (
        f"Quiver: {target or (parts[0][0]['name'] if parts else counted(len(answers), 'answer'))}"
    )


def _lead(
    parts: Sequence[ReportPart],
    document: Mapping[str, Any],
    base: Sequence[RunData],
    answers: Sequence[Answer],
) -> str:
    """Return the verdicts, and the load of several runs; a single run shows its load itself."""
    words = []
    if document["comparison"] is not None:
        verdict = html_verdict(document["comparison"]["verdict"])
        words.append(f'<p class="verdict">The candidate, against the base: {verdict}</p>')
        words.append(f"<p>{escape(in_words(document['comparison']))}</p>")
    words += [html_sentences(answer_sentences(one)) for one in answers if not base]
    broken = dict.fromkeys(one["condition"] for one in document["thresholds"] if one["breached"])
    if broken:
        words.append(html_state(f"Thresholds breached: {', '.join(broken)}", bad=True))
    bad = sum(one["complete"] is False for one, _ in parts)
    if len(parts) > 1 and (bad or not answers):
        state = f"{bad} of {len(parts)} runs {'is' if bad == 1 else 'are'} incomplete"
        words.append(html_state(state if bad else "No run is incomplete", bool(bad)))
    if base:
        words.append(sides_section(base, [run for _, run in parts]))
    elif len(parts) > 1:
        facts = run_facts(parts[0][0])
        # Their loads differ, and the table has them.
        words.append(html_facts(facts | {"Load": None} if any_compares(answers) else facts))
    elif not parts:
        words += [html_facts(answer_facts(one)) for one in answers]
    return "".join(words)


def _answers(
    answers: Sequence[Answer], parts: Sequence[ReportPart], sweeps: Sequence[SweptValues]
) -> str:
    """Return the curves of answers, and their trials, points or steps."""
    links = {str(run["name"]): number for number, (run, _) in enumerate(parts, start=1)}
    charts = sweep_charts(sweeps)
    charts += [chart for one in answers for chart in answer_charts(one)]
    return _charts(charts) + "".join(answer_tables(one, links) for one in answers)


def _made_with(analysed: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Say whether the run was made where it is analysed."""
    return all(facts.get(name) == value for name, value in analysed.items() if name != "Command")


def _charts(charts: Sequence[Chart]) -> str:
    return f'<div class="charts">{_html(charts)}</div>' if charts else ""


def _html(charts: Sequence[Chart]) -> str:
    return "".join(chart.html() for chart in charts)


def _comparison(comparison: Mapping[str, Any] | None) -> str:
    if comparison is None:
        return ""
    # The top of the page names the runs of each side.
    keys = {"Incomplete runs": "incomplete", "Unsteady runs": "not_steady"}
    names: Rows = {
        name: ", ".join(comparison[key]) for name, key in keys.items() if comparison[key]
    }
    return (
        f"<h2>Comparison: {html_verdict(comparison['verdict'])}</h2>"
        + html_columns({"Runs": names})
        + f'<div class="small-charts">{_html(run_dots(comparison))}</div>'
        + _html(change_intervals(comparison))
        + html_section(comparison_section(comparison))
    )


def _changes(changes: Mapping[str, Any] | None) -> str:
    if changes is None:
        return ""
    title = f"<h2>Change points over {counted(len(changes['runs']), 'run')}</h2>"
    return title + html_section(change_section(changes)) + _charts(series_charts(changes))


def _overview(parts: Sequence[ReportPart]) -> str:
    """Return a line and a small chart for each run; its name leads to its section."""
    grid = overview([run for run, _ in parts])
    rows = [
        [f'<a href="#run-{number}">{escape(name)}</a>', *cells,
         sparkline(arrivals(data).rates, f"Throughput of {name} over time")]
        for number, ((name, *cells), (_, data)) in enumerate(zip(grid.rows, parts, strict=True), 1)
    ]  # fmt: skip
    return html_grid((*grid.heads, "Over time"), rows, grid.name, markup=True)


def _thresholds(thresholds: Sequence[Mapping[str, Any]]) -> str:
    if not thresholds:
        return ""
    return f"<h2>Thresholds</h2>{html_section(verdict_section(thresholds))}"


def _run(number: int, run: Mapping[str, Any], data: RunData, *, folded: bool) -> str:
    """Return the section of a run: what was measured and what it means, charts, and details."""
    name = str(run["name"])
    bad, words = run_verdict(run)
    blocks = [html_sentences(run_sentences(run)), html_state(words, bad)]
    blocks.append(html_tiles(run_tiles(run)))
    facts = run_facts(run) if folded else {"Run": name, **run_facts(run)}
    blocks += [html_facts(facts), ends_section(run)]
    blocks.append(html_section(Section("FAULTS", [*faults_of(run)])))
    blocks.append(_charts(run_charts(data, run["analysis"], f"run-{number}-")))
    blocks.append(run_details(run))
    # A link opens the folded part that its target is in.
    section = f'<section class="run" id="run-{number}">' + "\n".join(blocks) + "</section>"
    return html_details(f"Run {name}: {run_brief(run)}", section) if folded else section


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


def run_details(run: Document) -> str:
    """Return as HTML all figures of a run, its options and its environment.

    Args:
        run: the document of the run.
    """
    sections = [one for one in (*run_sections(run), *findings(run)) if one.title not in _ABOVE]
    tables: dict[str, Rows] = {
        one.title.capitalize(): {
            row.name: f"{row.value} {row.unit}".strip()
            for row in one.of(PAGE)
            if isinstance(row, Row) and row.name and row.value != "-"
        }
        for one in sections
    }
    others = "".join(html_section(one, titled=True) for one in sections)
    around = html_columns({"Options": _options(run)} | _environments(run))
    return html_details("All figures", html_columns(tables) + others) + html_details(
        "Options and environment", around
    )


def ends_section(run: Document) -> str:
    """Return as HTML each end's share, and how fair the shares are; empty for a run of one pair.

    Args:
        run: the document of the run.
    """
    ends = run.get("ends")
    if not ends:
        return ""
    sections = {one.title: one for one in end_sections(run)}
    fairness = sections["FAIRNESS"].of(PAGE) if "FAIRNESS" in sections else ()
    bars = []
    for role in ("sender", "receiver"):
        rows, _ = shown_of_each(ends, role)
        total = sum(end["results"]["message_count"] for end in ends if end["role"] == role)
        if total:
            counts = [(row["name"], row["message_count"]) for row in rows]
            shares = [(name, count, share_text(count / total)) for name, count in counts]
            bars.append(html_bars(f"{role.capitalize()}s: shares of the messages", shares))
    queues = html_section(sections["QUEUES"]) if "QUEUES" in sections else ""
    facts = html_facts({row.name: row.value for row in fairness if isinstance(row, Row)})
    return (
        f"<h2>Ends</h2>{facts}<div class='charts'>{''.join(bars)}</div>"
        f"{html_section(sections['ENDS'])}{queues}"
    )


def _options(run: Document) -> Rows:
    """Return the options of the ends: once where both have the same value."""
    rows: Rows = {}
    ends = {role: (run[role] or {}).get("config") or {} for role in ("sender", "receiver")}
    for name, option in _OPTIONS.items():
        values = {role: _shown(config.get(name), _UNITS.get(option.unit, ""))
                  for role, config in ends.items() if config}  # fmt: skip
        if len({*values.values()}) == 1:
            rows[option.flag] = next(iter(values.values()))
        else:
            rows |= {f"{option.flag} of the {role}": value for role, value in values.items()}
    return rows


def _shown(value: Any, unit: str) -> str | None:
    """Return the value of an option; None for one that is off or empty."""
    if value is True:
        return "on"
    if isinstance(value, int | float) and value:
        return f"{value:,}{unit}"
    return str(value) if value else None


def _environments(run: Document) -> dict[str, Rows]:
    """Return the environment of the ends: once where both have the same."""
    found = dict(_environment(run))
    if len(found) > 1 and len({str(rows) for rows in found.values()}) == 1:
        return {"Environment": next(iter(found.values()))}
    return {f"Environment of the {role}": rows for role, rows in found.items()}


def _environment(run: Document) -> Iterator[tuple[str, Rows]]:
    for role in ("sender", "receiver"):
        environment = (run[role] or {}).get("environment")
        if environment:
            yield role, environment_facts(environment)
