"""The backend of an analysis, which reads the records: this process, or Spark."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.read.discovery import RunFiles, find_runs, is_url
from quiver_fast.analysis.read.sources import Progress, Wanted, load_run
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.extras import optional_module
from quiver_fast.records.frames import open_records

Tell = Callable[[str], None]

BACKENDS = ("auto", "local", "numpy", "spark")

LOCAL_LIMIT = 10**9
"""``auto`` takes Spark from about this many records on."""

_BYTES_PER_RECORD = 28  # a v3 receiver's line of milliseconds


@dataclass(frozen=True)
class Backend:
    """A backend of the analysis.

    Attributes:
        name: ``local`` or ``spark``.
        load: reads a run; raises :class:`quiver_fast.errors.QuiverError` and OSError.
        warning: why it is not the one that the size of the files asks for, in one line;
            None where it is.
    """

    name: str
    load: Callable[[RunFiles, Progress], RunData]
    warning: str | None = None


def backend_of(asked: str, words: Sequence[str]) -> str:
    """Return the backend that is meant: Spark reads URLs.

    Raises:
        UsageError: another one is asked for.
    """
    urls = [word for word in words if is_url(word)]
    if not urls:
        return asked
    if asked not in ("auto", "spark"):
        raise UsageError(f"'{urls[0]}': --engine {asked} reads files of this machine only")
    return "spark"


def find_files(
    words: Sequence[str], master: str | None, conf: Mapping[str, str], tell: Tell | None = None
) -> list[RunFiles]:
    """Return the runs that the words of the command line name; Spark starts for URLs.

    ``tell`` is called before Java starts, with a line about the time that it takes.

    Raises:
        OSError: a file system cannot be reached.
        QuiverError: nothing is there, or Spark cannot start.
    """
    if not any(is_url(word) for word in words):
        return find_runs(words)
    return find_runs(words, _spark().files_elsewhere(master, conf, tell))


def choose_backend(
    asked: str,
    master: str | None,
    runs: Sequence[RunFiles],
    wanted: Wanted,
    conf: Mapping[str, str] | None = None,
    tell: Tell | None = None,
) -> Backend:
    """Return the backend that was asked for; ``auto`` goes by the size of the files.

    Where Spark cannot start, ``auto`` without a master and settings is the local backend,
    which reads files of any size too.

    Args:
        asked: one of ``BACKENDS``.
        master: a Spark master.
        runs: all that will be read.
        wanted: the outputs that are wanted of them.
        conf: Spark's settings.
        tell: is called before Java starts, with a line about the time that it takes.

    Raises:
        OSError: a file cannot be read.
        UsageError: a Spark master or a setting is given to the local backend.
        QuiverError: Spark is asked for and not installed.
    """
    if asked == "auto" and master is None and not conf:
        return _by_size(runs, wanted, tell)
    if asked in ("auto", "spark"):
        return Backend("spark", _spark_loader(master, runs, wanted, conf or {}, tell))
    if master is not None or conf:
        raise UsageError(f"{'--conf' if conf else '--master'} is for --engine spark")
    return Backend("local", load_run)


def _by_size(runs: Sequence[RunFiles], wanted: Wanted, tell: Tell | None) -> Backend:
    if estimated_records(runs) < LOCAL_LIMIT:
        return Backend("local", load_run)
    try:
        load = _spark_loader(None, runs, wanted, {}, tell)
        missing = importlib.import_module("spark_analysis.java").why_java_is_missing()
    except QuiverError as error:
        missing = str(error)
    if missing is None:
        return Backend("spark", load)
    return Backend("local", load_run, f"analysing here, not with Spark: {missing}")


def estimated_records(runs: Sequence[RunFiles]) -> int:
    """Return about how many records the files of ``runs`` hold, by the size of their text.

    Raises:
        OSError: a file cannot be read.
    """
    return sum(_text_size(path) for run in runs for path in run.paths) // _BYTES_PER_RECORD


def _text_size(path: Path) -> int:
    with open_records(path) as records:
        return records.text_size


def _spark() -> ModuleType:
    purpose = "--engine spark (--engine local does without)"
    return optional_module("spark_analysis.backend", purpose, "spark")


def _spark_loader(
    master: str | None,
    runs: Sequence[RunFiles],
    wanted: Wanted,
    conf: Mapping[str, str],
    tell: Tell | None,
) -> Callable[[RunFiles, Progress], RunData]:
    loader: Callable[[RunFiles, Progress], RunData]
    loader = _spark().run_loader(master, runs, wanted, conf, tell)
    return loader
