"""Which engine reads the records: this process, or Spark."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quiver_fast.analysis.discovery import RunFiles
from quiver_fast.analysis.sources import Progress, RunData, Wanted, load_run
from quiver_fast.errors import QuiverError, UsageError

__all__ = ["ENGINES", "Engine", "choose_engine", "estimated_records"]

ENGINES = ("auto", "local", "numpy", "spark")

LOCAL_LIMIT = 10**9
"""From about so many records on, ``auto`` is Spark."""

# A v3 receiver's line of milliseconds; and what zstd makes of many of them.
_BYTES_PER_RECORD = 28
_COMPRESSED_BYTES_PER_RECORD = 1
_ZSTD_SUFFIX = ".zst"


@dataclass(frozen=True)
class Engine:
    """An engine.

    Attributes:
        name: ``local`` or ``spark``.
        load: reads a run; raises :class:`quiver_fast.errors.QuiverError` and OSError.
    """

    name: str
    load: Callable[[RunFiles, Progress], RunData]


def choose_engine(
    asked: str, master: str | None, runs: Sequence[RunFiles], wanted: Wanted
) -> Engine:
    """Return the engine that was asked for; ``auto`` goes by the size of the files.

    Raises:
        UsageError: a Spark master is given to the local engine.
        QuiverError: Spark is to be used and not installed.
    """
    if asked == "auto":
        big = master is not None or estimated_records(runs) >= LOCAL_LIMIT
        asked = "spark" if big else "local"
    if asked == "spark":
        return Engine("spark", _spark_loader(master, runs, wanted))
    if master is not None:
        raise UsageError("--master is for --engine spark")
    return Engine("local", load_run)


def estimated_records(runs: Sequence[RunFiles]) -> int:
    """Return about how many records the files of ``runs`` hold, by their sizes."""
    total = 0
    for path in (path for run in runs for path in run.paths):
        compressed = path.suffix == _ZSTD_SUFFIX
        share = _COMPRESSED_BYTES_PER_RECORD if compressed else _BYTES_PER_RECORD
        total += path.stat().st_size // share
    return total


def _spark_loader(
    master: str | None, runs: Sequence[RunFiles], wanted: Wanted
) -> Callable[[RunFiles, Progress], RunData]:
    try:
        engine = importlib.import_module("spark_analysis.engine")
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        raise QuiverError(
            f"--engine spark needs {missing}, which is not installed: "
            "pip install 'quiver-fast[spark]' (--engine local does without)"
        ) from None
    loader: Callable[[RunFiles, Progress], RunData] = engine.run_loader(master, runs, wanted)
    return loader
