"""Reading a run of many ends: each file once, and all together as one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quiver_fast.analysis.figures.clock_step import largest_step
from quiver_fast.analysis.figures.delivery import least_reordered
from quiver_fast.analysis.figures.ends import (
    EndsReconciliation,
    Owners,
    Shares,
    all_of,
    bounds_of_ends,
    fairness,
    queues_of,
    schedule_of_ends,
)
from quiver_fast.analysis.figures.file_analysis import FileAnalysis
from quiver_fast.analysis.figures.latency import with_never_sent
from quiver_fast.analysis.figures.pair_results import pair_sections
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.schedule import unsent_waits
from quiver_fast.analysis.figures.sender_rate import end_of_sending, told_rate
from quiver_fast.analysis.figures.summary import receiver_sections, sender_sections
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.read.completeness import check_ends
from quiver_fast.analysis.read.discovery import RunFiles, end_of
from quiver_fast.analysis.read.local import Fold, with_missing
from quiver_fast.analysis.read.summary_file import summary_document, summary_path
from quiver_fast.analysis.tables.id_table import IdTable
from quiver_fast.analysis.tables.ticks import Ticks
from quiver_fast.errors import RecordError
from quiver_fast.records.formats import RECEIVE, SEND
from quiver_fast.records.frames import open_records
from quiver_fast.records.splits import scan_file, tells_ends

Progress = Callable[[int, int], None]
"""Called with the bytes read of the current file, and its size."""

_KEPT = ("complete", "reason", "exit_code", "clock_step", "host_use", "arrow", "environment")


@dataclass(frozen=True)
class EndRecords:
    """One end, as it is to be read.

    Attributes:
        role: "sender" or "receiver".
        number: which of them, from 0.
        path: its records.
        known: the rest of its summary: ``config``, ``complete``, ``reason`` and so on; a missing
            key is None.
    """

    role: str
    number: int
    path: Path
    known: dict[str, Any]

    @property
    def title(self) -> str:
        """Its name, or the names of its ends."""
        if self.members == 1:
            return f"{self.role} {self.first}"
        return f"{self.role}s {self.first} to {self.first + self.members - 1}"

    @property
    def first(self) -> int:
        """The number of the first end of its process, among all of its side."""
        return int(self.in_all.get("first", self.number))

    @property
    def members(self) -> int:
        """How many ends its process has."""
        return int(self.in_all.get("members", 1))

    def counts(self, count: int) -> list[int] | None:
        """Return the messages of each end of its process; None where they are not known.

        Args:
            count: those of all of them.
        """
        if self.members == 1:
            return [count]
        report = (self.known.get("arrow") or {}).get("ends")
        return None if report is None else list(report["counts"])

    @property
    def config(self) -> dict[str, Any]:
        """Its configuration; empty where no summary tells."""
        return self.known.get("config") or {}

    @property
    def in_all(self) -> dict[str, Any]:
        """The options of all ends; empty likewise."""
        return self.config.get("ends") or {}


def load_ends(files: RunFiles, progress: Progress) -> RunData:
    """Read the records of a run of many ends in this process.

    Raises:
        RecordError: records or a summary are damaged, or do not fit each other.
        OSError: a file cannot be read.
    """
    ends = [end_records(path) for path in files.paths]
    found = analyse_ends(files.name, ends, progress)
    check_ends(files.paths, found.ends or ())
    return found


def end_records(path: Path) -> EndRecords:
    """Return the end that a file of records is of, with the summary beside it.

    Raises:
        RecordError: the summary is damaged.
        OSError: it cannot be read.
    """
    role, number = end_of(path) or ("", 0)
    place = summary_path(path)
    return EndRecords(role, number, path, {} if place is None else summary_document(place))


def analyse_ends(name: str, ends: Sequence[EndRecords], progress: Progress) -> RunData:
    """Return a run of many ends.

    Args:
        name: its name.
        ends: all of them.
        progress: called as each file is read.

    Raises:
        As :func:`load_ends`.
    """
    senders, receivers = of_both_sides(name, ends)
    run = known_bounds(senders, receivers)
    sent = _read_senders(senders, progress)
    got = _read_receivers(receivers, sent, run, progress, shared=is_shared(receivers))
    return MergedEnds(name, senders, receivers, sent, got, run).data()


def of_both_sides(
    name: str, ends: Sequence[EndRecords]
) -> tuple[list[EndRecords], list[EndRecords]]:
    """Return the senders and the receivers of a run of many ends.

    Raises:
        RecordError: one side is missing.
    """
    senders = [end for end in ends if end.role == "sender"]
    receivers = [end for end in ends if end.role == "receiver"]
    if not senders or not receivers:
        missing = "receivers" if senders else "senders"
        raise RecordError(f"{name} has no {missing}: a run of many ends has both")
    return senders, receivers


def known_bounds(senders: Sequence[EndRecords], receivers: Sequence[EndRecords]) -> RunBounds:
    """Return the bounds that the summaries of all ends tell."""
    return bounds_of_ends([end.known for end in senders], [end.known for end in receivers])


def is_shared(receivers: Sequence[EndRecords]) -> bool:
    """Say whether some queue had several receivers; where no summary tells, it may have."""
    if any(end.members > 1 for end in receivers):
        return not _have_own_queues(receivers, "receivers")
    queues = [end.in_all.get("queue") for end in receivers]
    return len(receivers) > 1 and (None in queues or len({*queues}) < len(queues))


def hides_ends(ends: Sequence[EndRecords]) -> bool:
    """Say whether some ends of a side shared a process whose records do not tell them apart.

    Raises:
        OSError: a file cannot be read.
    """
    return any(end.members > 1 and not tells_ends(end.path) for end in ends)


def _have_own_queues(ends: Sequence[EndRecords], side: str) -> bool:
    """Say whether each end of a side, several of which may share a process, has a queue alone."""
    asked = ends[0].in_all
    return bool(asked.get(side) == asked.get("queues"))


@dataclass(frozen=True, eq=False)
class SentEnds:
    """The facts of the senders' files.

    Attributes:
        each: of each file.
        all: of all together.
        owners: which sender each place in the table of ids is of; empty where none is kept.
        alone: whether one sender alone sent to each queue.
        hidden: whether their records do not tell all of them apart.
    """

    each: list[FileAnalysis]
    all: FileAnalysis
    owners: Owners
    alone: bool
    hidden: bool


@dataclass(frozen=True, eq=False)
class ReceivedEnds:
    """The facts of the receivers' files, and the delivery of the messages."""

    each: list[FileAnalysis]
    all: FileAnalysis
    delivery: dict[str, Any]
    shares: Shares | None


