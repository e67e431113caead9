"""The first lines of a summary on a terminal: what matters, in colours that mean something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from quiver_fast.analysis.model.ranks import SECTIONS
from quiver_fast.analysis.model.units import latency_text, short_text

__all__ = ["arrow_headline", "fitted", "pair_headline", "print_headline"]

_GOOD, _WARN, _BAD = "green", "yellow", "red"
_NAMES = {"100": "max"}
_GAP = "   "
_LEAST_DOTS = 2
_DOTS = re.compile(r"\.{3,}")

# What can be wrong with the messages of a run: key, words, and how bad it is.
_FAULTS = (
    ("unreceived", "unreceived", _BAD),
    ("lost", "lost", _BAD),
    ("duplicate", "received twice or more", _BAD),
    ("reordered", "out of order", _WARN),
    ("foreign", "not of this run", _WARN),
    ("older", "of an earlier run", _WARN),
    ("negative_latency", "received before they were sent: the clocks differ", _WARN),
)


def pair_headline(document: dict[str, Any]) -> list[Text]:
    """Return the lines of a whole run, from the document that ``--json`` prints."""
    results, delivery = document["results"], document["delivery"]
    lines = [_figures(results["end_to_end_rate"], document["receiver"]["latency"])]
    lines += _incomplete(document)
    sent = f"{delivery['sent']:,} sent" if delivery.get("sent") is not None else "sent: unknown"
    return [*lines, _verdict(f"{sent}, {delivery['received']:,} received", delivery)]


def arrow_headline(summary: dict[str, Any]) -> list[Text]:
    """Return the lines of one arrow, from its summary."""
    results, delivery = summary["results"], summary.get("delivery")
    lines = [_figures(results["message_rate"], summary.get("latency")), *_incomplete(summary)]
    if delivery is not None:
        lines.append(_verdict(f"{delivery['received']:,} received", delivery))
    return lines


def print_headline(terminal: TextIO, lines: list[Text]) -> int:
    """Print the lines below an empty one; return the width of ``terminal``."""
    console = Console(file=terminal, highlight=False, markup=False, emoji=False)
    console.print()
    for text in lines:
        console.print(text)
    return console.width


def fitted(text: str, width: int) -> str:
    """Return lines of upstream's layout without the dots that ``width`` has no room for."""
    return "\n".join(_fitted_line(one, width) for one in text.split("\n"))


def _fitted_line(text: str, width: int) -> str:
    excess = len(text) - width
    dots = max(_DOTS.findall(text), key=len, default="")
    if excess <= 0 or not dots:
        return text
    return text.replace(dots, dots[: max(len(dots) - excess, _LEAST_DOTS)], 1)


def _figures(rate: float | None, latency: dict[str, Any] | None) -> Text:
    text = Text("-" if rate is None else short_text(rate), "bold")
    text.append(" messages/s")
    if latency is None or not latency["count"]:
        return text
    for rank in SECTIONS:
        value = latency["percentiles"][rank]
        text.append(f"{_GAP}{_NAMES.get(rank, f'p{rank}')} ", "dim")
        text.append(latency_text(value, latency["unit"]), _BAD if value < 0 else "bold")
    return text


def _incomplete(document: dict[str, Any]) -> list[Text]:
    if document.get("complete") is not False:
        return []
    return [Text(f"Incomplete: {document['reason'] or 'the run does not say why'}", _BAD)]


def _verdict(counts: str, delivery: dict[str, Any]) -> Text:
    faults = list(_faults(delivery))
    text = Text(counts, "" if faults else _GOOD)
    for words, style in faults:
        text.append("; ")
        text.append(words, style)
    return text


def _faults(delivery: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, words, style in _FAULTS:
        if delivery.get(key):
            yield f"{delivery[key]:,} {words}", style
