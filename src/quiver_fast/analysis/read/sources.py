"""The local backend: it reads the files of a run into the data that all statistics need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quiver_fast.analysis.figures.file_analysis import FileAnalysis
from quiver_fast.analysis.figures.pair_results import pair_sections
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.summary import receiver_sections, sender_sections
from quiver_fast.analysis.figures.warmup import measured_since, without_warmup
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.read.completeness import check_whole, without_records
from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.ends import load_ends
from quiver_fast.analysis.read.local import analyze_file, analyze_receiver
from quiver_fast.analysis.read.summary_file import summary_document, summary_path
from quiver_fast.errors import RecordError
from quiver_fast.records.formats import RECEIVE, SEND
from quiver_fast.records.layout import line_fault

Progress = Callable[[int, int], None]
"""Called with the bytes read of the current file, and its size."""

# The keys of a wrapper's summary that the records do not tell.
_KEPT = (
    "config",
    "complete",
    "reason",
    "exit_code",
    "clock_step",
    "host_use",
    "arrow",
    "environment",
)


@dataclass(frozen=True)
class Wanted:
    """The outputs that a backend must know beforehand if the records are elsewhere.

    Attributes:
        interval_seconds, window_seconds: as :func:`.statistics.run_statistics` takes them.
        histogram: whether latencies are to be drawn or exported, not only summed up.
    """

    interval_seconds: float | None = None
    window_seconds: int | None = None
    histogram: bool = False


def load_run(files: RunFiles, progress: Progress) -> RunData:
    """Read the records of a run in this process, in one pass over each file.

    Raises:
        RecordError: a file holds no records, or those of the other end; a summary file
            beside the records is damaged.
        OSError: a file cannot be read.
    """
    if files.many:
        return load_ends(files, progress)
    run = run_bounds(files)
    if files.other is not None:
        found = checked(files.other, analyze_file(files.other, progress=progress, run=run))
        sends = found.histogram is None
        return run_data(files, found if sends else None, None if sends else found, None, run)
    sender, receiver, delivery = None, None, None
    if files.sender is not None:
        pair = files.receiver is not None
        sender = analyze_file(files.sender, operation=SEND, progress=progress, reconcilable=pair)
        checked(files.sender, sender)
    if files.receiver is not None and sender is not None:
        both = analyze_receiver(files.receiver, sender, progress=progress, run=run)
        receiver, delivery = checked(files.receiver, both.receiver), both.delivery
    elif files.receiver is not None:
        receiver = analyze_file(files.receiver, operation=RECEIVE, progress=progress, run=run)
        checked(files.receiver, receiver)
    return run_data(files, sender, receiver, delivery, run)


def run_bounds(files: RunFiles) -> RunBounds:
    """Return the bounds that the wrappers' summaries beside the records of a run tell.

    Raises:
        RecordError: a summary file is damaged.
        OSError: a summary file cannot be read.
    """
    if files.other is not None:
        known = _wrapper_summary(files.other)
        sends = (known["config"] or {}).get("operation") == SEND
        return RunBounds.of(known, None) if sends else RunBounds.of(None, known)
    ends = (files.sender, files.receiver)
    return RunBounds.of(*(None if path is None else _wrapper_summary(path) for path in ends))


def run_data(
    files: RunFiles,
    sender: FileAnalysis | None,
    receiver: FileAnalysis | None,
    delivery: dict[str, Any] | None,
    run: RunBounds,
) -> RunData:
    """Return the run whose ends were analysed.

    Args:
        files: the run's files; the wrappers' summaries beside them are read.
        sender: the facts of the sender's file, if there is one.
        receiver: the facts of the receiver's file, if there is one.
        delivery: the delivery by both ends; None for that which the receiver alone tells.
        run: the result of :func:`run_bounds`.

    Raises:
        RecordError: a summary file is damaged.
        OSError: a summary file cannot be read.
    """
    summaries: dict[str, dict[str, Any]] = {}
    sections: dict[str, Any] = dict.fromkeys(("results", "drain", "queue_growth", "steps"))
    if sender is not None:
        summaries["sender"] = _sender_summary(_path(files, files.sender), sender, run)
    if receiver is not None:
        path = _path(files, files.receiver)
        summaries["receiver"] = _receiver_summary(path, receiver, run, sender)
        delivery = summaries["receiver"]["delivery"] = delivery or summaries["receiver"]["delivery"]
    if sender is not None and receiver is not None:
        sections = pair_sections(sender, receiver, run)
    settlement = None if sender is None else sender.settlement
    since = measured_since(sender or receiver, run)
    sender = None if sender is None else without_warmup(sender, since)
    receiver = None if receiver is None else without_warmup(receiver, since)
    return RunData(
        name=files.name,
        sender=summaries.get("sender"),
        receiver=summaries.get("receiver"),
        delivery=delivery,
        histogram=None if receiver is None else receiver.histogram,
        receipts=None if receiver is None else receiver.seconds,
        sends=None if sender is None else sender.seconds,
        settlement=None if settlement is None else settlement.all,
        sections=sections,
    )


def _path(files: RunFiles, path: Path | None) -> Path:
    """Return ``path``, or the one file of the run, whose name does not tell its end."""
    found = path or files.other
    if found is None:
        raise ValueError("a run has a file for each of its ends")
    return found


def checked(path: Path, found: FileAnalysis) -> FileAnalysis:
    """Return ``found``, unless the file at ``path`` has no records or has lost some.

    A failed run leaves an empty file beside a wrapper's summary: it is returned.

    Raises:
        RecordError: it has none, or those of the other end; it is compressed and cut short;
            a summary file is damaged.
    """
    left = found.count + found.older + found.foreign
    check_whole(path, cut=found.cut, left=left, missing_bytes=found.missing_bytes)
    if left or found.streams is not None:
        return found
    if found.first_malformed is None and not found.truncated:
        if summary_path(path) is not None:
            return found
        raise RecordError(f"{path} is empty")
    if found.first_malformed is None:
        raise RecordError(f"{path} has no records: there is no line end in it")
    line, text = found.first_malformed
    what = "records" if found.operation is None else f"{found.operation} records"
    fault = line_fault(text, found.record_format, found.operation, found.time_unit)
    raise without_records(path, what, line, text, fault)


def _sender_summary(path: Path, found: FileAnalysis, run: RunBounds) -> dict[str, Any]:
    return _summary(path, _wrapper_summary(path), sender_sections(found, run))


def _receiver_summary(
    path: Path, found: FileAnalysis, run: RunBounds, sender: FileAnalysis | None
) -> dict[str, Any]:
    return _summary(path, _wrapper_summary(path), receiver_sections(found, run, sender))


def _summary(path: Path, kept: dict[str, Any], sections: dict[str, Any]) -> dict[str, Any]:
    """Return a summary in the wrappers' order of keys, and the file that it is of."""
    rest = {key: kept[key] for key in _KEPT if key != "config"}
    return {"config": kept["config"], **sections, **rest, "file": str(path)}


def _wrapper_summary(path: Path) -> dict[str, Any]:
    """Return the wanted keys of the summary file beside ``path``; None for missing ones."""
    place = summary_path(path)
    document = {} if place is None else summary_document(place)
    return {key: document.get(key) for key in _KEPT}
