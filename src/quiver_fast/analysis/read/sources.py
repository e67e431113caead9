"""The local backend: it reads the files of a run into the data that all statistics need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from quiver_fast.analysis.figures.file_analysis import FileAnalysis
from quiver_fast.analysis.figures.ledger import ledger_section, with_ledger
from quiver_fast.analysis.figures.ledger_lines import LedgerSums
from quiver_fast.analysis.figures.pair_results import pair_sections
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.summary import receiver_sections, sender_sections
from quiver_fast.analysis.figures.warmup import measured_since, without_warmup
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.read.completeness import check_whole, without_records
from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.end_records import EndRecords, end_records
from quiver_fast.analysis.read.ends import load_ends
from quiver_fast.analysis.read.local import analyze_file, analyze_receiver
from quiver_fast.analysis.read.summary_file import summary_path
from quiver_fast.errors import RecordError
from quiver_fast.records.formats import RECEIVE, SEND
from quiver_fast.records.layout import line_fault

Progress = Callable[[int, int], None]
"""Called with the bytes read of the current file, and its size."""

# The keys of a wrapper's summary that the records do not tell.
_KEPT = (
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
    if files.other is not None:
        run = run_bounds(files)
        found = checked(files.other, analyze_file(files.other, progress=progress, run=run))
        sends = found.histogram is None
        return run_data(files, found if sends else None, None if sends else found, None, run)
    paths = {"sender": files.sender, "receiver": files.receiver}
    ends = [
        replace(end_records(path), role=role) for role, path in paths.items() if path is not None
    ]
    return analyse_pair(files.name, ends, progress, checked)


def analyse_pair(
    name: str,
    ends: Sequence[EndRecords],
    progress: Progress,
    judged: Callable[[Path, FileAnalysis], FileAnalysis] = lambda _path, found: found,
) -> RunData:
    """Return a run of one sender and one receiver, or of one of them.

    The receiver's records are compared with the sender's as they are read.

    Args:
        name: its name.
        ends: its ends, one of each role at the most.
        progress: called as each file is read.
        judged: returns the facts of a file, or refuses them.

    Raises:
        RecordError: records are damaged, or were refused.
        OSError: a file cannot be read.
    """
    of_role = {end.role: end for end in ends}
    sender, receiver = of_role.get("sender"), of_role.get("receiver")
    run = RunBounds.of(*(None if end is None else end.known for end in (sender, receiver)))

    def read(end: EndRecords, operation: str) -> FileAnalysis:
        kind, pair = end.record_format, receiver is not None
        return analyze_file(
            end.path, record_format=kind, operation=operation, progress=progress,
            reconcilable=pair, run=run,
        )  # fmt: skip

    sent, received, delivery, ledger = None, None, None, None
    if sender is not None:
        sent = judged(sender.path, read(sender, SEND))
    if receiver is not None and sent is None:
        received = judged(receiver.path, read(receiver, RECEIVE))
    elif receiver is not None and sent is not None:
        kind = receiver.record_format
        both = analyze_receiver(
            receiver.path, sent, record_format=kind, progress=progress, run=run
        )  # fmt: skip
        received, delivery = judged(receiver.path, both.receiver), both.delivery
        ledger = both.ledger
    return _data(name, (sender, sent), (receiver, received), delivery, run, ledger)


def run_bounds(files: RunFiles) -> RunBounds:
    """Return the bounds that the wrappers' summaries beside the records of a run tell.

    Raises:
        RecordError: a summary file is damaged.
        OSError: a summary file cannot be read.
    """
    if files.other is not None:
        end = end_records(files.other)
        sends = end.config.get("operation") == SEND
        return RunBounds.of(end.known, None) if sends else RunBounds.of(None, end.known)
    ends = (files.sender, files.receiver)
    return RunBounds.of(*(None if path is None else end_records(path).known for path in ends))


def run_data(
    files: RunFiles,
    sender: FileAnalysis | None,
    receiver: FileAnalysis | None,
    delivery: dict[str, Any] | None,
    run: RunBounds,
    ledger: LedgerSums | None = None,
) -> RunData:
    """Return the run whose ends were analysed.

    Args:
        files: the run's files; the wrappers' summaries beside them are read.
        sender: the facts of the sender's file, if there is one.
        receiver: the facts of the receiver's file, if there is one.
        delivery: the delivery by both ends; None for that which the receiver alone tells.
        run: the result of :func:`run_bounds`.
        ledger: the sums of its ledger; None of a run without one.

    Raises:
        RecordError: a summary file is damaged.
        OSError: a summary file cannot be read.
    """
    sending, receiving = (
        (None if found is None else end_records(_path(files, path)), found)
        for path, found in ((files.sender, sender), (files.receiver, receiver))
    )
    return _data(files.name, sending, receiving, delivery, run, ledger)


_Side: TypeAlias = tuple[EndRecords | None, FileAnalysis | None]


def _data(
    name: str,
    sending: _Side,
    receiving: _Side,
    delivery: dict[str, Any] | None,
    run: RunBounds,
    ledger: LedgerSums | None,
) -> RunData:
    (sender, sent), (receiver, received) = sending, receiving
    summaries: dict[str, dict[str, Any]] = {}
    sections: dict[str, Any] = dict.fromkeys(("results", "drain", "queue_growth", "steps"))
    if sender is not None and sent is not None:
        summaries["sender"] = _summary(sender, sender_sections(sent, run))
    if receiver is not None and received is not None:
        found = _summary(receiver, receiver_sections(received, run, sent))
        delivery = found["delivery"] = delivery or found["delivery"]
        summaries["receiver"] = found
    if sent is not None and received is not None:
        sections = pair_sections(sent, received, run, (delivery or {}).get("filtered"))
        if ledger is not None:
            schedule = summaries["sender"].get("schedule")
            sections["ledger"] = ledger_section(ledger, sent, received, schedule, run)
            delivery = with_ledger(delivery, sections["ledger"])
            summaries["receiver"]["delivery"] = delivery
    settlement = None if sent is None else sent.settlement
    since = measured_since(sent or received, run)
    sent = None if sent is None else without_warmup(sent, since)
    received = None if received is None else without_warmup(received, since)
    return RunData(
        name=name,
        sender=summaries.get("sender"),
        receiver=summaries.get("receiver"),
        delivery=delivery,
        histogram=None if received is None else received.histogram,
        receipts=None if received is None else received.seconds,
        sends=None if sent is None else sent.seconds,
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


def _summary(end: EndRecords, sections: dict[str, Any]) -> dict[str, Any]:
    """Return a summary in the wrappers' order of keys, and the file that it is of."""
    rest = {key: end.known.get(key) for key in _KEPT} | end.told
    rest |= {key: end.known[key] for key in ("failures",) if key in end.known}
    return {"config": end.known.get("config"), **sections, **rest, "file": str(end.path)}
