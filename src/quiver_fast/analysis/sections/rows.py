"""Sections of figures: a renderer for each view walks them.

A row is a figure under its one name, with its value and its unit. A row that matters beside the
headline has words for a terminal, where the words of neighbours share a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from quiver_fast.analysis.model.ranks import FEW, SECTIONS, known_ranks
from quiver_fast.analysis.model.units import NO_RATE, latency_text

TEXT, PAGE = "text", "page"
"""The views that a row or a table may be for alone."""

_LOW_RATE = 10
_NUMBERS = frozenset("+-0123456789")


class Row(NamedTuple):
    """A figure, or without a name a line of words.

    Attributes:
        name: its one name.
        value: its text; ``-`` is not known.
        unit: of the value, where that does not have it.
        brief: the label and the words of its line on a terminal, which has no other rows.
        only: the view that has it, of text and page; None for both.
    """

    name: str
    value: str
    unit: str = ""
    brief: tuple[str, str] | None = None
    only: str | None = None


class Grid(NamedTuple):
    """A table under its heads."""

    name: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    only: str | None = None


class Section(NamedTuple):
    """Rows and tables below a title."""

    title: str
    parts: Sequence[Row | Grid]

    def of(self, view: str) -> list[Row | Grid]:
        """Return the parts that a view has."""
        return [part for part in self.parts if part.only in (None, view)]


def number(
    name: str,
    value: float | None,
    unit: str,
    brief: tuple[str, str] | None = None,
    form: str = ",.0f",
) -> Row:
    """Return the row of a number."""
    return Row(name, "-" if value is None else format(value, form), unit, brief)


def rate(name: str, value: float | None, brief: tuple[str, str] | None = None) -> Row:
    """Return the row of messages/s; None is the rate of messages that span no time."""
    if value is None:
        return Row(name, NO_RATE, "", brief)
    return number(name, value, "messages/s", brief, ".3g" if value < _LOW_RATE else ",.0f")


def latency(name: str, ticks: float | None, unit: str, *parts: Any) -> Row:
    """Return the row of a latency in ticks of ``unit``; ``parts`` are further ones of the row."""
    shown, _, shown_unit = ("-", "", unit) if ticks is None else latency_text(
        ticks, unit
    ).partition(" ")  # fmt: skip
    return Row(name, shown, shown_unit, *parts)


def told(found: Mapping[str, Any]) -> list[Section]:
    """Return sections by their titles, without those that have nothing to say."""
    sections = [Section(title, list(parts)) for title, parts in found.items()]
    return [section for section in sections if section.parts]


def rank_name(rank: str) -> str:
    """Return the name of a rank on a terminal: ``p99.9``, ``max``."""
    return {"0": "min", "100": "max"}.get(rank, f"p{rank}")


def rank_words(section: Mapping[str, Any], ranks: Sequence[str]) -> list[tuple[str, float, str]]:
    """Return rank, ticks and words of percentiles: ``p50 10.2 us``."""
    # Corrected latencies have no count.
    count = section.get("count")
    shown = ranks if count is None else known_ranks(ranks, count)
    known = [(rank, section["percentiles"].get(rank)) for rank in shown]
    return [
        (rank, value, f"{rank_name(rank)} {latency_text(value, section['unit'])}")
        for rank, value in known
        if value is not None
    ]


def percentile_rows(section: Mapping[str, Any], name: str, label: str | None) -> list[Row]:
    """Return the percentiles of a section that ``exact_latency`` made, a row each."""
    return [
        latency(f"{name} {rank}%", value, section["unit"], label and (label, words))
        for rank, value, words in rank_words(section, SECTIONS)
    ]


def cell_text(value: float | None, form: str = ",d") -> str:
    """Return a number as a cell of a table."""
    return "-" if value is None else format(value, form)


def few_latencies(section: Mapping[str, Any] | None) -> list[str]:
    """Return the cells of latencies in a table of several runs, ends or queues."""
    if not section or not section.get("count"):
        return ["-"] * len(FEW)
    return [latency_text(section["percentiles"][rank], section["unit"]) for rank in FEW]


def share_text(part: float) -> str:
    """Return a part of all messages as ``6.2 %``."""
    return f"{100 * part:.1f} %"


def is_numeric(cells: Sequence[str]) -> bool:
    """Say whether a column has numbers; ``-`` stands for one that is not known."""
    return all(cell[:1] in _NUMBERS for cell in cells) and any(cell != "-" for cell in cells)
