"""Snapshots of a running arrow: its transfers, and its CPU time and memory."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from quiver_fast.analysis.model.units import per_millisecond
from quiver_fast.cli.arrow.control import Flushed
from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.process import Usage
from quiver_fast.records.formats import FLUSHES_PER_SECOND, UNITS_PER_SECOND
from quiver_fast.records.log_histogram import LogHistogram
from quiver_fast.records.parser import TransferTail
from quiver_fast.records.transfers import TailBatch
from quiver_fast.wall_clock import wall_base

# An arrow without a report for two flushes is too busy to flush.
_STALE_NS = 2 * UNITS_PER_SECOND["ns"] // FLUSHES_PER_SECOND


@dataclass(frozen=True)
class Snapshot:
    """One line of a snapshots file, fields in its order, and finer figures that are not in it.

    A receiver's figures are of this run's messages only, whatever else was in the queue.

    Attributes:
        timestamp: epoch milliseconds of the moment up to which records are counted.
        period: milliseconds since the snapshot before, or since the start.
        count: records since the start; every record is counted.
        period_count: records in this period.
        latency: mean milliseconds of the period, signed; 0 without any. A receiver's
            is the latency of messages; a sender's is the latency of settlements.
        cpu_time: CPU milliseconds since the start.
        period_cpu_time: CPU milliseconds in this period.
        rss: resident bytes.
        period_bytes: bytes of bodies in this period; None unless streaming.
        latency_us: mean latency of a receiver's messages in microseconds, as fine as its
            clock; 0 without any. Not in the file.
        settlement_us: mean settlement latency of the period's ``S`` lines; None without any.
            Not in the file.
        latency_p50_us: median latency of the period, to within 0.2 %; None without any.
            Not in the file.
        latency_p99_us: 99th percentile of the period, to within 0.2 %; None without any. Not in
            the file.
        covered_ms: milliseconds of the period in which its records came: the first period with
            records begins with them, and the last one ends with them. None for all of it. Not
            in the file.
    """

    timestamp: int
    period: int
    count: int
    period_count: int
    latency: int
    cpu_time: int
    period_cpu_time: int
    rss: int
    period_bytes: int | None = None
    latency_us: float = 0.0
    settlement_us: float | None = None
    latency_p50_us: float | None = None
    latency_p99_us: float | None = None
    covered_ms: float | None = None

    @property
    def covered(self) -> float:
        """Milliseconds in which the period's records came."""
        return self.period if self.covered_ms is None else self.covered_ms

    @property
    def rate(self) -> float | None:
        """Messages per second in this time; None if the time is 0."""
        return self.period_count * 1000 / self.covered if self.covered > 0 else None

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes of bodies per second in this time; None if the time is 0, or without streaming."""
        if self.period_bytes is None or self.covered <= 0:
            return None
        return self.period_bytes * 1000 / self.covered

    def line(self) -> str:
        """Return the comma-separated line, with its end."""
        fields = [
            self.timestamp, self.period, self.count, self.period_count, self.latency,
            self.cpu_time, self.period_cpu_time, self.rss,
        ]  # fmt: skip
        if self.period_bytes is not None:
            fields.append(self.period_bytes)
        return ",".join(map(str, fields)) + "\n"


class SnapshotTaker:
    """Takes snapshots of one arrow and appends them to a file."""

    def __init__(self, plan: ArrowPlan, transfers: Path, snapshots: Path) -> None:
        """Begin at the present time; ``snapshots`` is created empty, ``transfers`` must exist."""
        options = plan.options
        self._streaming = options.streaming
        self._sends = plan.operation == "send"
        self._is_scheduled = self._sends and bool(options.rate or options.rate_steps)
        self._transfers = transfers
        self._tail = TransferTail(
            transfers,
            plan.operation,
            run_start=plan.run_start,
            own_ids=plan.run_id is not None and not self._sends,
            settlements=plan.options.settlement and self._sends,
        )
        self._file = snapshots
        self._file.write_bytes(b"")
        self._base = wall_base() if plan.clock_base is None else plan.clock_base
        # On the monotonic clock, as in an arrow's report.
        self._moment = time.monotonic_ns()
        self.last = Snapshot((self._moment + self._base) // 1_000_000, 0, 0, 0, 0, 0, 0, 0)
        """The last one taken."""
        self.time_unit = "ms"
        """That of the last snapshot's latencies."""
        self.problem: str | None = None
        """Why the file does not have all of them, or None."""

    @property
    def latencies(self) -> LogHistogram:
        """The latencies of the last snapshot's period, in ticks."""
        return self._tail.latencies

    def close(self) -> None:
        """Close the transfers file."""
        self._tail.close()

    def take(
        self,
        usage: Usage,
        flushed: Flushed | None = None,
        ended: bool = False,
        heard: int | None = None,
    ) -> Snapshot:
        """Take a snapshot of the records and of ``usage`` as it stands, and write it.

        Args:
            usage: CPU time and memory of the arrow.
            flushed: the last report of the arrow. Records are counted up to its time, or up to now
                where there is no report or an old one.
            ended: the arrow has ended: all records are counted.
            heard: when ``flushed`` was read; None for now.
        """
        now = time.monotonic_ns()
        heard = now if heard is None else heard
        to_here = None
        if flushed is not None and not ended and heard - flushed.time <= _STALE_NS:
            to_here = flushed
        batch = self._tail.read(None if to_here is None else to_here.size)
        begin, last = self._moment, self.last
        self._moment = max(begin, now if to_here is None else to_here.time)
        timestamp = (self._moment + self._base) // 1_000_000
        self.time_unit = batch.time_unit
        settlement = _mean_us(batch.sampled_sum, batch.sampled, batch.time_unit)
        latency = _mean_us(batch.latency_sum, batch.count, batch.time_unit) or 0.0
        snapshot = Snapshot(
            timestamp=timestamp,
            period=timestamp - last.timestamp,
            count=last.count + batch.count,
            period_count=batch.count,
            latency=int((settlement or 0.0 if self._sends else latency) / 1000),
            cpu_time=usage.cpu_ms,
            period_cpu_time=usage.cpu_ms - last.cpu_time,
            rss=usage.rss,
            period_bytes=batch.body_bytes if self._streaming else None,
            latency_us=latency,
            settlement_us=settlement,
            latency_p50_us=_microseconds(batch.latency_p50, batch.time_unit),
            latency_p99_us=_microseconds(batch.latency_p99, batch.time_unit),
            covered_ms=covered_ns(
                begin,
                self._moment,
                None if last.count else _monotonic(batch.first_time, batch.time_unit, self._base),
                self._end(batch, flushed) if ended else None,
            )
            / 1e6,
        )
        self._write(snapshot)
        self.last = snapshot
        return snapshot

    def _end(self, batch: TailBatch, flushed: Flushed | None) -> int | None:
        """Return when the arrow, which has ended, did its last transfer; None if it is unknown."""
        if not self._is_scheduled:
            return _monotonic(batch.last_time, batch.time_unit, self._base)
        # Its records say when messages were due. A sender that was late sent them later.
        if flushed is None or flushed.size < self._transfers.stat().st_size:
            return None
        return flushed.time

    def _write(self, snapshot: Snapshot) -> None:
        """Append the line; on a full disk keep the whole lines before it, and note the problem."""
        if self.problem is not None:
            return
        size = self._file.stat().st_size
        try:
            with self._file.open("a", encoding="ascii") as lines:
                lines.write(snapshot.line())
        except OSError as error:
            os.truncate(self._file, size)
            self.problem = f"cannot write {self._file}: {error.strerror}"


def _mean_us(total: int, count: int, unit: str) -> float | None:
    """Return the mean of ``count`` times that add up to ``total``, in microseconds."""
    return total * 1000 / (per_millisecond(unit) * count) if count else None


def covered_ns(begin: int, end: int, first: int | None = None, last: int | None = None) -> int:
    """Return how long records came within a period. All times are in nanoseconds.

    Args:
        begin: when the period began.
        end: when it ended.
        first: when the first record of all came, if that is in this period.
        last: when the last record of all came, if that is in this period.
    """
    since = begin if first is None else min(max(first, begin), end)
    until = end if last is None else min(max(last, since), end)
    return until - since


def _monotonic(ticks: int | None, unit: str, base: int) -> int | None:
    """Return the time of a record on the monotonic clock; None without one."""
    if ticks is None:
        return None
    return ticks * (UNITS_PER_SECOND["ns"] // UNITS_PER_SECOND[unit]) - base


def _microseconds(ticks: float | None, unit: str) -> float | None:
    return None if ticks is None else ticks * 1000 / per_millisecond(unit)