def _read_senders(senders: Sequence[EndRecords], progress: Progress) -> SentEnds:
    ids, ticks = IdTable(), Ticks()
    found, owners = [], Owners()
    for end in senders:
        fold = Fold(keep_ticks=True, ids=ids, ticks=ticks)
        owners.add(ids.mark(), end.first)
        with open_records(end.path) as records:
            for batch in scan_file(records, operation=SEND, progress=progress):
                fold.watch(batch)
                if batch.ends is not None:
                    owners.add_batch(ids.mark(), batch)
                fold.add(batch)
            found.append(with_missing(records, fold.result()))
    return SentEnds(found, all_of(found), owners, sent_alone(senders), hides_ends(senders))


def sent_alone(senders: Sequence[EndRecords]) -> bool:
    """Say whether one sender alone sent to each queue, as far as the summaries tell."""
    if any(end.members > 1 for end in senders):
        return _have_own_queues(senders, "senders")
    queues = [end.in_all.get("queue") for end in senders]
    return len(senders) == 1 or (None not in queues and len({*queues}) == len(queues))


def _read_receivers(
    receivers: Sequence[EndRecords],
    sent: SentEnds,
    run: RunBounds,
    progress: Progress,
    *,
    shared: bool,
) -> ReceivedEnds:
    end = end_of_sending(sent.all, run)
    ending = None if end is None else (end, sent.all.time_unit)
    reconciliation = EndsReconciliation(sent.all, run, sent.owners, shared=shared)
    found = []
    for one in receivers:
        before = reconciliation.left_out
        reconciliation.begin_receiver(one.first)
        fold = Fold(keep_ids=False, ending=ending, sender=sent.all, run=run)
        with open_records(one.path) as records:
            for batch in scan_file(records, operation=RECEIVE, progress=progress):
                fold.add(reconciliation.own(batch, fold.watch(batch)))
            whole = with_missing(records, fold.result())
        older, foreign = reconciliation.left_out
        found.append(replace(whole, older=older - before[0], foreign=foreign - before[1]))
    if reconciliation.mixed:
        found = [_read_again(one, reconciliation, ending, sent.all, run) for one in receivers]
    shares = None if sent.hidden else reconciliation.shares()
    # Without ids nothing tells the senders of a queue apart.
    by_times = sum(one.reordered for one in found) if sent.alone else None
    reordered = by_times if shares is None else sum(shares.reordered.values())
    if hides_ends(receivers):
        reordered = None
    return ReceivedEnds(found, all_of(found), reconciliation.result_of(reordered), shares)


