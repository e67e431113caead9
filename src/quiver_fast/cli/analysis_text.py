"""The printed analysis: pure functions from documents to text in the summary's layout."""

from __future__ import annotations

from typing import Any

from quiver_fast.analysis.units import per_millisecond
from quiver_fast.cli.summary_text import (
    arrow_summary_text,
    number_field,
    pair_summary_text,
    section,
    text_field,
)

__all__ = ["change_point_text", "comparison_text", "run_text", "threshold_text"]

_DIGITS = {"ms": ",.0f", "us": ",.3f", "ns": ",.6f"}
_SHOWN_RANKS = ("50", "99", "99.9", "100")


def run_text(document: dict[str, Any]) -> str:
    """Return the summary of a run as the wrappers print it, and our sections after it."""
    sender, receiver = document["sender"], document["receiver"]
    if sender is not None and receiver is not None:
        text = pair_summary_text(sender, receiver, document["delivery"])
    else:
        text = arrow_summary_text(sender if receiver is None else receiver)
    analysis = document["analysis"]
    head = section("RUN", [document["name"]])
    parts = [head, text, _settlement(sender), _steady(analysis), _stalls(analysis)]
    parts.append(_windows(analysis["windows"]))
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
        f"{_or_dash(figure['base'], ',.2f'):>14}",
        f"{_or_dash(figure['candidate'], ',.2f'):>14}",
        f"{_or_dash(figure['change'], '+.1%'):>9}",
        f"{_or_dash(figure['p_value'], '.2g'):>9}",
        f"{_or_dash(figure['effect'], '+.2f'):>8}",
    ]
    return "".join(cells) + f"  {figure['verdict']}"


def change_point_text(changes: dict[str, Any]) -> str:
    """Return where a series of runs changed its level."""
    lines = [
        f"{name.replace('_', ' ')}: from {change['before']:,.6g} to {change['after']:,.6g} "
        f"{figure['unit']} with {change['run']}"
        for name, figure in changes["figures"].items()
        for change in figure["change_points"]
    ]
    runs = f"{len(changes['runs'])} runs in order of time"
    return section("CHANGE POINTS", [runs, *(lines or ["none"])])


def threshold_text(thresholds: list[dict[str, Any]]) -> str:
    """Return each threshold with its figure, and whether it was breached."""
    lines = [
        f"{one['condition']}: {_or_dash(one['value'], ',.6g')} {one['unit']}, "
        f"{'BREACHED' if one['breached'] else 'ok'} ({one['run']})"
        for one in thresholds
    ]
    return section("THRESHOLDS", lines)


def _settlement(sender: dict[str, Any] | None) -> str:
    if sender is None or "settlement" not in sender:
        return ""
    settlement = sender["settlement"]
    lines = _latency_lines(settlement["all"])
    lines += [
        number_field("Settled", settlement["all"]["count"], "messages"),
        number_field("Unsettled", settlement["unsettled"], "messages"),
    ]
    return section("SETTLEMENT", lines)


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
        lines += _latency_lines(steady["latency"])
    return section("STEADY STATE", lines)


def _latency_lines(latency: dict[str, Any]) -> list[str]:
    ticks, form = per_millisecond(latency["unit"]), _DIGITS[latency["unit"]]
    values = {f"Latency {rank}%": latency["percentiles"][rank] for rank in _SHOWN_RANKS}
    return [
        number_field(name, None if value is None else value / ticks, "ms", form)
        for name, value in values.items()
    ]


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


def _windows(windows: dict[str, Any] | None) -> str:
    if windows is None:
        return ""
    columns = {"rate": "messages/s", "latency_p50": "p50 ms", "latency_p99": "p99 ms"}
    columns = {name: head for name, head in columns.items() if name in windows}
    lines = [f"{'seconds':>8}" + "".join(f"{head:>14}" for head in columns.values())]
    for row, start in enumerate(windows["start"]):
        cells = [f"{_or_dash(windows[name][row], ',.6g'):>14}" for name in columns]
        lines.append(f"{start - windows['start'][0]:>8}" + "".join(cells))
    return section(f"WINDOWS OF {windows['seconds']} s", lines)


def _clock(clock: dict[str, Any] | None) -> str:
    if clock is None:
        return ""
    ticks, form = per_millisecond(clock["unit"]), _DIGITS[clock["unit"]]
    bounds = {"Offset at least": "offset_at_least", "Offset at most": "offset_at_most"}
    lines = [
        number_field(name, clock[key] / ticks, "ms", form)
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
    ticks, form = per_millisecond(omission["unit"]), _DIGITS[omission["unit"]]
    lines = [text_field("Method", omission["method"])]
    if omission["expected_interval"] is not None:
        lines.append(number_field("Interval", omission["expected_interval"] / ticks, "ms", ",.3f"))
    for kind in ("raw", "corrected"):
        percentiles = omission[kind]["percentiles"]
        lines += [
            number_field(f"{kind.capitalize()} {rank}%", percentiles[rank] / ticks, "ms", form)
            for rank in _SHOWN_RANKS
        ]
    return section("COORDINATED OMISSION", lines)


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
