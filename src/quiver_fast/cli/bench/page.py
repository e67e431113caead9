"""The page of `quiver-bench`: ranked bars, curves, failures, and each broker's version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quiver_fast.analysis.model.units import average_text, short_text
from quiver_fast.analysis.sections.headline import environment_facts
from quiver_fast.analysis.show.chart import percentile_chart
from quiver_fast.analysis.show.html import (
    escape,
    html_bars,
    html_facts,
    html_grid,
    html_page,
    html_state,
    html_tiles,
)
from quiver_fast.cli.bench.cell import FAILED, PASSED
from quiver_fast.cli.bench.table import Result, caption, heads, table_rows

_LOG_LINES = 12
_LOG_BYTES = 8192
_LOGS = ("pair/output.txt", "server/output.txt")
# A page has colours for so many curves.
_MOST_CURVES = 8


def bench_html(document: Mapping[str, Any], logs: Mapping[str, str] | None = None) -> str:
    """Return the document of a bench as one HTML file that needs no other.

    Args:
        document: the content of ``bench.json``: the passed combinations come first, best first.
        logs: the last lines that each failed combination printed, by its name.
    """
    results, options = document["results"], document["options"]
    at_a_rate = bool(options["rate"] or options["rate_steps"]) and not options.get("find_rate")
    passed = [result for result in results if result["status"] == PASSED]
    failed = [result for result in results if result["status"] == FAILED]
    body = [f"<header><h1>Quiver bench</h1>{_lead(document, passed, failed)}</header>"]
    if passed:
        body.append("<h2>Ranking</h2>" + _ranking(passed, at_a_rate))
        body += [_curves(passed), "<h2>Figures</h2>"]
        body.append(html_grid(heads(results), table_rows(results, at_a_rate), "Figures"))
        body.append(f'<p class="note">{escape(" ".join(caption(results).split()))}</p>')
    body += [_failures(failed, logs or {}), _servers(results)]
    body.append("<h2>Options</h2>" + _pairs(options, "Options"))
    body.append("<h2>Environment</h2>" + _pairs(document["environment"], "Environment"))
    return html_page("Quiver bench", "\n".join(part for part in body if part))


def log_ends(result: Result) -> str:
    """Return the last lines that a combination and its server printed; empty without any."""
    folder = Path(result["output_dir"])
    ends = [(name, _end_of(folder / name)) for name in _LOGS]
    return "\n".join(f"{name}:\n{text}" for name, text in ends if text)


def _end_of(file: Path) -> str:
    try:
        with file.open("rb") as log:
            log.seek(max(file.stat().st_size - _LOG_BYTES, 0))
            text = log.read().decode(errors="replace")
    except FileNotFoundError:  # Peer-to-peer, or the combination ended before it began.
        return ""
    return "\n".join(text.strip().splitlines()[-_LOG_LINES:])


def _lead(document: Mapping[str, Any], passed: Sequence[Result], failed: Sequence[Result]) -> str:
    state = f"{len(failed)} of {len(passed) + len(failed)} combinations failed"
    words = state if failed else f"All {len(passed)} combinations passed"
    if not passed and not failed:
        words = "No combination has been measured yet"
    if document.get("complete") is False:
        words += f"; the bench is not finished{_because(document.get('reason'))}"
    tiles = html_tiles(_best_tiles(passed)) if passed else ""
    facts = html_facts(environment_facts(document["environment"]))
    return f"{html_state(words, bool(failed))}{tiles}{facts}"


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _best_tiles(passed: Sequence[Result]) -> list[tuple[str, str]]:
    best = passed[0]
    p99 = (best["latency_ms"] or {}).get("99")
    return [
        ("First in rank", best["name"]),
        ("Its throughput", average_text(best["rate"], "/s")),
        ("Its latency, 99 %", average_text(p99, "ms")),
    ]


def _ranking(passed: Sequence[Result], at_a_rate: bool) -> str:
    bars = [
        _bars("Throughput, messages/s", passed, lambda one: one["rate"], short_text, True),
        _bars("Latency, 99 %", passed, _p99, lambda value: average_text(value, "ms"), False),
        _bars("CPU of all processes for a message", passed, _cpu_sum, _cpu_text, False),
    ]
    if at_a_rate:
        bars[0], bars[1] = bars[1], bars[0]
    return f'<div class="charts">{"".join(bars)}</div>'


def _bars(
    title: str,
    results: Sequence[Result],
    value_of: Callable[[Result], float | None],
    text_of: Callable[[float], str],
    larger_is_better: bool,
) -> str:
    """Return one metric as bars, the best first, without combinations that do not have it."""
    known = [(one["name"], value) for one in results if (value := value_of(one)) is not None]
    if not known:
        return ""
    known.sort(key=lambda pair: -pair[1] if larger_is_better else pair[1])
    better = "more" if larger_is_better else "less"
    rows = [(name, value, text_of(value)) for name, value in known]
    return html_bars(f"{title}: {better} is better", rows)


def _p99(result: Result) -> float | None:
    value: float | None = (result["latency_ms"] or {}).get("99")
    return value


def _cpu_sum(result: Result) -> float | None:
    used = [value for value in result["cpu_us"].values() if value is not None]
    return sum(used) if used else None


def _cpu_text(microseconds: float) -> str:
    return average_text(microseconds / 1000, "ms")


def _curves(passed: Sequence[Result]) -> str:
    """Return a chart of latency by percentile with a curve for each of the first in rank."""
    known = [one for one in passed if one["latency_ms"]][:_MOST_CURVES]
    if not known:
        return ""
    curves = {
        one["name"]: (
            int(one["count"] or 0),
            {float(rank): value for rank, value in one["latency_ms"].items()},
        )
        for one in known
    }
    some = f", of the first {_MOST_CURVES}" if len(known) == _MOST_CURVES else ""
    chart = percentile_chart(
        "bench-percentiles",
        f"Latency by percentile{some}",
        curves,
        "Lines lead from one kept percentile to the next; the last one is the maximum.",
    )
    return f'<div class="charts">{chart.html()}</div>'


def _failures(failed: Sequence[Result], logs: Mapping[str, str]) -> str:
    if not failed:
        return ""
    parts = ["<h2>Failures</h2>"]
    for one in failed:
        parts.append(f'<h3>{escape(one["name"])}</h3><p class="bad">{escape(one["reason"])}</p>')
        if logs.get(one["name"]):
            parts.append(f"<pre>{escape(logs[one['name']])}</pre>")
    return "\n".join(parts)


def _servers(results: Sequence[Result]) -> str:
    """Return a table of each server's name for itself, and the command that started it."""
    rows: dict[str, tuple[str, str, str]] = {}
    for one in results:
        broker = one.get("broker")
        if one.get("server") is not None and broker is not None:
            said = " ".join(filter(None, (broker["product"], broker["version"])))
            rows.setdefault(one["server"], (one["server"], said or "-", broker["command"] or "-"))
    if not rows:
        return ""
    heads = ("Server", "Names itself", "Started as")
    return "<h2>Servers</h2>" + html_grid(heads, list(rows.values()), "Servers")


def _pairs(values: Mapping[str, Any], name: str) -> str:
    rows = [(key.replace("_", " "), str(value)) for key, value in values.items()]
    return html_grid(("Name", "Value"), rows, name)
