"""The statistics of one file, or of the two ends of a run, in one pass over each.

Records arrive as runs (:mod:`quiver_fast.records.splits`) and leave as integers that
add up: counts per second, an exact latency histogram per second, ids and send times as
sorted rows. Memory holds a few megabytes of each and never a column of the file; what is
more goes to temporary files (:mod:`quiver_fast.analysis.tables.sorted_rows`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from quiver_fast.analysis.figures.delivery import Reconciliation
from quiver_fast.analysis.figures.file_analysis import FileAnalysis, Steps
from quiver_fast.analysis.figures.ledger_lines import LedgerSums, LedgerTables
from quiver_fast.analysis.figures.pair_results import in_unit, pair_sections
from quiver_fast.analysis.figures.run_filter import Sieve
from quiver_fast.analysis.figures.sender_rate import end_of_sending
from quiver_fast.analysis.figures.settlement import SettlementJoin
from quiver_fast.analysis.figures.steps import StepTimes
from quiver_fast.analysis.figures.streams import StreamSums
from quiver_fast.analysis.model.bounds import NOTHING_KNOWN, RunBounds
from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.tables.end_sums import EndSums
from quiver_fast.analysis.tables.id_table import IdTable
from quiver_fast.analysis.tables.latencies import Histogram
from quiver_fast.analysis.tables.order import ClockTimes, OrderOfEnds
from quiver_fast.analysis.tables.spilled import HistogramRows, LatencyRows
from quiver_fast.analysis.tables.tally import counts_per_second, second_latency_table
from quiver_fast.analysis.tables.ticks import Ticks
from quiver_fast.records.formats import RECEIVE, V1, V2, time_unit
from quiver_fast.records.frames import OpenRecords, open_records
from quiver_fast.records.splits import scan_file
from quiver_fast.records.transfers import RunBatch

Path: TypeAlias = "str | os.PathLike[str]"
Progress = Callable[[int, int], None]

# A table of seconds by latencies may have this many cells, however many of them are zero.
_FEW_CELLS = 1 << 16


@dataclass(frozen=True, eq=False)
class PairAnalysis:
    """The facts of both ends of one run.

    Attributes:
        sender: the sender's.
        receiver: the receiver's.
        delivery: the delivery of the messages (:meth:`.delivery.Reconciliation.result`).
        run: the bounds of the run.
        ledger: the sums of its ledger; None of a run without one.
    """

    sender: FileAnalysis
    receiver: FileAnalysis
    delivery: dict[str, Any]
    run: RunBounds
    ledger: LedgerSums | None = None

    @property
    def sections(self) -> dict[str, Any]:
        """``results``, ``drain``, ``queue_growth`` and ``steps``: `.pair_results.pair_sections`."""
        filtered = self.delivery.get("filtered")
        return pair_sections(self.sender, self.receiver, self.run, filtered)


@dataclass
class Fold:
    """Sums over the batches of a file, in the file's order."""

    time_unit: str | None = None
    keep_ticks: bool = False
    keep_ids: bool = True
    ending: tuple[int, str] | None = None  # the end of the sending, and its unit
    sender: FileAnalysis | None = None  # of a receiver, with `run`, if the run has steps
    run: RunBounds = NOTHING_KNOWN
    ends: EndSums | None = None  # of a process of several
    ledger: LedgerTables | None = None  # of senders that connect again
    count: int = 0
    late: int = 0
    latest: int | None = None
    first_time: int | None = None
    last_time: int | None = None
    malformed: int = 0
    first_malformed: tuple[int, str] | None = None
    truncated: bool = False
    ids_hashed: bool = False
    last: RunBatch | None = None
    settling: bool = False
    order: OrderOfEnds = field(default_factory=OrderOfEnds)
    clock: ClockTimes = field(default_factory=ClockTimes)
    ids: IdTable = field(default_factory=IdTable)
    ticks: Ticks = field(default_factory=Ticks)
    settlement: SettlementJoin = field(default_factory=SettlementJoin)
    streams: StreamSums = field(default_factory=StreamSums)

    def __post_init__(self) -> None:
        self._seconds = LatencyRows()
        self._histogram: HistogramRows | None = None
        self._steps: HistogramRows | None = None

    def add(self, batch: RunBatch) -> None:
        """Add the next batch of the file."""
        self.last = batch
        self.malformed += batch.malformed
        self.first_malformed = self.first_malformed or batch.first_malformed
        self.truncated |= batch.truncated
        self.ids_hashed |= batch.ids_hashed
        self.settling |= len(batch.settled_ids) > 0
        if batch.streamed is not None:
            self.streams.add(batch.streamed)
        if len(batch):
            self._add_transfers(batch)
        if batch.received is None:
            self.settlement.add(batch)
            if self.ledger is not None:
                self.ledger.add_sends(batch, self.unit_of(batch))

    def watch(self, batch: RunBatch) -> str:
        """Look at a batch before any record is left out, and return the unit of its times."""
        self.clock.add(batch.sent if batch.received is None else batch.received)
        return self.unit_of(batch)

    def unit_of(self, batch: RunBatch) -> str:
        """Return the unit, by any own time, also of other runs: all times have one unit."""
        if self.time_unit is None:
            own = [batch.sent if batch.received is None else batch.received, batch.settled_times]
            # A large body's lines come before its record.
            own += [] if batch.streamed is None else [batch.streamed.time]
            told = [time_unit(int(times[0])) for times in own if len(times)]
            self.time_unit = told[0] if told else None
        return self._unit

    def _add_transfers(self, batch: RunBatch) -> None:
        self.unit_of(batch)
        times = batch.sent if batch.received is None else batch.received
        if self.first_time is None:
            self.first_time = int(times[0])
        self.last_time = int(times[-1])
        self.count += int(batch.count.sum())
        if batch.ids is not None and self.keep_ids:
            self.ids.add(batch.ids, batch.count, highs=batch.ids_high)
        if batch.received is None:
            self._add_seconds(times, batch.count)
            if self.keep_ticks:
                self.ticks.add(batch.sent, batch.count)
        else:
            self._add_receipts(batch.sent, batch.received, batch.count)
            self._add_steps(batch.sent, batch.received, batch.count)
            self.order.add(batch.ends, batch.sent, batch.count)
            self._add_late(batch.received, batch.count)
        if self.ends is not None:
            self.ends.add(batch, self._unit, self._end)

    def _add_seconds(self, times: Int64Array, counts: Int64Array) -> None:
        self._seconds.add(*counts_per_second(times, counts, PER_SECOND[self._unit]))

    def _add_receipts(self, sent: Int64Array, received: Int64Array, counts: Int64Array) -> None:
        """Add runs, summed up in a table before where latencies are close to each other."""
        self._histogram = self._histogram or HistogramRows(self._unit)
        ticks = PER_SECOND[self._unit]
        cells = max(_FEW_CELLS, 4 * len(sent))
        made = second_latency_table(sent, received, counts, ticks, cells)
        if made is None:
            self._add_seconds(received, counts)
            self._histogram.add(received // ticks, received - sent, counts)
            return
        first, low, table = made
        seconds, latencies = np.nonzero(table)
        self._histogram.add(seconds + first, latencies + low, table[seconds, latencies])
        of_second = table.sum(axis=1)
        busy = np.flatnonzero(of_second)
        self._seconds.add(busy + first, of_second[busy])

    @cached_property
    def _step_times(self) -> StepTimes | None:
        if self.sender is None:
            return None
        return StepTimes.of(self.sender, self.run, self._unit)

    def _add_steps(self, sent: Int64Array, received: Int64Array, counts: Int64Array) -> None:
        """Note the latencies of the messages of each step."""
        if self._step_times is None:
            return
        self._steps = self._steps or HistogramRows(self._unit)
        numbers = self._step_times.numbers(sent)
        some = numbers >= 0
        self._steps.add(numbers[some], (received - sent)[some], counts[some])

    def _add_late(self, received: Int64Array, counts: Int64Array) -> None:
        """Count the messages received after the end of the sending."""
        end = self._end
        if end is None or (latest := int(received.max())) <= end:
            return
        self.late += int(counts[received > end].sum())
        self.latest = max(latest, self.latest or latest)

    @property
    def _end(self) -> int | None:
        return None if self.ending is None else in_unit(*self.ending, self._unit)

    @property
    def _unit(self) -> str:
        return self.time_unit or "ms"

    def result(self, sieve: Sieve | None = None) -> FileAnalysis:
        """Return the sums; ``sieve`` is the filter that the batches went through."""
        if self.last is None:
            raise ValueError("a scan yields at least one batch")
        last = self.last
        with_ids = last.ids is not None
        histogram = self._total_histogram(last.operation)
        seconds = self._seconds.total().in_memory()
        return FileAnalysis(
            record_format=V2 if self.settling and last.record_format == V1 else last.record_format,
            operation=last.operation,
            time_unit=self._unit,
            count=self.count,
            first_time=self.first_time,
            last_time=self.last_time,
            seconds=seconds,
            histogram=histogram,
            ids=self.ids if with_ids and self.keep_ids else None,
            ids_hashed=self.ids_hashed,
            send_ticks=self.ticks,
            reordered=self.order.behind,
            settlement=self.settlement.result(),
            malformed=self.malformed,
            first_malformed=self.first_malformed,
            truncated=self.truncated,
            streams=self.streams.total(),
            older=0 if sieve is None else sieve.older,
            foreign=0 if sieve is None else sieve.foreign,
            end=self._end,
            late=self.late,
            latest=self.latest,
            earliest=self.clock.lowest,
            set_back=self.clock.set_back,
            steps=self._steps_found(),
            ledger=self.ledger,
        )

    def _steps_found(self) -> Steps | None:
        if self.sender is None or self._step_times is None:
            return None
        latencies = (self._steps or HistogramRows(self._unit)).total()
        return Steps(self._step_times.sent_of(self.sender), latencies)

    def _total_histogram(self, operation: str | None) -> Histogram | None:
        if operation != RECEIVE:
            return None
        return (self._histogram or HistogramRows(self._unit)).total()


def analyze_runs(
    batches: Iterable[RunBatch],
    *,
    unit: str | None = None,
    reconcilable: bool = False,
    run: RunBounds = NOTHING_KNOWN,
) -> FileAnalysis:
    """Return the statistics of the batches of one file.

    Args:
        batches: in the file's order, at least one, as
            :func:`quiver_fast.records.splits.scan_file` yields them.
        unit: the unit of the times; by default the digits of the first tell it.
        reconcilable: keep the sends per tick, for a receiver's records without ids.
        run: the bounds of the run; of a receiver, messages from before its start are
            older ones.
    """
    # A receiver adds its lines to those of its sender.
    ledger = LedgerTables(run) if reconcilable and run.failures is not None else None
    fold = Fold(time_unit=unit, keep_ticks=reconcilable, ledger=ledger)
    sieve = Sieve(run)
    for batch in batches:
        fold.add(sieve.own(batch, fold.watch(batch)))
    return fold.result(sieve)


def analyze_file(
    path: Path,
    *,
    record_format: str | None = None,
    operation: str | None = None,
    progress: Progress | None = None,
    reconcilable: bool = False,
    run: RunBounds = NOTHING_KNOWN,
) -> FileAnalysis:
    """Return the statistics of a file of records, in one pass and constant memory.

    Args:
        path: the file, plain or compressed; it must be seekable.
        record_format: "v1", "v2" or "v3"; by default detected.
        operation: "send" or "receive"; by default detected.
        progress: called now and then with the offset reached and the size of the file.
        reconcilable: keep the sends for :func:`analyze_receiver`.
        run: as for :func:`analyze_runs`.

    Raises:
        OSError: the file cannot be read.
        RecordError: compressed data is damaged.
        ValueError: ``record_format`` or ``operation`` is none of the known ones.
    """
    with open_records(path) as records:
        batches = scan_file(
            records, record_format=record_format, operation=operation, progress=progress
        )
        return with_missing(records, analyze_runs(batches, reconcilable=reconcilable, run=run))


def with_missing(records: OpenRecords, found: FileAnalysis) -> FileAnalysis:
    """Return ``found`` with the text that its file lacks, if the file was cut.

    Raises:
        OSError: the file cannot be read.
        RecordError: compressed data is damaged.
    """
    if not records.lost_end(found.truncated):
        return found
    missing = records.missing_text()
    if missing == 0:
        # Only the index may be cut off: then all lines are there.
        return replace(found, cut=True)
    return replace(found, cut=True, truncated=True, missing_bytes=missing)


def analyze_receiver(
    path: Path,
    sender: FileAnalysis,
    *,
    record_format: str | None = None,
    progress: Progress | None = None,
    run: RunBounds = NOTHING_KNOWN,
) -> PairAnalysis:
    """Return the statistics of a receiver's file and how it compares with its sender's.

    The file is read once, or twice if it has ids that the sender does not know.

    Args:
        path: the receiver's file.
        sender: the sender's analysis, made ``reconcilable``.
        record_format: as for :func:`analyze_file`.
        progress: as for :func:`analyze_file`.
        run: the bounds of the run.

    Raises:
        As :func:`analyze_file`.
    """
    with open_records(path) as records:
        scan = partial(
            scan_file, records, record_format=record_format, operation=RECEIVE, progress=progress
        )
        found = reconcile_runs(sender, scan, run=run)
        return replace(found, receiver=with_missing(records, found.receiver))


def reconcile_runs(
    sender: FileAnalysis,
    scan: Callable[[], Iterable[RunBatch]],
    *,
    unit: str | None = None,
    run: RunBounds = NOTHING_KNOWN,
) -> PairAnalysis:
    """Analyse a pair whose receiver's file is given as batches.

    Args:
        sender: as for :func:`analyze_receiver`.
        scan: yields the batches, as :func:`analyze_runs` takes them, from the first at each
            call.
        unit: as for :func:`analyze_runs`.
        run: as for :func:`analyze_receiver`.
    """
    end = end_of_sending(sender, run)
    ending = None if end is None else (end, sender.time_unit)
    # The ids of both ends say more than the receiver's alone, so the fold need not keep those.
    keys: dict[str, Any] = {"time_unit": unit, "keep_ids": False, "ending": ending}
    fold = Fold(**keys, sender=sender, run=run)
    reconciliation = Reconciliation(sender, run)
    for batch in scan():
        fold.add(reconciliation.own(batch, fold.watch(batch)))
    sieve = reconciliation.sieve()
    if reconciliation.mixed:
        fold = Fold(**keys, sender=sender, run=run)
        for batch in scan():
            fold.add(sieve.own(batch, fold.watch(batch)))
    receiver, ledger = fold.result(sieve), reconciliation.ledger()
    return PairAnalysis(sender, receiver, reconciliation.result(), run, ledger)
