"""The documents of `quiver` beside its runs: of a search, a sweep, a set, a churn, a hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quiver_fast.analysis.read.discovery import search
from quiver_fast.analysis.read.set_layout import (
    CHURN_DOCUMENT,
    HOLD_DOCUMENT,
    RATE_DOCUMENT,
    SET_DOCUMENT,
    SWEEP_DOCUMENT,
)
from quiver_fast.analysis.read.summary_file import read_document
from quiver_fast.analysis.read.sweep_file import sweep_document

SEARCH, SWEEP, SET, CHURN, HOLD = "search", "sweep", "set", "churn", "hold"
KINDS = {
    RATE_DOCUMENT: SEARCH,
    SWEEP_DOCUMENT: SWEEP,
    SET_DOCUMENT: SET,
    CHURN_DOCUMENT: CHURN,
    HOLD_DOCUMENT: HOLD,
}


@dataclass(frozen=True)
class Answer:
    """The result of a measurement of several runs, or of connections.

    Attributes:
        kind: "search", "sweep", "set", "churn" or "hold".
        place: its file.
        document: the content.
    """

    kind: str
    place: Path
    document: dict[str, Any]


def read_answers(words: Iterable[str]) -> list[Answer]:
    """Return the documents that lie in the directories among ``words``.

    Raises:
        RecordError: one is damaged.
        OSError: one cannot be read.
    """
    places = [(Path(word) / name, kind) for word in words for name, kind in KINDS.items()]
    return [Answer(kind, place, _read(place, kind)) for place, kind in places if place.exists()]


def any_compares(answers: Iterable[Answer]) -> bool:
    """Whether runs of these answers have different loads, so that they are no series."""
    return any(one.kind in (SEARCH, SWEEP) for one in answers)


def _read(place: Path, kind: str) -> dict[str, Any]:
    return sweep_document(place) if kind == SWEEP else read_document(place, kind, _fault)


def without_runs(answers: Iterable[Answer]) -> set[Path]:
    """Return the directories that have an answer of connections and no records."""
    found = {one.place.parent for one in answers if one.kind in (CHURN, HOLD)}
    return {place for place in found if not search(place)}


def _fault(document: Any) -> str | None:
    if not isinstance(document, dict):
        return "it is no object"
    parts = ("sides", "environment")
    odd = [name for name in parts if not isinstance(document.get(name) or {}, dict)]
    return f"{odd[0]} is no object" if odd else None
