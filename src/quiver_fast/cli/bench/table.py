"""The ranked table of `quiver-bench`: pure functions from results to text and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quiver_fast.analysis.model.units import average_text
from quiver_fast.analysis.show.html import html_grid, html_page
from quiver_fast.cli.bench.cell import FAILED, PASSED

__all__ = ["bench_html", "bench_text", "cell_line", "failures_text", "ranked"]

_LINE_WIDTH = 111

_HEADS = (
    "Rank", "Combination", "Rate [m/s]", "p50", "p99", "p99.9", "Sender [us/m]",
    "Server [us/m]", "Receiver [us/m]", "Unreceived",
)  # fmt: skip
_CAPTION = (
    "Rate: messages from end to end per second. p50 to p99.9: latency. "
    "us/m: CPU microseconds per\nmessage of each process. Unreceived: sent, and in the queue or "
    "lost when the receiver ended."
)
Result = Mapping[str, Any]


def cell_line(name: str, status: str) -> str:
    """Return the line of one combination: its name, dots to column 111, and the status."""
    return f"{name + ' ':.<{_LINE_WIDTH}} {status}"


def ranked(results: Sequence[Result], at_a_rate: bool) -> list[Result]:
    """Return those that passed, best first.

    Args:
        results: of any order.
        at_a_rate: all had the same rate. Then the 99th percentile of latency decides, and
            otherwise the rate.
    """
    passed = [result for result in results if result["status"] == PASSED]
    if at_a_rate:
        return sorted(passed, key=lambda result: (_p99(result), -(result["rate"] or 0)))
    return sorted(passed, key=lambda result: (-(result["rate"] or 0), _p99(result)))


def bench_text(results: Sequence[Result], at_a_rate: bool) -> str:
    """Return the ranked table as text; empty if nothing passed."""
    rows = [_HEADS, *_rows(results, at_a_rate)]
    if len(rows) == 1:
        return ""
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = ["  ".join(_aligned(row, widths)).rstrip() for row in rows]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join(["", "RESULTS", "", lines[0], rule, *lines[1:], "", _CAPTION])


def failures_text(results: Sequence[Result]) -> str:
    """Return the failures, a line each with the reason; empty if there are none."""
    lines = [f"{one['name']}: {one['reason']}" for one in results if one["status"] == FAILED]
    return "\n".join(["", "FAILURES", "", *lines]) if lines else ""


def bench_html(document: Mapping[str, Any]) -> str:
    """Return the document of a bench as one HTML file that needs no other."""
    results = document["results"]
    options = document["options"]
    body = [
        "<h1>Quiver bench</h1>",
        html_grid(_HEADS, _rows(results, bool(options["rate"]))),
        f"<p>{_CAPTION}</p>",
    ]
    failures = [result for result in results if result["status"] == FAILED]
    if failures:
        rows = [(result["name"], result["reason"]) for result in failures]
        body += ["<h2>Failures</h2>", html_grid(("Combination", "Reason"), rows)]
    for heading, values in (("Options", options), ("Environment", document["environment"])):
        pairs = [(name.replace("_", " "), str(value)) for name, value in values.items()]
        body += [f"<h2>{heading}</h2>", html_grid(("Name", "Value"), pairs)]
    return html_page("Quiver bench", "\n".join(body))


def _p99(result: Result) -> float:
    latency = result["latency_ms"]
    return float("inf") if latency is None else latency["99"]


def _rows(results: Sequence[Result], at_a_rate: bool) -> list[tuple[str, ...]]:
    return [
        (str(rank), result["name"], *_figures(result))
        for rank, result in enumerate(ranked(results, at_a_rate), start=1)
    ]


def _figures(result: Result) -> list[str]:
    # In milliseconds, whatever the clock of the implementation; shown with three digits.
    latency, cpu = result["latency_ms"] or {}, result["cpu_us"]
    return [
        _shown(result["rate"], ",.0f"),
        *(average_text(latency.get(rank), "ms") for rank in ("50", "99", "99.9")),
        *(_shown(cpu[role], ",.2f") for role in ("sender", "server", "receiver")),
        _shown(result["unreceived"], ",d"),
    ]


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return the fields in their columns: the names to the left, figures to the right."""
    left = _HEADS.index("Combination")
    return [
        field.ljust(width) if column == left else field.rjust(width)
        for column, (field, width) in enumerate(zip(row, widths, strict=True))
    ]
