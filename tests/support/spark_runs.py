"""Runs for comparing Spark with the local engine."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from quiver_fast.analysis.export.json_text import json_text
from quiver_fast.analysis.read.discovery import RunFiles, find_runs
from quiver_fast.analysis.tables.spilled import SpilledHistogram


def ignore(_done: int, _total: int) -> None:
    """Show no progress."""


def comparable(value: Any) -> Any:
    """Return a value for `==`, with arrays as lists. Even floats are equal bit for bit."""
    if isinstance(value, SpilledHistogram):
        return [row.tolist() for rows in value.rows.chunks() for row in rows]
    if dataclasses.is_dataclass(value):
        return {f.name: comparable(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def as_json(value: Any) -> Any:
    """Return a value in the form of a document: floats have the digits of documents."""
    return json.loads(json_text(value))


def the_run(folder: Path) -> RunFiles:
    [run] = find_runs([str(folder)])
    return run
