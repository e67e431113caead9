"""The summary on a terminal: first its headline, in colours that tell good from bad.

It fits 24 rows; with ``--verbose`` upstream's text follows instead of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from quiver_fast.analysis.figures.delivery import lost_text
from quiver_fast.analysis.model.ranks import HEADLINE, known_ranks
from quiver_fast.analysis.model.units import NO_RATE, latency_text, short_text
from quiver_fast.cli.arrow.brief import Row, arrow_rows, pair_rows, rank_name, threshold_rows
from quiver_fast.cli.arrow.steps_text import step_lines
from quiver_fast.cli.arrow.summary_text import arrow_summary_text, pair_summary_text
from quiver_fast.errors import one_line, visible
from quiver_fast.words import counted

_GOOD, _WARN, _BAD = "green", "yellow", "red"
_GAP = "   "
_LEAST_DOTS = 2
_LEAST_TEXT = 20
_DOTS = re.compile(r"\.{3,}")

# Faults of the messages of a run: key, words, and severity.
_FAULTS = (
    ("unreceived", "unreceived", _BAD),
    ("lost", "lost", _BAD),
    ("duplicate", "received twice or more", _BAD),
    ("reordered", "out of order", _WARN),
    ("foreign", "not of this run", _WARN),
    ("older", "of an earlier run", _WARN),
    ("negative_latency", "received before they were sent: the clocks differ", _WARN),
)


def print_pair(
    terminal: TextIO, document: dict[str, Any], *, verbose: bool, findings: Sequence[Row] = ()
) -> None:
    """Print the summary of a whole run, from the document that ``--json`` prints.

    ``findings`` are of an analysis, and come last. With ``verbose`` the caller prints them as text.
    """
    verdicts = threshold_rows(document.get("thresholds") or [])
    console = _print_headline(terminal, pair_headline(document))
    if verbose:
        _print_rows(console, verdicts)
        console.print(fitted(visible(pair_summary_text(document)), console.width))
        return
    _print_rows(console, [*verdicts, *pair_rows(document), *findings])
    if document.get("steps"):
        console.print("\n".join(["", *step_lines(document["steps"])]), soft_wrap=True)


def print_arrow(
    terminal: TextIO,
    summary: dict[str, Any],
    *,
    summarize: bool,
    verbose: bool,
    findings: Sequence[Row] = (),
) -> None:
    """Print the summary of one arrow; without ``summarize`` only its headline."""
    console = _print_headline(terminal, arrow_headline(summary))
    if not summarize:
        return
    if verbose:
        console.print(fitted(visible(arrow_summary_text(summary)), console.width))
    else:
        _print_rows(console, [*arrow_rows(summary), *findings])


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
    if document.get("complete") is not False:
        return []
    reason = document["reason"] or "the run does not say why"
    return [Text(f"Incomplete: {one_line(reason)}", _BAD)]


def _verdict(counts: str, delivery: dict[str, Any], peer_to_peer: bool | None = None) -> Text:
    faults = list(_faults(delivery, peer_to_peer))
    text = Text(counts, "" if faults else _GOOD)
    for words, style in faults:
        text.append("; ")
        text.append(words, style)
    return text


def _faults(delivery: dict[str, Any], peer_to_peer: bool | None) -> Iterator[tuple[str, str]]:
    for key, words, style in _FAULTS:
        if delivery.get(key):
            words = lost_text(peer_to_peer) if key == "lost" else words
            yield f"{delivery[key]:,} {words}", style
