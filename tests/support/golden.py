"""Small files of records of each format, with the expected analysis.

The records have faults: losses, duplicates, reordered and malformed lines, a truncated end,
clocks that differ, settlements that are missing, repeated or of ids never sent.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.model.columns import listed
from quiver_fast.analysis.read.discovery import RunFiles

_FOLDER = Path(__file__).with_name("golden_records")
_DIGITS = 12

GOLDEN = {"v1": "receiver", "v2": "sender", "v3": "receiver", "arm64": "receiver"}
"""The end of the file, by format; the records and the figures of `arm64` (v3) were made there."""


def golden_run(record_format: str) -> RunFiles:
    """Return the run of the golden file of a format."""
    role = GOLDEN[record_format]
    path = _FOLDER / f"{record_format}-{role}-transfers.csv"
    return RunFiles(record_format, **{role: path})


def expected(record_format: str) -> Any:
    """Return the expected result of :func:`told`."""
    return _rounded(json.loads((_FOLDER / f"{record_format}-expected.json").read_text()))


def told(run: RunData, statistics: dict[str, Any]) -> Any:
    """Return an engine's document of a run, without the path of its file."""
    ends = {"sender": run.sender, "receiver": run.receiver}
    summaries = {
        name: {key: value for key, value in end.items() if key != "file"}
        for name, end in ends.items()
        if end is not None
    }
    said = {**summaries, "delivery": run.delivery, "analysis": statistics}
    return _rounded(json.loads(json.dumps(said, default=listed)))


def _rounded(value: Any) -> Any:
    """Leave out the digits of floats that another order of a sum may change."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
