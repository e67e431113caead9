"""Lines of a printed summary."""

from __future__ import annotations

from quiver_fast.analysis.sections.rows import Row, number
from quiver_fast.analysis.show.text import row_line


def text_field(name: str, value: str) -> str:
    return row_line(Row(name, value))


def number_field(name: str, value: float | None, unit: str, form: str = ",.0f") -> str:
    return row_line(number(name, value, unit, None, form))
