"""Sections of figures: a renderer for each view walks them.

A row is a figure under its one name, with its value and its unit. A row that matters beside the
headline has words for a terminal, where the words of neighbours share a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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


def section_text(section: Section) -> str:
    """Return a section in upstream's layout; empty where the text has nothing of it."""
    parts = section.of(TEXT)
    lines = [line for part in parts for line in _lines(part)]
    return heading_text(section.title, lines) if parts else ""


def heading_text(heading: str, lines: Sequence[str]) -> str:
    """Return a heading and its lines, with blank lines around the heading."""
    return "\n".join(["", heading, "", *lines]) + "\n"


def _lines(part: Row | Grid) -> list[str]:
    return grid_lines(part) if isinstance(part, Grid) else [row_line(part)]


def row_line(row: Row) -> str:
    """Return a line such as ``Count ......... 1,000 messages``, whose value ends in column 61."""
    if not row.name:
        return row.value
    name, value = (24, 37) if row.unit else (19, 42)
    return f"{row.name + ' ':.<{name}}{' ' + row.value:.>{value}} {row.unit}".rstrip()


def grid_lines(grid: Grid) -> list[str]:
    """Return the lines of a table: words stand left, numbers right."""
    columns = [*zip(grid.heads, *grid.rows, strict=True)]
    cells = [[_aligned(cell, column) for cell in column] for column in columns]
    return ["  ".join(line).rstrip() for line in zip(*cells, strict=True)]


def _aligned(cell: str, column: Sequence[str]) -> str:
    width = max(map(len, column))
    return cell.rjust(width) if is_numeric(column[1:]) else cell.ljust(width)


def is_numeric(cells: Sequence[str]) -> bool:
    """Say whether a column has numbers; ``-`` stands for one that is not known."""
    return all(cell[:1] in _NUMBERS for cell in cells) and any(cell != "-" for cell in cells)


def brief_rows(sections: Sequence[Section]) -> list[tuple[str, str]]:
    """Return the lines of a terminal: a label, and the words of the rows with that label."""
    lines: dict[object, tuple[str, list[str]]] = {}
    for section in sections:
        for part in section.parts:
            if isinstance(part, Row) and part.brief is not None:
                label, words = part.brief
                # A line of words is whole.
                key = label if part.name else (label, words)
                lines.setdefault(key, (label, []))[1].append(words)
    return [(label, ", ".join(words)) for label, words in lines.values()]