def _read_again(
    end: EndRecords,
    reconciliation: EndsReconciliation,
    ending: tuple[int, str] | None,
    sent: FileAnalysis,
    run: RunBounds,
) -> FileAnalysis:
    """Read a receiver's file without the messages of others, whose ids are known now."""
    sieve = reconciliation.sieve()
    fold = Fold(keep_ids=False, ending=ending, sender=sent, run=run)
    with open_records(end.path) as records:
        for batch in scan_file(records, operation=RECEIVE):
            fold.add(sieve.own(batch, fold.watch(batch)))
        return with_missing(records, fold.result(sieve))


class MergedEnds:
    """Makes one run of the facts of all files."""

    def __init__(
        self,
        name: str,
        senders: Sequence[EndRecords],
        receivers: Sequence[EndRecords],
        sent: SentEnds,
        received: ReceivedEnds,
        run: RunBounds,
    ) -> None:
        self._name = name
        self._senders, self._receivers = senders, receivers
        self._sent, self._received = sent, received
        self._run = run

    def data(self) -> RunData:
        """Return the run."""
        sent, received = self._sent.all, self._received.all
        senders, receivers = self._sender_ends(), self._receiver_ends()
        ends = [*senders, *receivers]
        sender = self._of_all(self._senders, sender_sections(sent), senders)
        receiver = self._of_all(self._receivers, receiver_sections(received, self._run), receivers)
        receiver["delivery"] = self._received.delivery
        unsent, unit = self._unsent(), received.time_unit
        receiver["latency"] |= with_never_sent(received.latencies, unsent, unit)
        sections = pair_sections(sent, received, self._run)
        schedules = [end["schedule"] for end in ends if "schedule" in end]
        if schedules:
            kept = sender["schedule"] = schedule_of_ends(schedules)
            rate = told_rate(kept["achieved"])
            sender["results"]["message_rate"] = rate
            sections["results"] = (sections["results"] or {}) | {"sender_rate": rate}
        settlement = sent.settlement
        return RunData(
            name=self._name,
            sender=sender,
            receiver=receiver,
            delivery=self._received.delivery,
            histogram=received.histogram,
            receipts=received.seconds,
            sends=sent.seconds,
            settlement=None if settlement is None else settlement.all,
            sections=sections,
            ends=ends,
            queues=queues_of(ends, (sections["results"] or {}).get("duration")),
            fairness={
                "senders": fairness(_counts_of(self._senders, self._sent.each)),
                "receivers": fairness(_counts_of(self._receivers, self._received.each)),
            },
        )

    def _unsent(self) -> Distribution:
        """Return the waits of the messages that no sender sent."""
        found = Distribution.none()
        for end, one in zip(self._senders, self._sent.each, strict=True):
            run = RunBounds.of(end.known, None)
            found = found.merged(unsent_waits(one, run, self._received.all.time_unit))
        return found

    def _sender_ends(self) -> list[dict[str, Any]]:
        shares = self._received.shares
        found = []
        for end, one in zip(self._senders, self._sent.each, strict=True):
            sections = sender_sections(one, RunBounds.of(end.known, None))
            members = range(end.first, end.first + end.members)
            delivered = None if shares is None else [shares.delivered.get(n, 0) for n in members]
            received = None if delivered is None else sum(delivered)
            sections["delivery"] = {"sent": one.count, "received": received}
            if end.members > 1:
                sections["members"] = _members(end, sent=end.counts(one.count), received=delivered)
            found.append(_end_summary(end, sections))
        return found

    def _receiver_ends(self) -> list[dict[str, Any]]:
        found = []
        for end, one in zip(self._receivers, self._received.each, strict=True):
            sections = receiver_sections(one, self._run)
            if end.members > 1:
                sections["members"] = _members(end, received=end.counts(one.count))
            sections["delivery"] = {
                "received": one.count,
                "older": one.older,
                "foreign": one.foreign,
                "reordered": self._reordered(end, one),
                "negative_latency": one.latencies.below(0),
            }
            found.append(_end_summary(end, sections))
        return found

    def _reordered(self, end: EndRecords, found: FileAnalysis) -> int | None:
        shares = self._received.shares
        if hides_ends([end]):
            return None
        if shares is None:
            duplicate = self._received.delivery["duplicate"]
            return least_reordered(found.reordered, duplicate) if self._sent.alone else None
        members = range(end.first, end.first + end.members)
        return sum(shares.reordered.get(number, 0) for number in members)

    def _of_all(
        self,
        ends: Sequence[EndRecords],
        sections: dict[str, Any],
        summaries: Sequence[dict[str, Any]],
    ) -> dict[str, Any]:
        """Return the summary of all ends of one side, in the wrappers' shape."""
        # Only the summary of a process knows whether its times are those of a schedule.
        back = [end["records"]["set_back_ms"] for end in summaries]
        sections["records"]["set_back_ms"] = max(filter(None, back), default=None)
        flags = [end.known.get("complete") for end in ends]
        reasons = [f"{end.title}: {end.known['reason']}" for end in ends if end.known.get("reason")]
        codes = [end.known.get("exit_code") for end in ends]
        return {
            "config": _config_of_all(ends),
            **sections,
            "complete": False if False in flags else None if None in flags else True,
            "reason": "; ".join(reasons) or None,
            "exit_code": next((code for code in codes if code), codes[0]),
            "clock_step": largest_step(end.known for end in ends),
            "arrow": None,
            "environment": ends[0].known.get("environment"),
            "host_use": _most_starved([end.known.get("host_use") for end in ends]),
            "file": str(ends[0].path.parent),
        }


