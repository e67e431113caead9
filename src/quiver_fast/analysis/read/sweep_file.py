"""The points of `quiver --sweep`, read again to draw them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quiver_fast.analysis.read.set_layout import SWEEP_DOCUMENT
from quiver_fast.analysis.read.summary_file import read_document

# The figures of a point that are drawn.
_FIGURES = ("message_rate", "latency_p50", "latency_p99")


@dataclass(frozen=True)
class SweptPoint:
    """One point of a sweep.

    Attributes:
        values: of the options there.
        sustained: the target took the load.
        figures: of the steady state, latencies in milliseconds; None where there are none.
    """

    values: Mapping[str, str]
    sustained: bool
    figures: Mapping[str, float] | None


@dataclass(frozen=True)
class SweptValues:
    """One sweep.

    Attributes:
        name: its directory.
        target: the target of the measurement.
        options: their names; the last one changed fastest.
        points: in the order of measuring.
    """

    name: str
    target: str
    options: tuple[str, ...]
    points: tuple[SweptPoint, ...]


def read_sweeps(words: Iterable[str]) -> list[SweptValues]:
    """Return the sweeps that lie in the directories among ``words``.

    Raises:
        RecordError: the document of one is damaged.
        OSError: it cannot be read.
    """
    places = [(word, Path(word) / SWEEP_DOCUMENT) for word in words]
    return [_sweep(word, place) for word, place in places if place.exists()]


def sweep_document(place: Path) -> dict[str, Any]:
    """Return the document of a sweep.

    Raises:
        RecordError: it is damaged, or no such document.
        OSError: it cannot be read.
    """
    return read_document(place, "sweep", sweep_fault)


def _sweep(name: str, place: Path) -> SweptValues:
    found = sweep_document(place)
    points = tuple(
        SweptPoint(point["values"], point["sustained"], point["figures"])
        for point in found["points"]
    )
    return SweptValues(name, found["target"], tuple(found["options"]), points)


def sweep_fault(document: Any) -> str | None:
    """Return the first fault of a document that should be a sweep, None for none."""
    if not isinstance(document, dict):
        return "it is no object"
    options, points = document.get("options"), document.get("points")
    if not isinstance(document.get("target"), str):
        return "it has no target"
    if not isinstance(options, list) or not all(isinstance(name, str) for name in options):
        return "options is no list of names"
    if not isinstance(points, list):
        return "points is no list"
    for number, point in enumerate(points):
        if not _is_point(point, options):
            return f"points[{number}] is no point of a sweep"
    return None


def _is_point(point: Any, options: list[str]) -> bool:
    if not isinstance(point, dict) or not isinstance(point.get("sustained"), bool):
        return False
    values, figures = point.get("values"), point.get("figures", "")
    if not isinstance(values, dict) or not all(isinstance(values.get(o), str) for o in options):
        return False
    return figures is None or (
        isinstance(figures, dict) and all(_is_number(figures.get(name)) for name in _FIGURES)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
