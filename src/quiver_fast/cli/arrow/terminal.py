"""The summary on a terminal: first its headline, in colours that tell good from bad.

It fits 24 rows; with ``--verbose`` upstream's text follows instead of the rows.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from textwrap import wrap
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from quiver_fast.analysis.model.ranks import HEADLINE, known_ranks
from quiver_fast.analysis.model.units import NO_RATE, checked_text, latency_text, short_text
from quiver_fast.analysis.show.headline import faults, incomplete_text, load_facts
from quiver_fast.analysis.show.run_sections import findings, rank_name, run_of, run_sections
from quiver_fast.analysis.show.sections import Grid, brief_rows, grid_lines
from quiver_fast.cli.arrow.summary_text import arrow_summary_text, pair_summary_text
from quiver_fast.cli.shared.thresholds import state_text
from quiver_fast.errors import one_line, visible
from quiver_fast.words import counted

Row = tuple[str, str]
"""A name, and figures."""

_GOOD, _WARN, _BAD = "green", "yellow", "red"
_GAP = "   "
_LEAST_DOTS = 2
_LEAST_TEXT = 20
_DOTS = re.compile(r"\.{3,}")


def print_pair(terminal: TextIO, document: dict[str, Any], *, verbose: bool) -> None:
    """Print the summary of a whole run, from the document that ``--json`` prints.

    Findings of an analysis come last. With ``verbose`` the caller prints them as text.
    """
    verdicts = threshold_rows(document.get("thresholds") or [])
    console = _print_headline(terminal, pair_headline(document))
    if verbose:
        _print_rows(console, verdicts)
        console.print(fitted(visible(pair_summary_text(document)), console.width))
        return
    _print_rows(console, [*verdicts, *run_rows(document), *finding_rows(document)])
    steps = [part for one in run_sections(document) for part in one.parts if one.title == "STEPS"]
    for grid in steps:
        if isinstance(grid, Grid):
            console.print("\n".join(["", *grid_lines(grid)]), soft_wrap=True)


def print_arrow(
    terminal: TextIO,
    summary: dict[str, Any],
    *,
    summarize: bool,
    verbose: bool,
    analysed: dict[str, Any] | None = None,
) -> None:
    """Print the summary of one arrow; without ``summarize`` only its headline.

    ``analysed`` is the document of its analysis, whose findings come last.
    """
    console = _print_headline(terminal, arrow_headline(summary))
    if not summarize:
        return
    if verbose:
        console.print(fitted(visible(arrow_summary_text(summary)), console.width))
    else:
        _print_rows(console, [*run_rows(run_of(summary)), *finding_rows(analysed or {})])


def run_rows(run: dict[str, Any]) -> list[Row]:
    """Return the rows of a run: its load, the figures that matter, and its files."""
    ends = [end for end in (run["sender"], run["receiver"]) if end is not None]
    config = {} if len(ends) > 1 else ends[0]["config"] or {}
    files = run.get("output_dir") or config.get("output_dir")
    return [
        *((name, text) for name, text in load_facts(run).items() if text),
        *brief_rows(run_sections(run)),
        *([("Files", files)] if files else []),
    ]


def finding_rows(run: dict[str, Any]) -> list[Row]:
    """Return the rows of the findings of an analysis, if the run was analysed."""
    return brief_rows(findings(run)) if "analysis" in run else []


def threshold_rows(thresholds: list[dict[str, Any]]) -> list[Row]:
    """Return each threshold with its figure, and whether it was breached."""
    return [
        ("Threshold", f"{one['condition']}: {one['reason'] or checked_text(one)}, "
         f"{state_text(one)}")
        for one in thresholds
    ]  # fmt: skip


def pair_headline(document: dict[str, Any]) -> list[Text]:
    """Return the lines of a whole run, from the document that ``--json`` prints."""
    results, delivery = document["results"], document["delivery"]
    lines = [_figures(results["end_to_end_rate"], document["receiver"]["latency"])]
    lines += _incomplete(document)
    sent = f"{delivery['sent']:,} sent" if delivery.get("sent") is not None else "sent: unknown"
    counts = f"{sent}, {delivery['received']:,} received"
    return [*lines, _verdict(counts, delivery, document.get("peer_to_peer"))]


def arrow_headline(summary: dict[str, Any]) -> list[Text]:
    """Return the lines of one arrow, from its summary."""
    results, delivery = summary["results"], summary.get("delivery")
    lines = [_figures(results["message_rate"], summary.get("latency")), *_incomplete(summary)]
    if delivery is None:
        return [*lines, Text(f"{counted(results['message_count'], 'message')} sent")]
    return [*lines, _verdict(f"{counted(delivery['received'], 'message')} received", delivery)]


def _print_headline(terminal: TextIO, lines: list[Text]) -> Console:
    """Print the lines below an empty one; return the console of ``terminal``."""
    console = Console(file=terminal, highlight=False, markup=False, emoji=False)
    console.print()
    for text in lines:
        console.print(text)
    return console


def _print_rows(console: Console, rows: list[Row]) -> None:
    """Print rows, with each text wrapped within its own column."""
    if not rows:
        return
    indent = max(len(label) for label, _ in rows) + 2
    console.print()
    for label, text in rows:
        lines = wrap(
            visible(text), max(console.width - indent, _LEAST_TEXT), break_long_words=False
        )
        for first, line in zip_longest([label], lines, fillvalue=""):
            console.print(Text(f"{first:<{indent}}", "dim").append(line, "not dim"), soft_wrap=True)


def fitted(text: str, width: int) -> str:
    """Return lines of upstream's layout with fewer dots, so that they fit ``width``."""
    return "\n".join(_fitted_line(one, width) for one in text.split("\n"))


def _fitted_line(text: str, width: int) -> str:
    excess = len(text) - width
    dots = max(_DOTS.findall(text), key=len, default="")
    if excess <= 0 or not dots:
        return text
    return text.replace(dots, dots[: max(len(dots) - excess, _LEAST_DOTS)], 1)


def _figures(rate: float | None, latency: dict[str, Any] | None) -> Text:
    text = Text(NO_RATE if rate is None else short_text(rate), "bold")
    text.append("" if rate is None else " messages/s")
    if latency is None or not latency["count"]:
        return text
    for rank in known_ranks(HEADLINE, latency["count"]):
        value = latency["percentiles"][rank]
        text.append(f"{_GAP}{rank_name(rank)} ", "dim")
        text.append(latency_text(value, latency["unit"]), _BAD if value < 0 else "bold")
    return text


def _incomplete(document: dict[str, Any]) -> list[Text]:
    reason = incomplete_text(document)
    return [] if reason is None else [Text(f"Incomplete: {one_line(reason)}", _BAD)]


def _verdict(counts: str, delivery: dict[str, Any], peer_to_peer: bool | None = None) -> Text:
    found = list(faults(delivery, peer_to_peer))
    text = Text(counts, "" if found else _GOOD)
    for words, is_bad in found:
        text.append("; ")
        text.append(words, _BAD if is_bad else _WARN)
    return text
