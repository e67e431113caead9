"""Sections as text: upstream's layout, tables, and the lines of a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from quiver_fast.analysis.sections.rows import TEXT, Grid, Row, Section, is_numeric


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
