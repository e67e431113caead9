"""JSON for people and programs: indented, but a list of plain values is one line.

A series has a number for each second of a run. With one number a line, most of the text would
be indentation. The text is made in pieces, because it may be larger than its document.

No figure needs more than nine digits: clocks and machines are coarser, and further digits of a
float are rounding errors of binary fractions (601.010000000002).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from quiver_fast.analysis.model.columns import Column, Rows

_STEP = "  "
_DIGITS = 9
_WHOLE = 1e9  # from here on nine digits would cut whole units


def json_text(document: Any) -> str:
    """Return ``document`` as JSON text without a newline at its end.

    Args:
        document: a value for :func:`json.dumps` whose keys are strings. Columns and rows
            (:mod:`quiver_fast.analysis.model.columns`) may stand for lists.
    """
    return "".join(json_pieces(document))


def json_pieces(document: Any) -> Iterator[str]:
    """Yield the text of :func:`json_text` in pieces."""
    return _rendered(document, "\n")


def _rendered(value: Any, newline: str) -> Iterator[str]:
    """Yield the text of a value; ``newline`` and the indentation begin each further line."""
    inner = newline + _STEP
    if isinstance(value, Column):
        yield from _column(value)
    elif isinstance(value, dict) and value:
        yield from _enclosed("{}", _items(value, inner), newline)
    elif _has_rows(value):
        yield from _enclosed("[]", (_rendered(item, inner) for item in value), newline)
    else:
        yield json.dumps(_rounded(list(value) if isinstance(value, Rows) else value))


def _rounded(value: Any) -> Any:
    """Return a plain value or a list of them, with floats rounded to nine digits."""
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    if not isinstance(value, float):
        return value
    return float(f"{value:.{_DIGITS}g}") if abs(value) < _WHOLE else round(value, 0)


def _items(value: dict[str, Any], inner: str) -> Iterator[Iterator[str]]:
    for key, item in value.items():
        yield _named(key, _rendered(item, inner))


def _named(key: str, text: Iterable[str]) -> Iterator[str]:
    yield f"{json.dumps(key)}: "
    yield from text


def _enclosed(brackets: str, items: Iterable[Iterable[str]], newline: str) -> Iterator[str]:
    """Yield one or more items in brackets; each item begins a line."""
    before = brackets[0]
    for item in items:
        yield before + newline + _STEP
        yield from item
        before = ","
    yield newline + brackets[1]


def _column(column: Column) -> Iterator[str]:
    before = "["
    for numbers in column.lists():
        yield before + json.dumps(_rounded(numbers))[1:-1]
        before = ", "
    yield "]" if len(column) else "[]"


def _has_rows(value: Any) -> bool:
    if isinstance(value, Rows):
        return len(value) > 0
    return isinstance(value, (list, tuple)) and any(map(_has_parts, value))


def _has_parts(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple, Column, Rows))
