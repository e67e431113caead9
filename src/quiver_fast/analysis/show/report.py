"""The HTML report: one file that needs no network and runs no script.

The load, the few figures and the verdict come first, then charts, then tables. Charts
are inline SVG of our own; the page's Content-Security-Policy forbids the browser to load anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from quiver_fast.analysis.compare.comparison import in_words
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.schedule import LATE_BY
from quiver_fast.analysis.model.ranks import NAMES
from quiver_fast.analysis.model.units import (
    average_text,
    checked_text,
    fine_text,
    latency_text,
    mean_text,
    three_digits,
)
from quiver_fast.analysis.read.sweep_file import SweptValues
from quiver_fast.analysis.show.chart import Chart
from quiver_fast.analysis.show.ends import ends_section
from quiver_fast.analysis.show.headline import run_facts, run_tiles, run_verdict
from quiver_fast.analysis.show.html import (
    escape,
    html_cell,
    html_facts,
    html_grid,
    html_page,
    html_tiles,
    html_verdict,
)
from quiver_fast.analysis.show.overview import overview
from quiver_fast.analysis.show.run_charts import run_charts
from quiver_fast.analysis.show.set_charts import (
    change_intervals,
    comparison_charts,
    run_dots,
    series_charts,
    sweep_charts,
)
from quiver_fast.analysis.show.sides import sides_section
from quiver_fast.words import counted

ReportPart = tuple[Mapping[str, Any], RunData]
"""The document of a run, and the run as a backend returned it."""

# Numbers from here on are shown without decimals.
_WHOLE = 100


def html_report(
    parts: Sequence[ReportPart],
    document: Mapping[str, Any],
    base: Sequence[RunData] = (),
    sweeps: Sequence[SweptValues] = (),
) -> str:
    """Return the report as one HTML document.

    Every chart is a ``figure`` element; its id is the chart's name, in runs after ``run-N-``.

    Args:
        parts: one for each run.
        document: the whole document, for ``comparison``, ``change_points``, ``thresholds``
            and ``analysed_with``.
        base: the runs that these are compared with.
        sweeps: those that the runs are points of.

    Raises:
        RecordError: a file of snapshots beside records is damaged.
        OSError: it cannot be read.
    """
    title = _title(parts, document)
    body = [f"<header><h1>{escape(title)}</h1>{_lead(parts, document, base)}</header>"]
    body += [_charts(sweep_charts(sweeps)), _comparison(document["comparison"])]
    if base:
        body.append(_charts(comparison_charts(base, [run for _, run in parts])))
    body += [_thresholds(document["thresholds"]), _changes(document["change_points"])]
    if len(parts) > 1:
        body.append("<h2>Runs</h2>" + overview(parts))
    for number, (one, run) in enumerate(parts, start=1):
        body.append(_run(number, one, run))
    body.append("<h2>Analysed with</h2>" + _narrow(_table(document["analysed_with"])))
    return html_page(title, "\n".join(part for part in body if part))


def _title(parts: Sequence[ReportPart], document: Mapping[str, Any]) -> str:
    if document["comparison"] is not None:
        return "Quiver: comparison of runs"
    if len(parts) > 1:
        return f"Quiver: {len(parts)} runs"
    target = run_facts(parts[0][0]).get("Target")
    return f"Quiver: {target or parts[0][0]['name']}"


def _lead(parts: Sequence[ReportPart], document: Mapping[str, Any], base: Sequence[RunData]) -> str:
    """Return the verdicts, and the load of several runs; a single run shows its load itself."""
    words = []
    if document["comparison"] is not None:
        verdict = html_verdict(document["comparison"]["verdict"])
        words.append(f'<p class="verdict">The candidate, against the base: {verdict}</p>')
        words.append(f"<p>{escape(in_words(document['comparison']))}</p>")
    broken = dict.fromkeys(one["condition"] for one in document["thresholds"] if one["breached"])
    if broken:
        texts = escape(", ".join(broken))
        words.append(f'<p class="verdict bad">Thresholds breached: {texts}</p>')
    if len(parts) > 1:
        bad = sum(one["complete"] is False for one, _ in parts)
        state = f"{bad} of {len(parts)} runs are incomplete" if bad else "No run is incomplete"
        words.append(f'<p class="verdict {"bad" if bad else "good"}">{state}</p>')
    if base:
        words.append(sides_section(base, [run for _, run in parts]))
    elif len(parts) > 1:
        words.append(html_facts(run_facts(parts[0][0])))
    return "".join(words)


def _charts(charts: Sequence[Chart]) -> str:
    return f'<div class="charts">{_html(charts)}</div>' if charts else ""


def _html(charts: Sequence[Chart]) -> str:
    return "".join(chart.html() for chart in charts)


def _narrow(table: str) -> str:
    return f'<div class="columns"><div>{table}</div></div>'


def _comparison(comparison: Mapping[str, Any] | None) -> str:
    if comparison is None:
        return ""
    heads = ("figure", "verdict", "base", "candidate", "change", "95 % interval of the difference")
    more = ("p", "effect", "raw base", "raw candidate")
    rows = [
        [
            name.replace("_", " "),
            figure["verdict"],
            average_text(figure["base"], figure["unit"]),
            average_text(figure["candidate"], figure["unit"]),
            _change(figure),
            _interval(figure["interval"], figure["unit"]),
            _number(figure["adjusted_p_value"]),
            _number(figure["effect"]),
            average_text(figure["raw_base"], figure["unit"]),
            average_text(figure["raw_candidate"], figure["unit"]),
        ]
        for name, figure in comparison["figures"].items()
    ]
    # The top of the page names the runs of each side.
    keys = ("incomplete", "not_steady")
    names = {key: ", ".join(comparison[key]) for key in keys if comparison[key]}
    return (
        f"<h2>Comparison: {html_verdict(comparison['verdict'])}</h2>"
        + (_narrow(_table(names)) if names else "")
        + f'<div class="small-charts">{_html(run_dots(comparison))}</div>'
        + _html(change_intervals(comparison))
        + html_grid((*heads, *more), rows, "Comparison")
        + "<p>Base and candidate are means of the steady states, or of the whole run where there "
        "is none, raw ones of whole runs. p is adjusted for the number of figures.</p>"
        + _reach(comparison["figures"])
    )


def _reach(figures: Mapping[str, Any]) -> str:
    """Return from which change on so many runs show it, and how many would show this one."""
    rows = [
        [
            name.replace("_", " "),
            "-" if figure["shown_from"] is None else f"{figure['shown_from']:.0%}",
            "-" if figure["runs_to_show"] is None else f"{figure['runs_to_show']:,}",
        ]
        for name, figure in figures.items()
        if figure["shown_from"] is not None or figure["runs_to_show"] is not None
    ]
    heads = ("figure", "so many runs show a change from", "runs of each set to show this one")
    return html_grid(heads, rows, "Changes that are not shown") if rows else ""


def _change(figure: Mapping[str, Any]) -> str:
    return "-" if figure["change"] is None else f"{figure['change']:+.1%}"


def _changes(changes: Mapping[str, Any] | None) -> str:
    if changes is None:
        return ""
    rows = [
        [
            name.replace("_", " "),
            change["run"],
            average_text(change["before"], figure["unit"]),
            average_text(change["after"], figure["unit"]),
        ]
        for name, figure in changes["figures"].items()
        for change in figure["change_points"]
    ]
    named = f"<p>Incomplete: {escape(', '.join(changes['incomplete']))}</p>"
    heads = ("figure", "from run", "before", "after")
    found = html_grid(heads, rows, "Change points") if rows else "<p>None.</p>"
    marks = named if changes["incomplete"] else ""
    steps = {
        name: f"{100 * figure['detectable_step']:,.2g} %"
        for name, figure in changes["figures"].items()
        if figure["detectable_step"] is not None
    }
    seen = f"<h3>Steps that so many runs show</h3>{_narrow(_table(steps))}" if steps else ""
    title = f"<h2>Change points over {counted(len(changes['runs']), 'run')}</h2>"
    return title + found + marks + _charts(series_charts(changes)) + seen


def _thresholds(thresholds: Sequence[Mapping[str, Any]]) -> str:
    if not thresholds:
        return ""
    rows = [
        [
            one["condition"],
            one["run"],
            one["reason"] or checked_text(one),
            "breached" if one["breached"] else "inconclusive" if one["inconclusive"] else "ok",
        ]
        for one in thresholds
    ]
    heads = ("condition", "run", "figure", "verdict")
    return "<h2>Thresholds</h2>" + (
        html_grid(heads, rows, "Thresholds") + "<p>Figures of a run are of the whole run.</p>"
    )


def _run(number: int, run: Mapping[str, Any], data: RunData) -> str:
    """Return the section of a run: its figures, its charts, its tables."""
    ends = {role: run[role] for role in ("sender", "receiver") if run[role] is not None}
    heads = [("Results", _results(run, ends)), ("Delivery", run["delivery"])]
    heads += [("Drain", run["drain"]), ("Queue growth", run["queue_growth"])]
    heads.append(("Schedule", _schedule(ends.get("sender", {}).get("schedule"))))
    if "receiver" in ends:
        heads.append(("Latency", _latency(ends["receiver"]["latency"])))
    surroundings = [
        (f"{role.capitalize()} {name}", end[name])
        for name in ("config", "environment")
        for role, end in ends.items()
    ]
    title = f'<h2 id="run-{number}">Run {escape(str(run["name"]))}</h2>'
    blocks = [title, run_verdict(run), html_tiles(run_tiles(run))]
    blocks.append(html_facts(run_facts(run)))
    blocks.append(_charts(run_charts(data, run["analysis"], f"run-{number}-")))
    blocks.append(ends_section(run))
    blocks += [_columns(heads), _columns(_analysis_tables(run["analysis"]))]
    blocks.append(_columns(surroundings))
    return '<section class="run">' + "\n".join(blocks) + "</section>"


def _columns(tables: Sequence[tuple[str, Mapping[str, Any] | None]]) -> str:
    shown = [f"<div><h3>{name}</h3>{_table(rows)}</div>" for name, rows in tables if rows]
    return f'<div class="columns">{"".join(shown)}</div>'


def _results(run: Mapping[str, Any], ends: Mapping[str, Any]) -> dict[str, Any]:
    rows: dict[str, Any] = dict(run["results"] or {})
    for role, end in ends.items():
        rows[f"{role} messages"] = end["results"]["message_count"]
        rows[f"{role} rate"] = end["results"]["message_rate"]
        rows[f"{role} malformed lines"] = end["records"]["malformed"]
    return rows | {"complete": run["complete"], "reason": run["reason"]}


def _schedule(schedule: Mapping[str, Any] | None) -> dict[str, Any]:
    if schedule is None:
        return {}
    parts = schedule.get("late_by_us") or {}
    causes = {
        f"{LATE_BY[cause]}, 99.9 %": latency_text(part["p99.9"], "us")
        for cause, part in parts.items()
        if part.get("max") and part.get("p99.9") is not None and cause in LATE_BY
    }
    # A chart shows the rest.
    return {**schedule, **dict.fromkeys(("late_us", "late_by_us", "over_time")), **causes}


def _latency(latency: Mapping[str, Any]) -> dict[str, str | None]:
    unit, percentiles = latency["unit"], latency["percentiles"]
    rows = {name: _text(latency[name], unit, mean_text) for name in ("mean", "stddev")}
    ranks = {f"{rank} %": _text(percentiles[rank], unit, latency_text) for rank in NAMES}
    if "with_never_sent" not in latency:
        return rows | ranks
    missing = f"the messages that were sent; {latency['with_never_sent']['never_sent']:,} were not"
    return {"of": missing} | rows | ranks


def _text(value: float | None, unit: str, form: Callable[[float, str], str]) -> str | None:
    return None if value is None else form(value, unit)


def _analysis_tables(analysis: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    tables: list[tuple[str, dict[str, Any]]] = []
    steady = analysis["steady_state"]
    tables.append(("Steady state", _steady(steady)))
    if steady["latency"] is not None:
        tables.append((f"Latency of the {steady['figures_of']}", _latency(steady["latency"])))
    if analysis["stalls"]:
        rows = {_time(stall["first"]): f"{stall['seconds']} s" for stall in analysis["stalls"]}
        tables.append(("Stalls", rows))
    if analysis["clock"] is not None:
        tables.append(("Clock", _clock(analysis["clock"])))
    omission = analysis["coordinated_omission"]
    if omission is not None and omission["method"] is not None:
        tables.append(("Coordinated omission", _omission(omission)))
    return tables


def _steady(steady: Mapping[str, Any]) -> dict[str, Any]:
    rows = {k: v for k, v in steady.items() if k not in ("latency", "step", "trend")}
    seconds = ("first_second", "last_second")
    rows |= {k: _time(steady[k]) for k in seconds if steady[k] is not None}
    if steady["detectable_step"] is not None:
        rows["detectable_step"] = f"{100 * steady['detectable_step']:,.2g} %"
    return rows


def _clock(clock: Mapping[str, Any]) -> dict[str, Any]:
    rows = {key: value for key, value in clock.items() if key != "unit"}
    bounds = ("offset_at_least", "offset_at_most")
    return rows | {key: _text(clock[key], clock["unit"], latency_text) for key in bounds}


def _omission(omission: Mapping[str, Any]) -> dict[str, Any]:
    unit = omission["unit"]
    rows: dict[str, Any] = {"method": omission["method"]}
    rows["expected interval"] = _text(omission["expected_interval"], unit, fine_text)
    for rank in NAMES:
        raw, corrected = (
            latency_text(omission[kind]["percentiles"][rank], unit) for kind in ("raw", "corrected")
        )
        rows[f"{rank} %"] = f"{raw} raw, {corrected} corrected"
    return rows


def _table(rows: Mapping[str, Any]) -> str:
    """Return names and values as a table, without those that are not known."""
    cells = [
        f"<tr><th>{escape(name.replace('_', ' '))}</th>"
        f"{html_cell(_shown(value), _numeric(value))}</tr>"
        for name, value in rows.items()
        if value is not None
    ]
    return f"<table>{''.join(cells)}</table>"


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _time(second: int) -> str:
    return f"{datetime.fromtimestamp(second, tz=timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(value) if _numeric(value) else str(value)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    # As on the terminal: three digits would show another number.
    return f"{value:,.0f}" if abs(value) >= _WHOLE else three_digits(value)


def _interval(bounds: Sequence[float] | None, unit: str) -> str:
    return "-" if bounds is None else " to ".join(average_text(bound, unit) for bound in bounds)
