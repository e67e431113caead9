"""The details of a run on its page, folded; docs/analysis.md defines each label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from quiver_fast.analysis.figures.delivery import matching_text
from quiver_fast.analysis.figures.schedule import LATE_BY
from quiver_fast.analysis.figures.statistics import OF_STEADY
from quiver_fast.analysis.model.ranks import NAMES, exists, rank_head
from quiver_fast.analysis.model.units import (
    body_rate_text,
    fine_text,
    latency_text,
    mean_text,
    percent_text,
    rate_text,
    seconds_text,
)
from quiver_fast.analysis.show.headline import environment_facts
from quiver_fast.analysis.show.html import escape, html_details, html_grid, html_table
from quiver_fast.options.arrow import ARROW_OPTIONS
from quiver_fast.words import counted

Rows = dict[str, str | None]
Section = Mapping[str, Any]

# A count of zero is worth a row in the first ones only.
_COUNTS = ("sent", "received", "unreceived", "lost", "duplicate", "reordered")
_SELDOM = ("older", "foreign", "negative_latency", "released", "rejected")
_OPTIONS = {one.name: one for one in ARROW_OPTIONS if one.flag and not one.inverted}
_UNITS = {"SECONDS": " s", "BYTES": " B", "MESSAGES": " messages", "PER-SECOND": " messages/s"}


def run_details(run: Section) -> str:
    """Return as HTML all figures of a run, its options and its environment.

    Args:
        run: the document of the run.
    """
    tables = {
        "Messages": _messages(run),
        "Rates": _rates(run),
        "Schedule": _schedule(_end(run, "sender").get("schedule")),
        "Steady state": _steady(run["analysis"]["steady_state"]),
        "Clock": _clock(run["analysis"]["clock"]),
        "Coordinated omission": _omission(run["analysis"]["coordinated_omission"]),
    }
    figures = html_columns(tables) + _latencies(run) + _stalls(run)
    around = html_columns({"Options": _options(run)} | _environments(run))
    return html_details("All figures", figures) + html_details("Options and environment", around)


def html_columns(tables: Mapping[str, Rows]) -> str:
    """Return tables of names and values beside each other, without empty ones."""
    shown = [
        f"<div><h3>{escape(name)}</h3>{html_table(rows)}</div>"
        for name, rows in tables.items()
        if any(rows.values())
    ]
    return f'<div class="columns">{"".join(shown)}</div>' if shown else ""


def _end(run: Section, role: str) -> Section:
    return run[role] or {}


def _messages(run: Section) -> Rows:
    delivery = run["delivery"] or {}
    rows: Rows = {}
    if not delivery:
        sender = _end(run, "sender")
        rows["Sent"] = f"{sender['results']['message_count']:,}" if sender else None
    for key in (*_COUNTS, *(key for key in _SELDOM if delivery.get(key))):
        if delivery.get(key) is not None:
            rows[key.replace("_", " ").capitalize()] = f"{delivery[key]:,}"
    if delivery.get("unreceived") and delivery["lost"] is None:
        rows["Lost"] = "not known"
    if delivery:
        rows["Matching"] = matching_text(delivery["method"])
    if delivery.get("older") or delivery.get("foreign"):
        rows["Recognition"] = delivery["told_apart_by"]
    for role in ("sender", "receiver"):
        bad = _end(run, role).get("records", {}).get("malformed")
        if bad:
            rows[f"Malformed lines of the {role}"] = f"{bad:,}"
    return rows


def _rates(run: Section) -> Rows:
    """Return the rates, those of an end only where it shows another number."""
    results = run["results"] or {}
    duration = results.get("duration")
    rows: Rows = {"Duration": None if duration is None else seconds_text(duration)}
    both = results.get("end_to_end_rate")
    if both is not None:
        rows["End-to-end rate"] = rate_text(both)
    if "body_rate" in results:
        rows["Body rate"] = body_rate_text(results["body_rate"])
    for role in ("sender", "receiver"):
        rate = results.get(f"{role}_rate")
        if rate is None and run[role] is not None:
            rate = run[role]["results"]["message_rate"]
        if rate is not None and rate_text(rate) != rows.get("End-to-end rate"):
            rows[f"{role.capitalize()} rate"] = rate_text(rate)
    drain, growth = run["drain"] or {}, run["queue_growth"] or {}
    if drain.get("messages"):
        took = f"{counted(drain['messages'], 'message')} in {seconds_text(drain['seconds'])}"
        rows["Drain"] = took
    if growth.get("per_second"):
        rows["Queue growth"] = rate_text(growth["per_second"])
    return rows


def _schedule(schedule: Section | None) -> Rows:
    if schedule is None:
        return {}
    achieved = schedule["achieved"]
    rows: Rows = {
        "Target rate": rate_text(schedule["rate"]),
        "Achieved rate": None if achieved is None else rate_text(achieved),
        "Due": f"{schedule['due']:,}",
        "Never sent": f"{schedule['never_sent']:,}" if schedule["never_sent"] else None,
        "Schedule missed": "yes" if schedule["missed"] else "no",
    }
    late = schedule["late_us"] or {}
    if late.get("p99.9") is not None:
        rows["Send delay"] = f"{latency_text(late['p99.9'], 'us')} at 99.9 %"
    for cause, part in (schedule.get("late_by_us") or {}).items():
        if part.get("max") and part.get("p99.9") is not None and cause in LATE_BY:
            rows[LATE_BY[cause].capitalize()] = f"{latency_text(part['p99.9'], 'us')} at 99.9 %"
    return rows


def _steady(steady: Section) -> Rows:
    rows: Rows = {"Verdict": steady["verdict"], "Reason": steady["reason"]}
    if steady["figures_of"] != OF_STEADY:
        return rows
    step = steady["detectable_step"]
    return rows | {
        "First second": _time(steady["first_second"]),
        "Last second": _time(steady["last_second"]),
        "Length": seconds_text(steady["seconds"]),
        "Warm-up left out": seconds_text(steady["warm_up_seconds"]),
        "Ramp-down left out": seconds_text(steady["ramp_down_seconds"]),
        "Rule": steady["rule"],
        "Rate": rate_text(steady["message_rate"]),
        "Detectable step": None if step is None else percent_text(step),
    }


def _time(second: int) -> str:
    return f"{datetime.fromtimestamp(second, tz=timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _clock(clock: Section | None) -> Rows:
    if clock is None:
        return {}
    rows = {
        f"Offset {bound}": _text(clock[f"offset_{bound.replace(' ', '_')}"], clock["unit"])
        for bound in ("at least", "at most")
    }
    names = {"Drift": "drift_ppm", "Drift at least": "drift_low_ppm",
             "Drift at most": "drift_high_ppm"}  # fmt: skip
    if clock["drift_ppm"] is None:
        return rows
    return rows | {name: f"{clock[key]:,.2f} ppm" for name, key in names.items()}


def _omission(omission: Section | None) -> Rows:
    if omission is None or omission["method"] is None:
        return {}
    interval = omission["expected_interval"]
    return {
        "Correction": omission["method"],
        "Expected interval": None if interval is None else fine_text(interval, omission["unit"]),
    }


def _text(
    value: float | None, unit: str, form: Callable[[float, str], str] = latency_text
) -> str | None:
    return None if value is None else form(value, unit)


def _latencies(run: Section) -> str:
    """Return the percentiles of the whole run, of its steady state, and corrected ones.

    A column that shows the same as that of the whole run is left out.
    """
    latency = _end(run, "receiver").get("latency") or {"count": 0}
    if not latency["count"]:
        return ""
    steady, omission = run["analysis"]["steady_state"], run["analysis"]["coordinated_omission"]
    columns = {"Whole run": _column(latency)}
    if steady["figures_of"] == OF_STEADY and steady["latency"] is not None:
        columns["Steady state"] = _column(steady["latency"])
    if omission is not None and omission["method"] is not None:
        section = {**omission["corrected"], "unit": omission["unit"], "count": latency["count"]}
        columns["Corrected"] = _column(section)
    names = [*columns["Whole run"]]
    whole = columns["Whole run"]
    shown = {
        title: cells
        for title, cells in columns.items()
        if title == "Whole run" or any(cells.get(n) != whole[n] for n in names if n in cells)
    }
    rows = [[name, *(cells.get(name, "-") for cells in shown.values())] for name in names]
    note = ""
    if "with_never_sent" in latency:
        unsent = latency["with_never_sent"]["never_sent"]
        note = f"<p>Of the messages that were sent; {unsent:,} were due and never sent.</p>"
    return (
        "<h3>Latency</h3>" + html_grid(("Figure", *shown), rows, f"Latency of {run['name']}") + note
    )


def _column(latency: Section) -> dict[str, str]:
    """Return the percentiles that so many messages have, by their names."""
    unit, percentiles = latency["unit"], latency["percentiles"]
    known = {rank_head(rank): latency_text(percentiles[rank], unit)
             for rank in NAMES if exists(rank, latency["count"])}  # fmt: skip
    means = {"Mean": latency.get("mean"), "Standard deviation": latency.get("stddev")}
    return known | {k: mean_text(v, unit) for k, v in means.items() if v is not None}


def _stalls(run: Section) -> str:
    rows = [
        [_time(stall["first"]), seconds_text(stall["seconds"])]
        for stall in run["analysis"]["stalls"]
    ]
    if not rows:
        return ""
    return "<h3>Stalls</h3>" + html_grid(
        ("First second", "Length"), rows, f"Stalls of {run['name']}"
    )


def _options(run: Section) -> Rows:
    """Return the options of the ends: once where both have the same value."""
    rows: Rows = {}
    ends = {role: _end(run, role).get("config") or {} for role in ("sender", "receiver")}
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


def _environments(run: Section) -> dict[str, Rows]:
    """Return the environment of the ends: once where both have the same."""
    found = dict(_environment(run))
    if len(found) > 1 and len({str(rows) for rows in found.values()}) == 1:
        return {"Environment": next(iter(found.values()))}
    return {f"Environment of the {role}": rows for role, rows in found.items()}


def _environment(run: Section) -> Iterator[tuple[str, Rows]]:
    for role in ("sender", "receiver"):
        environment = _end(run, role).get("environment")
        if environment:
            yield role, environment_facts(environment)
