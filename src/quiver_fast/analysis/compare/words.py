"""The verdict on a comparison, as a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quiver_fast.analysis.compare.comparison import BETTER, NOT_SHOWN, WORSE
from quiver_fast.analysis.compare.reach import NO_DIFFERENCE


def in_words(comparison: Mapping[str, Any]) -> str:
    """Return what the terminal and the page say of a comparison."""
    parts = []
    for verdict in (BETTER, WORSE):
        found = [
            name.replace("_", " ")
            + (f" ({figure['change']:+.1%})" if figure["change"] is not None else " (-)")
            for name, figure in comparison["figures"].items()
            if figure["verdict"] == verdict
        ]
        if found:
            parts.append(f"{verdict} in {', '.join(found)}")
    if parts:
        return f"The candidate is {' and '.join(parts)}."
    if comparison["verdict"] == NOT_SHOWN:
        return "No difference of the runs is shown. More runs show smaller ones."
    if comparison["verdict"].startswith(NO_DIFFERENCE):
        return "No figure of the candidate differs by more than that: the intervals prove it."
    return "With so few runs a difference of the sets is not told from one between runs."