def _most_starved(uses: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    known = [use for use in uses if use is not None]
    return max(known, key=lambda use: use.get("starved") or 0, default=None)


def _counts_of(ends: Sequence[EndRecords], found: Sequence[FileAnalysis]) -> list[int]:
    """Return the messages of each end; of each process where a process does not tell its ends'."""
    counts = [end.counts(one.count) for end, one in zip(ends, found, strict=True)]
    if None in counts:
        return [one.count for one in found]
    return [count for some in counts for count in some or ()]


def _members(end: EndRecords, **counts: list[int] | None) -> dict[str, Any]:
    """Return the summary of each end of a process, in the order of their numbers."""
    return {"first": end.first, "count": end.members, **counts}


def _end_summary(end: EndRecords, sections: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of one end: as it is in its file, with its name."""
    return {
        "name": end.title,
        "role": end.role,
        "number": end.number,
        "config": end.known.get("config"),
        **sections,
        **{key: end.known.get(key) for key in _KEPT},
        "file": str(end.path),
    }


def _config_of_all(ends: Sequence[EndRecords]) -> dict[str, Any] | None:
    """Return the configuration of the first end, with the options of all."""
    first = ends[0]
    if not first.config:
        return None
    asked = {key: value for key, value in first.in_all.items() if key not in ("number", "queue")}
    names = ("url", "path", "count", "rate", "rate_steps")
    return first.config | {
        "id": None,
        **{key: asked[key] for key in names if asked.get(key) is not None},
        "ends": {key: asked.get(key) for key in ("senders", "receivers", "queues")},
    }
