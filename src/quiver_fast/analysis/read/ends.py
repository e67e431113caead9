"""Reading a run of many ends: each file once, and all together as one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from quiver_fast.analysis.figures.clock_step import largest_step
from quiver_fast.analysis.figures.delivery import least_reordered
from quiver_fast.analysis.figures.each_end import EndFacts, end_row, facts_of_each, queues_of
from quiver_fast.analysis.figures.ends import (
    EndsReconciliation,
    Owners,
    Shares,
    all_of,
    fairness,
    schedule_of_ends,
)
from quiver_fast.analysis.figures.fan_out import fan_out_section, reconciliation_of
from quiver_fast.analysis.figures.file_analysis import FileAnalysis
from quiver_fast.analysis.figures.latency import exact_latency, with_never_sent
from quiver_fast.analysis.figures.ledger import ledger_section, with_ledger
from quiver_fast.analysis.figures.ledger_lines import LedgerSums, LedgerTables
from quiver_fast.analysis.figures.pair_results import pair_sections
from quiver_fast.analysis.figures.request_reply import request_reply
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.schedule import unsent_waits
from quiver_fast.analysis.figures.sender_rate import end_of_sending, sending_ns, told_rate
from quiver_fast.analysis.figures.summary import receiver_sections, sender_sections
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.read.completeness import check_ends
from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.end_records import (
    EndRecords,
    end_records,
    hides_ends,
    known_bounds,
    of_both_sides,
    queue_count,
    queues_told,
    sent_alone,
)
from quiver_fast.analysis.read.local import Fold, with_missing
from quiver_fast.analysis.tables.end_sums import EndSums
from quiver_fast.analysis.tables.id_table import IdTable
from quiver_fast.analysis.tables.spilled import HistogramRows, each_second
from quiver_fast.analysis.tables.ticks import Ticks
from quiver_fast.records.formats import RECEIVE, SEND
from quiver_fast.records.frames import open_records
from quiver_fast.records.splits import scan_file

Progress = Callable[[int, int], None]
"""Called with the bytes read of the current file, and its size."""

_KEPT = ("complete", "reason", "exit_code", "clock_step", "host_use", "arrow", "environment")
_SECOND = 10**9


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
    sent = _read_senders(senders, run, progress)
    got = _read_receivers(receivers, sent, run, progress)
    return MergedEnds(name, senders, receivers, sent, got, run).data()


@dataclass(frozen=True, eq=False)
class SentEnds:
    """The facts of the senders' files.

    Attributes:
        each: of each file.
        members: of each file, the facts of its ends, where it has several and tells them apart.
        all: of all together.
        owners: which sender each place in the table of ids is of; empty where none is kept.
        alone: whether one sender alone sent to each queue.
        hidden: whether their records do not tell all of them apart.
    """

    each: list[FileAnalysis]
    members: list[list[EndFacts] | None]
    all: FileAnalysis
    owners: Owners
    alone: bool
    hidden: bool


@dataclass(frozen=True, eq=False)
class ReceivedEnds:
    """The facts of the receivers' files, and the delivery of the messages.

    Attributes:
        each, members, all: as of :class:`SentEnds`.
        delivery: of all messages.
        shares: of the ends in it; None without ids.
        queues: the latencies of each queue of several, where all receivers are told apart.
        ledger: the sums of the run's ledger; None of a run without one.
    """

    each: list[FileAnalysis]
    members: list[list[EndFacts] | None]
    all: FileAnalysis
    delivery: dict[str, Any]
    shares: Shares | None
    queues: dict[int, dict[str, Any]]
    ledger: LedgerSums | None = None


def _read_senders(senders: Sequence[EndRecords], run: RunBounds, progress: Progress) -> SentEnds:
    ids, ticks = IdTable(), Ticks()
    ledger = None if run.failures is None else LedgerTables(run)
    found, owners, members = [], Owners(), []
    for end in senders:
        fold = Fold(keep_ticks=True, ids=ids, ticks=ticks, ends=_sums_of(end), ledger=ledger)
        owners.add(ids.mark(), end.first)
        with open_records(end.path) as records:
            for batch in scan_file(records, operation=SEND, progress=progress):
                fold.watch(batch)
                if batch.ends is not None:
                    owners.add_batch(ids.mark(), batch)
                fold.add(batch)
            found.append(with_missing(records, fold.result()))
        members.append(_each_of(fold, found[-1]))
    hidden = hides_ends(senders)
    return SentEnds(found, members, all_of(found), owners, sent_alone(senders), hidden)


def _sums_of(end: EndRecords) -> EndSums | None:
    """Return sums for the ends of a process; None where it has one, or does not tell them."""
    if end.members == 1 or hides_ends([end]):
        return None
    return EndSums(end.first, end.members)


def _each_of(fold: Fold, found: FileAnalysis) -> list[EndFacts] | None:
    return None if fold.ends is None else facts_of_each(found, fold.ends)


def _read_receivers(
    receivers: Sequence[EndRecords],
    sent: SentEnds,
    run: RunBounds,
    progress: Progress,
) -> ReceivedEnds:
    end = end_of_sending(sent.all, run)
    ending = None if end is None else (end, sent.all.time_unit)
    reconciliation = reconciliation_of(run)(sent.all, run, sent.owners)
    found, folds = [], []
    for one in receivers:
        before = reconciliation.left_out
        reconciliation.begin_receiver(one.first)
        fold = Fold(keep_ids=False, ending=ending, sender=sent.all, run=run, ends=_sums_of(one))
        with open_records(one.path) as records:
            for batch in scan_file(records, operation=RECEIVE, progress=progress):
                fold.add(reconciliation.own(batch, fold.watch(batch)))
            whole = with_missing(records, fold.result())
        older, foreign = reconciliation.left_out
        found.append(replace(whole, older=older - before[0], foreign=foreign - before[1]))
        folds.append(fold)
    if reconciliation.mixed:
        folds = [
            Fold(keep_ids=False, ending=ending, sender=sent.all, run=run, ends=_sums_of(one))
            for one in receivers
        ]
        found = [
            _read_again(one, fold, reconciliation)
            for one, fold in zip(receivers, folds, strict=True)
        ]
    shares = None if sent.hidden else reconciliation.shares()
    # Without ids nothing tells the senders of a queue apart.
    by_times = sum(one.reordered for one in found) if sent.alone else None
    reordered = by_times if shares is None else sum(shares.reordered.values())
    if hides_ends(receivers):
        reordered = None
    members = [_each_of(fold, one) for fold, one in zip(folds, found, strict=True)]
    every, delivery = all_of(found), reconciliation.result_of(reordered)
    queues = _latencies_of_queues(receivers, found, folds, every.time_unit)
    ledger = reconciliation.ledger()
    return ReceivedEnds(found, members, every, delivery, shares, queues, ledger)


def _read_again(end: EndRecords, fold: Fold, reconciliation: EndsReconciliation) -> FileAnalysis:
    """Read a receiver's file without the messages of others, whose ids are known now."""
    sieve = reconciliation.sieve()
    with open_records(end.path) as records:
        for batch in scan_file(records, operation=RECEIVE):
            fold.add(sieve.own(batch, fold.watch(batch)))
        return with_missing(records, fold.result(sieve))


