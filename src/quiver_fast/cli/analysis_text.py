"""The printed analysis: pure functions from documents to text in the summary's layout."""

from __future__ import annotations

from typing import Any

from quiver_fast.analysis.units import PER_SECOND, fine_text, latency_text, mean_text
from quiver_fast.cli.summary_text import (
    arrow_summary_text,
    latency_field,
    latency_lines,
    number_field,
    pair_summary_text,
    section,
    text_field,
)

__all__ = ["change_point_text", "comparison_text", "run_text", "threshold_text"]

_SHOWN_RANKS = ("50", "99", "99.9", "100")


def run_text(document: dict[str, Any]) -> str:
    """Return the summary of a run as the wrappers print it, and our sections after it."""
    sender, receiver = document["sender"], document["receiver"]
    if sender is not None and receiver is not None:
        text = pair_summary_text(document)
    else:
        ending = {key: document[key] for key in ("complete", "reason")}
        text = arrow_summary_text((sender if receiver is None else receiver) | ending)
    analysis = document["analysis"]
    unit = "ms" if receiver is None else receiver["latency"]["unit"]
    parts = [section("RUN", [document["name"]]), text, _steady(analysis), _stalls(analysis)]
    parts.append(_windows(analysis["windows"], unit))
    return "".join([*parts, _clock(analysis["clock"]), _omission(analysis["coordinated_omission"])])


def comparison_text(comparison: dict[str, Any]) -> str:
    """Return the verdict on a candidate against its base, figure by figure."""
    lines = [
        f"{'':<14}{'base':>14}{'candidate':>14}{'change':>9}{'p':>9}{'effect':>8}  verdict",
        *(_figure_line(name, figure) for name, figure in comparison["figures"].items()),
        "",
        text_field("Verdict", comparison["verdict"]),
    ]
    return section("COMPARISON", lines)


def _figure_line(name: str, figure: dict[str, Any]) -> str:
    cells = [
        f"{name.replace('_', ' '):<14}",
        f"{_figure(figure['base'], figure['unit']):>14}",
        f"{_figure(figure['candidate'], figure['unit']):>14}",
        f"{_or_dash(figure['change'], '+.1%'):>9}",
        f"{_or_dash(figure['p_value'], '.2g'):>9}",
        f"{_or_dash(figure['effect'], '+.2f'):>8}",
    ]
    return "".join(cells) + f"  {figure['verdict']}"


def change_point_text(changes: dict[str, Any]) -> str:
    """Return where a series of runs changed its level."""
    lines = [
        f"{name.replace('_', ' ')}: from {_figure(change['before'], figure['unit'])} "
        f"to {_figure(change['after'], figure['unit'])} with {change['run']}"
        for name, figure in changes["figures"].items()
        for change in figure["change_points"]
    ]
    runs = f"{len(changes['runs'])} runs in order of time"
    return section("CHANGE POINTS", [runs, *(lines or ["none"])])


def _figure(value: float | None, unit: str) -> str:
    """Return a mean of latencies in the unit that suits it, or a rate."""
    if value is None:
        return "-"
    return mean_text(value * 1000, "us") if unit == "ms" else f"{value:,.0f}/s"


def threshold_text(thresholds: list[dict[str, Any]]) -> str:
    """Return each threshold with its figure, and whether it was breached."""
    lines = [
        f"{one['condition']}: {_or_dash(one['value'], ',.6g')} {one['unit']}, "
        f"{'BREACHED' if one['breached'] else 'ok'} ({one['run']})"
        for one in thresholds
    ]
    return section("THRESHOLDS", lines)


def _steady(analysis: dict[str, Any]) -> str:
    steady = analysis["steady_state"]
    if steady is None:
        return section("STEADY STATE", ["too short to tell: under six whole seconds"])
    lines = [
        number_field("Duration", steady["seconds"], "seconds"),
        number_field("Warm-up left out", steady["warm_up_seconds"], "seconds"),
        number_field("Ramp-down left out", steady["ramp_down_seconds"], "seconds"),
        number_field("Rate", steady["message_rate"], "messages/s"),
    ]
    if steady["latency"] is not None:
        lines += latency_lines(steady["latency"])
    return section("STEADY STATE", lines)


def _stalls(analysis: dict[str, Any]) -> str:
    stalls = analysis["stalls"]
    if not stalls:
        return ""
    lines = [
        number_field("Stalls", len(stalls), ""),
        number_field("Stalled", sum(stall["seconds"] for stall in stalls), "seconds"),
        number_field("Longest", max(stall["seconds"] for stall in stalls), "seconds"),
    ]
    return section("STALLS", [line.rstrip() for line in lines])


def _windows(windows: dict[str, Any] | None, unit: str) -> str:
    if windows is None:
        return ""
    heads = {"rate": "messages/s", "latency_p50": "p50", "latency_p99": "p99"}
    heads = {name: head for name, head in heads.items() if name in windows}
    lines = [f"{'seconds':>8}" + "".join(f"{head:>14}" for head in heads.values())]
    for row, start in enumerate(windows["start"]):
        cells = [f"{_window_cell(windows[name][row], name, unit):>14}" for name in heads]
        lines.append(f"{start - windows['start'][0]:>8}" + "".join(cells))
    return section(f"WINDOWS OF {windows['seconds']} s", lines)


def _window_cell(value: float | None, name: str, unit: str) -> str:
    if value is None or name == "rate":
        return _or_dash(value, ",.0f")
    return latency_text(value * PER_SECOND[unit] / PER_SECOND["ms"], unit)


def _clock(clock: dict[str, Any] | None) -> str:
    if clock is None:
        return ""
    bounds = {"Offset at least": "offset_at_least", "Offset at most": "offset_at_most"}
    lines = [
        latency_field(name, clock[key], clock["unit"])
        for name, key in bounds.items()
        if clock[key] is not None
    ]
    if clock["drift_ppm"] is not None:
        lines.append(number_field("Drift", clock["drift_ppm"], "ppm", ",.2f"))
        lines.append(number_field("Drift resolution", clock["drift_resolution_ppm"], "ppm", ",.2f"))
    return section("CLOCK", lines)


def _omission(omission: dict[str, Any] | None) -> str:
    if omission is None or omission["method"] is None:
        return ""
    unit, lines = omission["unit"], [text_field("Method", omission["method"])]
    if omission["expected_interval"] is not None:
        lines.append(text_field("Interval", fine_text(omission["expected_interval"], unit)))
    for kind in ("raw", "corrected"):
        percentiles = omission[kind]["percentiles"]
        lines += [
            latency_field(f"{kind.capitalize()} {rank}%", percentiles[rank], unit)
            for rank in _SHOWN_RANKS
        ]
    return section("COORDINATED OMISSION", lines)


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
