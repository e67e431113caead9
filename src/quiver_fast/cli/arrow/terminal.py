"""The summary on a terminal: first its headline, in colours that tell good from bad.

It fits 24 rows; with ``--verbose`` upstream's text follows instead of the rows.
"""

from __future__ import annotations

import re
from itertools import chain, zip_longest
from textwrap import wrap
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from quiver_fast.analysis.model.ranks import HEADLINE, known_ranks
from quiver_fast.analysis.model.units import NO_RATE, latency_text, short_text
from quiver_fast.analysis.sections.findings import findings
from quiver_fast.analysis.sections.headline import faults, incomplete_text, load_facts, run_rate
from quiver_fast.analysis.sections.rows import Grid, rank_name
from quiver_fast.analysis.sections.run import run_sections
from quiver_fast.analysis.sections.verdicts import verdict_section
from quiver_fast.analysis.show.text import brief_rows, grid_lines
from quiver_fast.cli.arrow.summary_text import pair_summary_text
from quiver_fast.errors import one_line, visible
from quiver_fast.words import counted

Row = tuple[str, str]
"""A name, and figures."""

_GOOD, _WARN, _BAD = "green", "yellow", "red"
_GAP = "   "
_LEAST_DOTS = 2
_LEAST_TEXT = 20
_DOTS = re.compile(r"\.{3,}")


def print_run(
    terminal: TextIO, run: dict[str, Any], *, verbose: bool, summarize: bool = True
) -> None:
    """Print the summary of a run, from its document.

    Findings of an analysis come last. With ``verbose`` the caller prints them as text.

    Args:
        terminal: where to.
        run: the document; one end may be None.
        verbose: print upstream's text in place of rows.
        summarize: print more than the headline.
    """
    console = Console(file=terminal, highlight=False, markup=False, emoji=False)
    console.print()
    for text in headline(run):
        console.print(text)
    verdicts = brief_rows([verdict_section(run.get("thresholds") or ())])
    if not summarize:
        return
    if verbose:
        _print_rows(console, verdicts)
        console.print(fitted(visible(pair_summary_text(run)), console.width))
        return
    _print_rows(console, [*verdicts, *run_rows(run), *finding_rows(run)])
    tables = [one.parts for one in run_sections(run) if one.title in ("STEPS", "FAULTS")]
    for grid in chain.from_iterable(tables):
        if isinstance(grid, Grid):
            console.print("\n".join(["", *grid_lines(grid)]), soft_wrap=True)


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


def headline(run: dict[str, Any]) -> list[Text]:
    """Return the first lines: the figures that matter, whether it is complete, and faults."""
    sender, receiver, delivery = run["sender"], run["receiver"], run["delivery"]
    both = sender is not None and receiver is not None
    rate = run["results"]["end_to_end_rate"] if both else run_rate(run)
    lines = [_figures(rate, (receiver or {}).get("latency")), *_incomplete(run)]
    if receiver is None or delivery is None:
        count = (sender or receiver)["results"]["message_count"]
        return [*lines, Text(f"{counted(count, 'message')} {'sent' if sender else 'received'}")]
    counts = f"{counted(delivery['received'], 'message')} received"
    if both:
        sent = f"{delivery['sent']:,} sent" if delivery.get("sent") is not None else "sent: unknown"
        counts = f"{sent}, {delivery['received']:,} received"
    return [*lines, _verdict(counts, delivery, run.get("peer_to_peer"))]


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