def _latencies_of_queues(
    receivers: Sequence[EndRecords],
    found: Sequence[FileAnalysis],
    folds: Sequence[Fold],
    unit: str,
) -> dict[int, dict[str, Any]]:
    """Return the latencies of each queue of several: of all its receivers."""
    queues, rows = queues_told(receivers), HistogramRows(unit)
    if not queues:
        return {}
    for end, one, fold in zip(receivers, found, folds, strict=True):
        if fold.ends is None:
            for part in one.latencies.parts():
                rows.add(np.full(len(part), end.first % queues), part.values, part.counts)
        else:
            for each in fold.ends.histogram(unit).parts():
                rows.add(each.seconds % queues, each.latencies, each.counts)
    nothing = dict.fromkeys(range(queues), exact_latency(Distribution.none(), unit))
    return nothing | {queue: exact_latency(one, unit) for queue, one in each_second(rows.total())}


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
        self._queues = queue_count(receivers)

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
        filtered = self._received.delivery.get("filtered")
        sections = pair_sections(sent, received, self._run, filtered)
        schedules = [end["schedule"] for end in ends if "schedule" in end]
        if schedules:
            kept = sender["schedule"] = schedule_of_ends(schedules)
            rate = told_rate(kept["achieved"])
            sender["results"]["message_rate"] = rate
            sections["results"] = (sections["results"] or {}) | {"sender_rate": rate}
        if self._run.replies is not None:
            found = request_reply(self._run.replies, sent.count, sent.time_unit)
            sender["request_reply"] = found
        delivery, sums = self._received.delivery, self._received.ledger
        if sums is not None:
            schedule = sender.get("schedule")
            ledger = ledger_section(sums, sent, received, schedule, self._run)
            sections["ledger"] = ledger
            receiver["delivery"] = delivery = with_ledger(delivery, ledger)
        settlement, seconds = sent.settlement, (sections["results"] or {}).get("duration")
        return RunData(
            name=self._name,
            sender=sender,
            receiver=receiver,
            delivery=delivery,
            histogram=received.histogram,
            receipts=received.seconds,
            sends=sent.seconds,
            settlement=None if settlement is None else settlement.all,
            sections=sections,
            ends=ends,
            queues=queues_of(self._queues, ends, seconds, self._received.queues),
            fairness={
                "senders": fairness(_counts_of(senders)),
                "receivers": fairness(_counts_of(receivers)),
            },
            fan_out=self._fan_out(receivers) if self._run.copies else None,
        )

    def _fan_out(self, receivers: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return how far the receivers are apart, each of which gets every message."""
        facts: list[EndFacts] = []
        sides = zip(self._receivers, self._received.each, self._received.members, strict=True)
        for end, one, members in sides:
            alone = [EndFacts.of(end.first, one)]
            facts += alone if end.members == 1 else members or end.reported()
        rows = [row["delivery"]["unreceived"] for end in receivers for row in end["members"]]
        lacking = None if None in rows else sum(map(bool, rows))
        ended = end_of_sending(self._sent.all, self._run) is not None
        return fan_out_section(facts, lacking, self._received.all.time_unit, ended=ended)

    def _unsent(self) -> Distribution:
        """Return the waits of the messages that no sender sent."""
        found = Distribution.none()
        for end, one in zip(self._senders, self._sent.each, strict=True):
            waits = unsent_waits(one, RunBounds.of(end.known, None), self._received.all.time_unit)
            for _ in range(self._run.due(1)):
                found = found.merged(waits)
        return found

    def _sender_ends(self) -> list[dict[str, Any]]:
        shares, exact = self._received.shares, self._ids_tell_all
        found = []
        sides = zip(self._senders, self._sent.each, self._sent.members, strict=True)
        for end, one, members in sides:
            run = RunBounds.of(end.known, None)
            sections = sender_sections(one, run)
            passed = sending_ns(one, run)
            rows = []
            for facts in self._each(end, sections, members):
                delivered = None if shares is None else shares.delivered.get(facts.number, 0)
                ledger = {"sent": facts.count, "received": delivered}
                if exact and facts.count is not None and delivered is not None:
                    ledger["unreceived"] = self._wanted(facts.count) - delivered
                rate = facts.rate
                if members is not None and passed is not None and facts.count is not None:
                    # All ends of a process follow its schedule.
                    rate = facts.count * _SECOND / passed if passed > 0 else None
                rows.append(end_row(facts, self._queue_of(facts.number), rate, **ledger))
            known = [row["delivery"]["received"] for row in rows]
            received = None if None in known else sum(known)
            sections["delivery"] = {"sent": one.count, "received": received}
            found.append(_end_summary(end, sections | {"members": rows}))
        return found

    def _receiver_ends(self) -> list[dict[str, Any]]:
        shares, exact = self._received.shares, self._ids_tell_all
        found = []
        sides = zip(self._receivers, self._received.each, self._received.members, strict=True)
        for end, one, members in sides:
            sections = receiver_sections(one, self._run)
            sections["delivery"] = {
                "received": one.count,
                "older": one.older,
                "foreign": one.foreign,
                "reordered": self._reordered(end, one),
                "negative_latency": one.latencies.below(0),
            }
            rows = []
            for facts in self._each(end, sections, members):
                ledger = {"received": facts.count}
                if shares is not None and (end.members == 1 or members is not None):
                    ledger["reordered"] = shares.reordered.get(facts.number, 0)
                    # The ends do not know which of them a failure explains.
                    if exact and self._received.ledger is None:
                        arrived = shares.arrived.get(facts.number, 0)
                        ledger["duplicate"] = (facts.count or 0) - arrived
                        if self._run.copies:
                            sent = self._sent.all.count
                            ledger |= {"sent": sent, "unreceived": sent - arrived}
                rows.append(end_row(facts, self._queue_of(facts.number), facts.rate, **ledger))
            found.append(_end_summary(end, sections | {"members": rows}))
        return found

    @cached_property
    def _ids_tell_all(self) -> bool:
        """Whether each id was sent once: then each message is of one sender."""
        shares, found = self._received.shares, self._received.delivery
        if shares is None:
            return False
        if found.get("unmatched", 0) != 0:
            return False
        delivered = sum(shares.delivered.values())
        wanted = self._run.due(found["sent"] - found.get("filtered", 0))
        missing = self._run.not_rejected(wanted - delivered)
        return (missing, found["received"] - delivered) == (found["unreceived"], found["duplicate"])

    def _wanted(self, sent: int) -> int:
        """Return how many receipts there must be of the first messages of an end."""
        matching = self._run.matching
        return self._run.due(sent if matching is None else matching.of_first(sent))

    def _queue_of(self, number: int) -> int | None:
        return None if self._queues is None else number % self._queues

    @staticmethod
    def _each(
        end: EndRecords, sections: dict[str, Any], members: list[EndFacts] | None
    ) -> list[EndFacts]:
        """Return the facts of each end of a process."""
        if end.members > 1:
            return end.reported() if members is None else members
        count, rate = (sections["results"][key] for key in ("message_count", "message_rate"))
        return [EndFacts(end.first, count, rate, sections.get("latency"))]

    def _reordered(self, end: EndRecords, found: FileAnalysis) -> int | None:
        shares = self._received.shares
        if hides_ends([end]):
            return None
        if shares is None:
            duplicate = self._received.delivery["duplicate"]
            return least_reordered(found.reordered, duplicate) if self._sent.alone else None
        return sum(shares.reordered.get(number, 0) for number in end.numbers)

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
            **ends[0].told,
            "file": str(ends[0].path.parent),
        }


def _most_starved(uses: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    known = [use for use in uses if use is not None]
    return max(known, key=lambda use: use.get("starved") or 0, default=None)


def _counts_of(ends: Sequence[dict[str, Any]]) -> list[int]:
    """Return the messages of each end; of each process where a process does not tell its ends'."""
    counts = [row["message_count"] for end in ends for row in end["members"]]
    return [end["results"]["message_count"] for end in ends] if None in counts else counts


def _end_summary(end: EndRecords, sections: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of one end: as it is in its file, with its name."""
    return {
        "name": end.title,
        "role": end.role,
        "number": end.number,
        "config": end.known.get("config"),
        **sections,
        **{key: end.known.get(key) for key in _KEPT},
        **{key: end.known[key] for key in ("failures",) if key in end.known},
        **end.told,
        "file": str(end.path),
    }


def _config_of_all(ends: Sequence[EndRecords]) -> dict[str, Any] | None:
    """Return the configuration of the first end, with the options of all."""
    first = ends[0]
    if not first.config:
        return None
    asked = {key: value for key, value in first.in_all.items() if key not in ("number", "queue")}
    names = ("url", "path", "count", "rate", "rate_steps", "arrivals")
    return first.config | {
        "id": None,
        **{key: asked[key] for key in names if asked.get(key) is not None},
        "ends": {key: asked.get(key) for key in ("senders", "receivers", "queues")},
    }
