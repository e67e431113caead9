"""The figures of runs in printed reports: a part of a line, or a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quiver_fast.analysis.model.figures import SET_FIGURES
from quiver_fast.analysis.model.units import average_text

Figures = Mapping[str, float] | None
LATENCIES = {name: one.name for name, one in SET_FIGURES.items() if one.rank}
"""The heads of latencies, by their names in documents."""
WIDTH = 12


def figures_text(heads: Mapping[str, str], figures: Figures) -> str:
    """Return figures with their heads: ``p50 1.02 ms, p99 3.4 ms``."""
    return ", ".join(f"{head} {_cell(figures, name)}" for name, head in heads.items())


def figures_table(
    heads: Mapping[str, str],
    rows: Sequence[tuple[str, Figures, str]],
    label: str = "",
    width: int = WIDTH,
) -> list[str]:
    """Return a head, which begins with ``label``, and a line for each label, figures, remark."""
    longest = max(map(len, (label, *(row[0] for row in rows))))
    lines = [f"{label:<{longest}}" + "".join(f"{head:>{width}}" for head in heads.values())]
    for name, figures, remark in rows:
        cells = "".join(f"{_cell(figures, figure):>{width}}" for figure in heads)
        lines.append(f"{name:<{longest}}{cells}{remark and f'  {remark}'}")
    return lines


def _cell(figures: Figures, name: str) -> str:
    return average_text((figures or {}).get(name), SET_FIGURES[name].unit)
