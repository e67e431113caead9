"""The HTML report: one file that needs no network and runs no script.

Its plots are inline SVG, the same that ``--svg`` writes; its Content-Security-Policy
forbids the browser to load anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from html import escape
from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.compare.comparison import NO_DIFFERENCE
from quiver_fast.analysis.model.ranks import NAMES
from quiver_fast.analysis.model.units import (
    average_text,
    figure_text,
    fine_text,
    latency_text,
    mean_text,
)
from quiver_fast.analysis.show.export import svg_text
from quiver_fast.analysis.show.html import html_cell, html_grid, html_page, html_verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ReportPart", "html_report"]

ReportPart = tuple[Mapping[str, Any], Mapping[str, "Figure"]]
"""The document of a run, and its plots."""


def html_report(
    parts: Sequence[ReportPart],
    document: Mapping[str, Any],
    plots: Mapping[str, Figure],
) -> str:
    """Return the report as one HTML document.

    Every plot is a ``figure`` element; its id is the plot's name, in runs after ``run-N-``.

    Args:
        parts: one for each run.
        document: the whole document, for ``comparison``, ``change_points``, ``thresholds``
            and ``analysed_with``.
        plots: of the comparison and of the series of runs.
    """
    body = ["<h1>Quiver analysis</h1>", _verdicts(document), _figures(plots, "")]
    for number, (run, run_plots) in enumerate(parts, start=1):
        body.append(_run(run, _figures(run_plots, f"run-{number}-")))
    body.append("<h2>Analysed with</h2>" + _table(document["analysed_with"]))
    return html_page("Quiver analysis", "\n".join(part for part in body if part))


def _figures(plots: Mapping[str, Figure], prefix: str) -> str:
    return "\n".join(
        f'<figure id="{escape(prefix + name)}">{_inline_svg(figure)}</figure>'
        for name, figure in plots.items()
    )


def _inline_svg(figure: Figure) -> str:
    """Return the ``svg`` element alone: a declaration or doctype has no place within HTML."""
    text = svg_text(figure)
    return text[text.index("<svg") :]


def _verdicts(document: Mapping[str, Any]) -> str:
    sections = [
        _comparison(document["comparison"]),
        _changes(document["change_points"]),
        _thresholds(document["thresholds"]),
    ]
    return "\n".join(section for section in sections if section)


def _comparison(comparison: Mapping[str, Any] | None) -> str:
    if comparison is None:
        return ""
    heads = ("figure", "base", "candidate", "change", "95 % interval of the difference")
    rows = [
        [
            name.replace("_", " "),
            average_text(figure["base"], figure["unit"]),
            average_text(figure["candidate"], figure["unit"]),
            _change(figure),
            _interval(figure["interval"], figure["unit"]),
            _number(figure["p_value"]),
            _number(figure["effect"]),
            average_text(figure["raw_base"], figure["unit"]),
            average_text(figure["raw_candidate"], figure["unit"]),
            figure["verdict"],
        ]
        for name, figure in comparison["figures"].items()
    ]
    keys = ("base", "candidate", "incomplete", "not_steady")
    names = {key: ", ".join(comparison[key]) for key in keys if comparison[key]}
    return (
        f"<h2>Comparison: {html_verdict(comparison['verdict'])}</h2>"
        + _table(names)
        + html_grid((*heads, "p", "effect", "raw base", "raw candidate", "verdict"), rows)
        + "<p>Base and candidate are means over the seconds of the steady states (of runs that "
        "are not steady over all seconds), raw ones over whole runs.</p>"
    )


def _change(figure: Mapping[str, Any]) -> str:
    if figure["verdict"] == NO_DIFFERENCE:
        return "~"
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
    found = html_grid(("figure", "from run", "before", "after"), rows) if rows else "<p>None.</p>"
    marks = named if changes["incomplete"] else ""
    steps = {
        name: f"{100 * figure['detectable_step']:,.2g} %"
        for name, figure in changes["figures"].items()
        if figure["detectable_step"] is not None
    }
    seen = f"<h3>Steps that so many runs show</h3>{_table(steps)}" if steps else ""
    return f"<h2>Change points over {len(changes['runs'])} runs</h2>{found}{marks}{seen}"


def _thresholds(thresholds: Sequence[Mapping[str, Any]]) -> str:
    if not thresholds:
        return ""
    rows = [
        [
            one["condition"],
            one["run"],
            one["reason"] or figure_text(one["value"], one["unit"]),
            "breached" if one["breached"] else "ok",
        ]
        for one in thresholds
    ]
    return "<h2>Thresholds</h2>" + html_grid(("condition", "run", "figure", "verdict"), rows)


def _incomplete(run: Mapping[str, Any]) -> str:
    if run["complete"] is not False:
        return ""
    reason = run["reason"] or "the run does not say why"
    return f'<p class="breached">Incomplete: {escape(reason)}</p>'


def _run(run: Mapping[str, Any], figures: str) -> str:
    ends = {role: run[role] for role in ("sender", "receiver") if run[role] is not None}
    heads = [("Results", _results(run, ends)), ("Delivery", run["delivery"])]
    heads += [("Drain", run["drain"]), ("Queue growth", run["queue_growth"])]
    if "receiver" in ends:
        heads.append(("Latency", _latency(ends["receiver"]["latency"])))
    surroundings = [
        (f"{role.capitalize()} {name}", end[name])
        for name in ("config", "environment")
        for role, end in ends.items()
    ]
    blocks = [f"<h2>Run {escape(str(run['name']))}</h2>", _incomplete(run)]
    blocks += [_columns(heads), figures]
    blocks.append(_columns(_analysis_tables(run["analysis"])))
    return "\n".join([*blocks, _columns(surroundings)])


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


def _latency(latency: Mapping[str, Any]) -> dict[str, str | None]:
    unit, percentiles = latency["unit"], latency["percentiles"]
    rows = {name: _text(latency[name], unit, mean_text) for name in ("mean", "stddev")}
    ranks = {f"{rank} %": _text(percentiles[rank], unit, latency_text) for rank in NAMES}
    return rows | ranks


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
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _interval(bounds: Sequence[float] | None, unit: str) -> str:
    return "-" if bounds is None else " to ".join(average_text(bound, unit) for bound in bounds)
