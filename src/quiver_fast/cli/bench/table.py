"""The ranked table of `quiver-bench`: pure functions from results to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quiver_fast.analysis.model.units import average_text
from quiver_fast.analysis.sections.rows import Grid, cell_text
from quiver_fast.analysis.show.text import grid_lines
from quiver_fast.cli.bench.cell import FAILED, PASSED

_LINE_WIDTH = 111

_HEADS = (
    "Rank", "Combination", "Rate [m/s]", "p50", "p99", "p99.9", "Sender [us/m]",
    "Server [us/m]", "Receiver [us/m]", "Unreceived",
)  # fmt: skip
_HEADS_OF_SEARCHES = ("Rank", "Combination", "Sustained [m/s]", "From", "To", "Just above")
_CAPTION = (
    "Rate: messages from end to end per second. p50 to p99.9: latency. "
    "us/m: CPU microseconds per\nmessage of each process. Unreceived: sent, and in the queue or "
    "lost when the receiver ended."
)
_CAPTION_OF_SEARCHES = (
    "Sustained: the highest rate that was, and the interval in which it is with 95 % probability."
)
_HEADS_OF_SUITE = (
    ("Case", "Figure", "Median", "Least", "Most"),
    ("Case", "Figure", "Baseline", "Candidate", "Change", "Verdict"),
)
_CAPTION_OF_SUITES = (
    "Of five runs of each case. A baseline adds a verdict.",
    "Medians of the runs. Change: the median of the differences of all pairs of runs. Each case is "
    "judged by\nitself: of twenty cases without a change, one may differ by chance.",
)
Result = Mapping[str, Any]


def cell_line(name: str, status: str) -> str:
    """Return the line of one combination: its name, dots to column 111, and the status."""
    return f"{name + ' ':.<{_LINE_WIDTH}} {status}"


def ranked(results: Sequence[Result], at_a_rate: bool) -> list[Result]:
    """Return the results that passed, best first.

    Args:
        results: all results, in any order.
        at_a_rate: all had the same rate: the 99th percentile of latency decides. Otherwise
            the rate decides.
    """
    passed = [result for result in results if result["status"] == PASSED]
    if at_a_rate:
        return sorted(passed, key=lambda result: (_p99(result), -(result["rate"] or 0)))
    return sorted(passed, key=lambda result: (-(result["rate"] or 0), _p99(result)))


def _are_searches(results: Sequence[Result]) -> bool:
    return any(result.get("found_rate") is not None for result in results)


def heads(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the heads of the ranked table: of runs, or of searches for a rate."""
    return _HEADS_OF_SEARCHES if _are_searches(results) else _HEADS


def caption(results: Sequence[Result]) -> str:
    """Return the meaning of the ranked table's columns."""
    return _CAPTION_OF_SEARCHES if _are_searches(results) else _CAPTION


def bench_text(results: Sequence[Result], at_a_rate: bool) -> str:
    """Return the ranked table as text; empty if nothing passed."""
    rows = [heads(results), *table_rows(results, at_a_rate)]
    if len(rows) == 1:
        return ""
    head, *lines = grid_lines(Grid("Ranking", rows[0], rows[1:]))
    rule = "  ".join("-" * max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(["", "RESULTS", "", head, rule, *lines, "", caption(results)])


def failures_text(results: Sequence[Result]) -> str:
    """Return the failures, a line each with the reason; empty if there are none."""
    lines = [f"{one['name']}: {one['reason']}" for one in results if one["status"] == FAILED]
    return "\n".join(["", "FAILURES", "", *lines]) if lines else ""


def _p99(result: Result) -> float:
    latency = result["latency_ms"]
    return float("inf") if latency is None else latency["99"]


def suite_text(document: Result) -> str:
    """Return the table of a suite as text: a row for each figure of a case."""
    against = document["baseline"] is not None
    rows = [
        _suite_row(case["name"], name, figure, against)
        for case in document["cases"]
        for name, figure in case["figures"].items()
        if figure["candidate"] is not None
    ]
    rest = {**document["failed"], **document["left_out"]}
    lines = grid_lines(Grid("Suite", _HEADS_OF_SUITE[against], rows)) if rows else ["no figures"]
    missing = [f"{name}: {reason}" for name, reason in rest.items()]
    title = f"SUITE {document['suite']} of {document['target']}"
    return "\n".join(["", title, "", *lines, *missing, "", _CAPTION_OF_SUITES[against]])


def _suite_row(case: str, name: str, figure: Mapping[str, Any], against: bool) -> tuple[str, ...]:
    unit = figure["unit"]
    now = value_text(figure["candidate"], unit)
    if not against:
        return (case, name, now, *(value_text(end(figure["candidate_runs"]), unit)
                                   for end in (min, max)))  # fmt: skip
    base, change = value_text(figure["base"], unit), cell_text(figure["change"], "+.1%")
    return case, name, base, now, change, figure["verdict"]


def value_text(value: float | None, unit: str) -> str:
    """Return the figure of a case with its unit."""
    if value is None or unit == "ms":
        return average_text(value, "ms")
    if unit == "bytes":
        return f"{value / 1e3:,.1f} kB"
    if unit in ("messages/s", "/s"):
        return average_text(value, "/s")
    return average_text(value / 1e3, "ms") if unit == "us" else f"{value:,.2f} {unit}"


def table_rows(results: Sequence[Result], at_a_rate: bool) -> list[tuple[str, ...]]:
    """Return the cells of the ranked table under its heads."""
    return [
        (str(rank), result["name"], *_figures(result))
        for rank, result in enumerate(ranked(results, at_a_rate), start=1)
    ]


def _figures(result: Result) -> list[str]:
    found = result.get("found_rate")
    if found is not None:
        rates = [cell_text(found[key], ",d") for key in ("rate", "low", "high")]
        rates[0] += " (unconfirmed)" if found.get("confirmed") is False else ""
        return [*rates, found["reason"] or "-"]
    # Implementations have different clocks: all latencies are in milliseconds.
    latency, cpu = result["latency_ms"] or {}, result["cpu_us"]
    return [
        cell_text(result["rate"], ",.0f"),
        *(average_text(latency.get(rank), "ms") for rank in ("50", "99", "99.9")),
        *(cell_text(cpu[role], ",.2f") for role in ("sender", "server", "receiver")),
        cell_text(result["unreceived"], ",d"),
    ]
