"""Snapshots of a running arrow: what it has transferred, and what it has used."""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass
from pathlib import Path

from quiver_fast.analysis.units import per_millisecond
from quiver_fast.process import Usage
from quiver_fast.records.parser import TransferTail

__all__ = ["Snapshot", "SnapshotTaker", "now_ms"]

_FILE_FIELDS = 9


@dataclass(frozen=True)
class Snapshot:
    """One line of a snapshots file, fields in its order.

    Attributes:
        timestamp: epoch milliseconds.
        period: milliseconds since the snapshot before, or since the start.
        count: records since the start; every record is counted.
        period_count: records in this period.
        latency: mean milliseconds of the period's messages, signed; 0 without any.
        cpu_time: CPU milliseconds since the start.
        period_cpu_time: CPU milliseconds in this period.
        rss: resident bytes.
        period_bytes: bytes of bodies in this period; None unless streaming.
        latency_us: the mean of the period's latencies in microseconds, for the live table;
            it is not in the file.
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

    def line(self) -> str:
        """Return the comma-separated line, with its end."""
        fields = (str(field) for field in astuple(self)[:_FILE_FIELDS] if field is not None)
        return ",".join(fields) + "\n"


class SnapshotTaker:
    """Takes snapshots of one arrow and appends them to a file."""

    def __init__(
        self, transfers: Path, snapshots: Path, operation: str, streaming: bool = False
    ) -> None:
        """Begin at the present time; ``snapshots`` is created empty, ``transfers`` must exist."""
        self._streaming = streaming
        self._tail = TransferTail(transfers, operation)
        self._file = snapshots
        self._file.write_bytes(b"")
        self._last = Snapshot(now_ms(), 0, 0, 0, 0, 0, 0, 0)

    def close(self) -> None:
        """Close the transfers file."""
        self._tail.close()

    def take(self, usage: Usage) -> Snapshot:
        """Take a snapshot of the records so far and of ``usage`` as it stands, and write it."""
        batch = self._tail.read()
        last, timestamp = self._last, now_ms()
        ticks = per_millisecond(batch.time_unit)
        latency = batch.latency_sum / (batch.count * ticks) if batch.count else 0.0
        snapshot = Snapshot(
            timestamp=timestamp,
            period=timestamp - last.timestamp,
            count=last.count + batch.count,
            period_count=batch.count,
            latency=int(latency),
            cpu_time=usage.cpu_ms,
            period_cpu_time=usage.cpu_ms - last.cpu_time,
            rss=usage.rss,
            period_bytes=batch.body_bytes if self._streaming else None,
            latency_us=latency * 1000,
        )
        with self._file.open("a", encoding="ascii") as lines:
            lines.write(snapshot.line())
        self._last = snapshot
        return snapshot


def now_ms() -> int:
    """Return the time in epoch milliseconds."""
    return time.time_ns() // 1_000_000
