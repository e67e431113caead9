"""The figures that the documents quote: one file, written by runs of the bench.

`make bench PYTEST_ARGS="--bench-full --bench-record"` writes its figures, `make docs` then
writes them into the documents.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from bench.comparison import Row

RESULTS = Path(__file__).with_name("results") / "figures.json"


@dataclass(frozen=True)
class Figure:
    """One figure of a case, a median over rounds; None for an unrecorded number.

    Attributes:
        ours: in the unit of :data:`bench.comparison.METRICS`.
        reference: the same of the reference.
        gated: the value of the gate, mostly the median of the rounds' ratios.
    """

    ours: float | None
    reference: float | None
    gated: float | None

    @property
    def ratio(self) -> float:
        """Ours to the reference's."""
        if self.gated is not None:
            return self.gated
        if self.ours is None or not self.reference:
            raise ValueError("neither a ratio nor both figures are recorded")
        return self.ours / self.reference


def load(path: Path = RESULTS) -> dict[str, dict[str, Figure]]:
    """Return the recorded figures by case and metric."""
    return {
        case: {metric: Figure(**figure) for metric, figure in entry["figures"].items()}
        for case, entry in json.loads(path.read_text(encoding="utf-8")).items()
    }


def save(rows: Iterable[Row], rounds: dict[str, int], command: str, path: Path = RESULTS) -> None:
    """Replace the figures of the same cases with those of a run.

    Args:
        rows: the figures.
        rounds: of each case.
        command: the command of the run.
        path: the file.
    """
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    measured: dict[str, dict[str, Any]] = {}
    for row in rows:
        measured.setdefault(row.case, {})[row.metric] = {
            "ours": _short(row.ours),
            "reference": _short(row.reference),
            "gated": _short(row.gated),
        }
    for case, figures in measured.items():
        document[case] = {
            "date": str(date.today()),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.platform()}",
            "load": f"{os.getloadavg()[0]:.1f} at its end",
            "rounds": rounds[case],
            "command": command,
            "figures": figures,
        }
    text = json.dumps(document, indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def _short(number: float) -> float:
    """Return a number with four significant digits."""
    return float(f"{number:.4g}")
