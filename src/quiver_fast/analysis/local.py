"""The statistics of one file, or of the two ends of a run, in one pass over each.

Records arrive as runs (:mod:`quiver_fast.records.splits`) and leave as integers that
add up: counts per second, an exact latency histogram per second, sets of ids as runs.
Memory holds these sums and never a column of the file. They grow with the length of the
run in seconds times the spread of its latencies, and not with the number of messages;
ids that do not count up, and a finer clock than milliseconds, take room for each
distinct value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from quiver_fast.analysis.delivery import Order, Reconciliation, SendOrder
from quiver_fast.analysis.distribution import Distribution, Int64Array
from quiver_fast.analysis.histogram import SecondHistogram
from quiver_fast.analysis.key_runs import KeyCounts, as_keys
from quiver_fast.analysis.merging import Merging
from quiver_fast.analysis.series import steady_state
from quiver_fast.analysis.settlement import Settlement, SettlementJoin
from quiver_fast.analysis.tally import second_latency_table
from quiver_fast.analysis.units import PER_SECOND
from quiver_fast.records.formats import RECEIVE, V1, V2, time_unit
from quiver_fast.records.splits import scan_file
from quiver_fast.records.transfers import RunBatch

__all__ = [
    "FileAnalysis",
    "PairAnalysis",
    "analyze_file",
    "analyze_pair",
    "analyze_receiver",
    "analyze_runs",
    "reconcile_runs",
]

Path: TypeAlias = "str | os.PathLike[str]"
Progress = Callable[[int, int], None]

# Cells of a table of seconds by latencies that are worth their zeros at any size.
_FEW_CELLS = 1 << 16
# Keys of (second, latency) that surely fit into 63 bits.
_MOST_KEYS = 1 << 62


@dataclass(frozen=True, eq=False)
class FileAnalysis:
    """What one file of records says.

    Times are in ``time_unit`` since the epoch. An arrow's own time is the send time of a
    sender and the receive time of a receiver.

    Attributes:
        record_format: "v1", "v2" or "v3"; None where no line tells it.
        operation: "send" or "receive"; None likewise.
        time_unit: "ms", "us" or "ns", by the digits of the first own time.
        count: transfers.
        first_time: own time of the first record; None without records.
        last_time: own time of the last record; None without records.
        seconds: messages per epoch second of the own time.
        histogram: the latencies; None unless the operation is receive.
        ids: how often each id occurs; None for v3.
        ids_hashed: whether some id is a hash.
        send_order: the ids in their order, kept for reconciling; empty of a receiver.
        send_ticks: messages per send time, kept for reconciling if that was asked for.
        reordered: receipts with a send time smaller than that of an earlier receipt.
        settlement: settlement latencies; None without settlement lines.
        malformed: whole lines that are no record.
        first_malformed: number (from 1) and beginning of the first such line, or None.
        truncated: whether the file ends within a line or a zstd frame.
    """

    record_format: str | None
    operation: str | None
    time_unit: str
    count: int
    first_time: int | None
    last_time: int | None
    seconds: Distribution
    histogram: SecondHistogram | None
    ids: KeyCounts | None
    ids_hashed: bool
    send_order: SendOrder
    send_ticks: Distribution
    reordered: int
    settlement: Settlement | None
    malformed: int
    first_malformed: tuple[int, str] | None
    truncated: bool

    @cached_property
    def latencies(self) -> Distribution:
        """All latencies (receive minus send time, signed, in ``time_unit``); empty of a sender."""
        if self.histogram is None:
            return Distribution.none()
        return Distribution(*self.histogram.overall())

    @property
    def rate(self) -> float | None:
        """Messages per second, count / (last - first own time); None when that is no time."""
        if self.first_time is None or self.last_time is None or self.last_time <= self.first_time:
            return None
        return self.count / ((self.last_time - self.first_time) / PER_SECOND[self.time_unit])

    @property
    def steady(self) -> dict[str, Any] | None:
        """The run without warm-up and ramp-down (:func:`.series.steady_state`)."""
        return steady_state(self.seconds)


@dataclass(frozen=True, eq=False)
class PairAnalysis:
    """What the records of both ends of one run say.

    Attributes:
        sender: the sender's.
        receiver: the receiver's.
        delivery: what became of the messages (:meth:`.delivery.Reconciliation.result`).
    """

    sender: FileAnalysis
    receiver: FileAnalysis
    delivery: dict[str, Any]


@dataclass
class _Fold:
    """Sums over the batches of a file, in the file's order."""

    time_unit: str | None = None
    keep_ticks: bool = False
    count: int = 0
    first_time: int | None = None
    last_time: int | None = None
    malformed: int = 0
    first_malformed: tuple[int, str] | None = None
    truncated: bool = False
    ids_hashed: bool = False
    last: RunBatch | None = None
    settling: bool = False
    order: Order = field(default_factory=Order)
    send_order: SendOrder = field(default_factory=SendOrder)
    settlement: SettlementJoin = field(default_factory=SettlementJoin)

    def __post_init__(self) -> None:
        none = Distribution.none()
        self._seconds = Merging(none, Distribution.merged, len)
        self._ticks = Merging(none, Distribution.merged, len)
        self._ids = Merging(KeyCounts.none(), KeyCounts.merged, len)
        self._histogram: Merging[SecondHistogram] | None = None

    def add(self, batch: RunBatch) -> None:
        self.last = batch
        self.malformed += batch.malformed
        self.first_malformed = self.first_malformed or batch.first_malformed
        self.truncated |= batch.truncated
        self.ids_hashed |= batch.ids_hashed
        self.settling |= len(batch.settled_ids) > 0
        if len(batch):
            self._add_transfers(batch)
        if batch.received is None:
            self.settlement.add(batch)

    def _add_transfers(self, batch: RunBatch) -> None:
        times = batch.sent if batch.received is None else batch.received
        if self.first_time is None:
            self.first_time = int(times[0])
            self.time_unit = self.time_unit or time_unit(self.first_time)
        self.last_time = int(times[-1])
        self.count += int(batch.count.sum())
        if batch.ids is not None:
            keys, lengths = as_keys(batch.ids), as_keys(batch.count)
            self._ids.add(KeyCounts.of(keys, lengths))
            if batch.received is None:
                self.send_order.add(keys, lengths)
        if batch.received is None:
            seconds = batch.sent // PER_SECOND[self._unit]
            self._seconds.add(Distribution.of_counted(seconds, batch.count))
            if self.keep_ticks:
                self._ticks.add(Distribution.of_counted(batch.sent, batch.count))
        else:
            self._add_receipts(batch.sent, batch.received, batch.count)

    @property
    def _unit(self) -> str:
        return self.time_unit or "ms"

    def _add_receipts(self, sent: Int64Array, received: Int64Array, counts: Int64Array) -> None:
        if self._histogram is None:
            none = np.empty(0, np.int64)
            empty = SecondHistogram(none, none, none, self._unit)
            self._histogram = Merging(empty, SecondHistogram.merged, lambda h: len(h.counts))
        histogram = _histogram_of(sent, received, counts, self._unit)
        self._histogram.add(histogram)
        self.order.add(sent, np.ones(len(sent), np.int64), counts)

    def result(self) -> FileAnalysis:
        if self.last is None:
            raise ValueError("a scan yields at least one batch")
        last = self.last
        with_ids = last.ids is not None
        ids = self._ids.total()
        histogram = self._total_histogram(last.operation)
        seconds = self._seconds.total() if histogram is None else _counts_of(histogram)
        return FileAnalysis(
            record_format=V2 if self.settling and last.record_format == V1 else last.record_format,
            operation=last.operation,
            time_unit=self._unit,
            count=self.count,
            first_time=self.first_time,
            last_time=self.last_time,
            seconds=seconds,
            histogram=histogram,
            ids=ids if with_ids else None,
            ids_hashed=self.ids_hashed,
            send_order=self.send_order,
            send_ticks=self._ticks.total(),
            reordered=self.order.behind,
            settlement=self.settlement.result(ids),
            malformed=self.malformed,
            first_malformed=self.first_malformed,
            truncated=self.truncated,
        )

    def _total_histogram(self, operation: str | None) -> SecondHistogram | None:
        if operation != RECEIVE:
            return None
        if self._histogram is not None:
            return self._histogram.total()
        none = np.empty(0, np.int64)
        return SecondHistogram(none, none, none, self._unit)


