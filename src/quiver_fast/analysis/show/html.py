"""The parts of all pages of HTML, which need no network and run no script.

One design for each page: the load, a few figures, the verdict; then charts; then tables.
It has light and dark colours, fits a phone, and prints.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from quiver_fast.analysis.sections.rows import PAGE, Grid, Section, is_numeric
from quiver_fast.analysis.show.style import STYLE
from quiver_fast.errors import visible

Tile = tuple[str, str]
"""The name of a figure, and its value."""
Rows = dict[str, str | None]
"""Names, and their values; None for unknown ones."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_WORDS = ("better", "worse", "mixed", "ok", "breached")


def escape(text: str) -> str:
    """Return text as HTML that shows it, with control characters escaped."""
    return html.escape(visible(text))


def html_page(title: str, body: str) -> str:
    """Return a whole document; its Content-Security-Policy forbids to load anything.

    Args:
        title: text.
        body: HTML.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n</main>\n</body>\n</html>\n"
    )


def html_sentences(sentences: Sequence[str]) -> str:
    """Return sentences; the first one is the answer."""
    first, *others = sentences
    more = f"<p>{escape(' '.join(others))}</p>" if others else ""
    return f'<p class="verdict">{escape(first)}</p>{more}'


def html_state(words: str, bad: bool) -> str:
    """Return a verdict on a whole, in the colour of good or bad."""
    return f'<p class="verdict {"bad" if bad else "good"}">{escape(words)}</p>'


def html_tiles(tiles: Sequence[Tile]) -> str:
    """Return the few figures that matter, in large digits."""
    shown = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles
    )
    return f'<dl class="tiles">{shown}</dl>'


def html_facts(facts: Mapping[str, str | None]) -> str:
    """Return names and their known values; empty without any."""
    shown = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts.items()
        if value
    )
    return f'<dl class="facts">{shown}</dl>' if shown else ""


def html_details(summary: str, body: str) -> str:
    """Return a part that is folded below its heading; empty without a body."""
    if not body:
        return ""
    return f"<details><summary><h2>{escape(summary)}</h2></summary>{body}</details>"


def html_table(rows: Mapping[str, str | None]) -> str:
    """Return names and their known values as a table."""
    cells = [
        f'<tr><th scope="row">{escape(name)}</th>{html_cell(value, numeric=False)}</tr>'
        for name, value in rows.items()
        if value is not None
    ]
    return f"<table>{''.join(cells)}</table>"


def html_columns(tables: Mapping[str, Rows]) -> str:
    """Return tables of names and values beside each other, without empty ones."""
    shown = [
        f"<div><h3>{escape(name)}</h3>{html_table(rows)}</div>"
        for name, rows in tables.items()
        if any(rows.values())
    ]
    return f'<div class="columns">{"".join(shown)}</div>' if shown else ""


def html_section(section: Section, *, titled: bool = False) -> str:
    """Return the tables and the words of a section; ``titled`` ones have its title."""
    shown = "".join(
        html_grid(part.heads, part.rows, part.name)
        if isinstance(part, Grid)
        else f"<p>{escape(part.value[:1].upper() + part.value[1:])}</p>"
        for part in section.of(PAGE)
        if isinstance(part, Grid) or not part.name
    )
    return f"<h3>{escape(section.title.capitalize())}</h3>{shown}" if shown and titled else shown


def html_bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Return bars below a title: for each the name, the length, and the text behind it."""
    most = max(length for _, length, _ in rows) or 1.0
    bars = "".join(
        f"<span>{escape(name)}</span>"
        f'<span><i class="bar" style="width:{100 * max(length, 0) / most:.1f}%"></i></span>'
        f'<span class="number">{escape(text)}</span>'
        for name, length, text in rows
    )
    return f'<section><h3>{escape(title)}</h3><div class="bars">{bars}</div></section>'


def html_grid(
    heads: Sequence[str], rows: Sequence[Sequence[str]], name: str, *, markup: bool = False
) -> str:
    """Return a table of texts under their heads; columns of numbers stand right.

    A page that is too narrow for it has it scroll.

    Args:
        heads: texts.
        rows: texts; HTML in the first and the last column where ``markup``.
        name: the name of the table.
        markup: the first and the last cell of a row are HTML.
    """
    right = [is_numeric([row[n] for row in rows]) for n in range(len(heads))]
    head = "".join(
        f'<th scope="col"{_number_class(numeric)}>{escape(text)}</th>'
        for text, numeric in zip(heads, right, strict=True)
    )
    body = "".join(f"<tr>{_row(row, right, markup)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: Sequence[str], right: Sequence[bool], markup: bool) -> str:
    raw = (0, len(row) - 1) if markup else ()
    return "".join(
        f"<td>{cell}</td>" if n in raw else html_cell(cell, right[n]) for n, cell in enumerate(row)
    )


def html_cell(text: str, numeric: bool) -> str:
    """Return one cell; ``numeric`` ones stand right."""
    return f"<td{_number_class(numeric)}>{html_verdict(text)}</td>"


def _number_class(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def html_verdict(text: str) -> str:
    """Return ``text`` in the colour of its verdict."""
    if text in _WORDS:
        return f'<span class="{text}">{text}</span>'
    return escape(text)
