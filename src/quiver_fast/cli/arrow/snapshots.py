"""Snapshots of a running arrow: what it has transferred, and what it has used."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from quiver_fast.analysis.model.units import per_millisecond
from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.process import Usage
from quiver_fast.records.log_histogram import LogHistogram
from quiver_fast.records.parser import TransferTail

__all__ = ["Snapshot", "SnapshotTaker", "now_ms"]


@dataclass(frozen=True)
class Snapshot:
    """One line of a snapshots file, fields in its order, and finer figures that are not in it.

    A receiver's figures are of this run's messages only, whatever else was in the queue.

    Attributes:
        timestamp: epoch milliseconds.
        period: milliseconds since the snapshot before, or since the start.
        count: records since the start; every record is counted.
        period_count: records in this period.
        latency: mean milliseconds of the period, signed; 0 without any. A receiver's
            is the latency of messages; a sender's that of settlements, as ``settlement_us``.
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
        latency_p99_us: 99th percentile likewise. Not in the file.
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
        self._streaming = plan.options.streaming
        self._sends = plan.operation == "send"
        self._tail = TransferTail(
            transfers,
            plan.operation,
            run_start=plan.run_start,
            own_ids=plan.run_id is not None and not self._sends,
            settlements=plan.options.settlement and self._sends,
        )
        self._file = snapshots
        self._file.write_bytes(b"")
        self.last = Snapshot(now_ms(), 0, 0, 0, 0, 0, 0, 0)
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

    def take(self, usage: Usage) -> Snapshot:
        """Take a snapshot of the records so far and of ``usage`` as it stands, and write it."""
        batch = self._tail.read()
        last, timestamp = self.last, now_ms()
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
        )
        self._write(snapshot)
        self.last = snapshot
        return snapshot

    def _write(self, snapshot: Snapshot) -> None:
        """Append the line; on a full disk keep the whole lines before it, and say so."""
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


def _microseconds(ticks: float | None, unit: str) -> float | None:
    return None if ticks is None else ticks * 1000 / per_millisecond(unit)


def now_ms() -> int:
    """Return the time in epoch milliseconds."""
    return time.time_ns() // 1_000_000