def _histogram_of(
    sent: Int64Array, received: Int64Array, counts: Int64Array, unit: str
) -> SecondHistogram:
    """Sum up runs: in a table where latencies are close, as sorted keys where they are not."""
    ticks = PER_SECOND[unit]
    cells = max(_FEW_CELLS, 4 * len(sent))
    made = second_latency_table(sent, received, counts, ticks, cells)
    if made is None:
        return _sorted_histogram(received // ticks, received - sent, counts, unit)
    first, low, table = made
    seconds, latencies = np.nonzero(table)
    return SecondHistogram(seconds + first, latencies + low, table[seconds, latencies], unit)


def _sorted_histogram(
    seconds: Int64Array, latencies: Int64Array, counts: Int64Array, unit: str
) -> SecondHistogram:
    """Sum up rows; second and latency as one number are sorted faster than as two."""
    low, first = int(latencies.min()), int(seconds.min())
    span = int(latencies.max()) - low + 1
    if (int(seconds.max()) - first + 1) * span > _MOST_KEYS:
        return SecondHistogram.from_rows(seconds, latencies, counts, unit)
    keys = Distribution.of_counted((seconds - first) * span + (latencies - low), counts)
    return SecondHistogram(keys.values // span + first, keys.values % span + low, keys.counts, unit)


def _counts_of(histogram: SecondHistogram) -> Distribution:
    return Distribution.of_counted(histogram.seconds, histogram.counts)


def analyze_runs(
    batches: Iterable[RunBatch], *, unit: str | None = None, reconcilable: bool = False
) -> FileAnalysis:
    """Return the statistics of the batches of one file.

    Args:
        batches: in the file's order, at least one, as
            :func:`quiver_fast.records.splits.scan_file` yields them.
        unit: the unit of the times; by default the digits of the first tell it.
        reconcilable: keep the sends per tick, for a receiver's records without ids.
    """
    fold = _Fold(time_unit=unit, keep_ticks=reconcilable)
    for batch in batches:
        fold.add(batch)
    return fold.result()


def analyze_file(
    path: Path,
    *,
    record_format: str | None = None,
    operation: str | None = None,
    progress: Progress | None = None,
    reconcilable: bool = False,
) -> FileAnalysis:
    """Return the statistics of a file of records, in one pass and constant memory.

    Args:
        path: the file, plain or zstd; it must be seekable.
        record_format: "v1", "v2" or "v3"; by default detected.
        operation: "send" or "receive"; by default detected.
        progress: called now and then with the offset reached and the size of the file.
        reconcilable: keep what :func:`analyze_receiver` needs of a sender.

    Raises:
        OSError: the file cannot be read.
        RecordError: zstd data is damaged.
        ValueError: ``record_format`` or ``operation`` is none of the known ones.
    """
    batches = scan_file(path, record_format=record_format, operation=operation, progress=progress)
    return analyze_runs(batches, reconcilable=reconcilable)


def analyze_receiver(
    path: Path,
    sender: FileAnalysis,
    *,
    record_format: str | None = None,
    progress: Progress | None = None,
) -> PairAnalysis:
    """Return the statistics of a receiver's file and how it compares with its sender's.

    Args:
        path: the receiver's file.
        sender: the sender's analysis, made ``reconcilable``.
        record_format: as for :func:`analyze_file`.
        progress: as for :func:`analyze_file`.

    Raises:
        As :func:`analyze_file`.
    """
    batches = scan_file(path, record_format=record_format, operation=RECEIVE, progress=progress)
    return reconcile_runs(sender, batches)


def reconcile_runs(
    sender: FileAnalysis, batches: Iterable[RunBatch], *, unit: str | None = None
) -> PairAnalysis:
    """Do the same with the batches of the receiver's file; ``unit`` as in :func:`analyze_runs`."""
    fold = _Fold(time_unit=unit)
    reconciliation = Reconciliation(sender)
    for batch in batches:
        fold.add(batch)
        reconciliation.add(batch, fold.time_unit or "ms")
    return PairAnalysis(sender, fold.result(), reconciliation.result())


def analyze_pair(
    sender_path: Path, receiver_path: Path, *, progress: Progress | None = None
) -> PairAnalysis:
    """Return the statistics of both ends of one run, in one pass over each file.

    Args:
        sender_path: the sender's records.
        receiver_path: the receiver's.
        progress: called for either file as :func:`analyze_file` does.

    Raises:
        As :func:`analyze_file`.
    """
    sender = analyze_file(sender_path, operation="send", progress=progress, reconcilable=True)
    return analyze_receiver(receiver_path, sender, progress=progress)
