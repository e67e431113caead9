"""Taking snapshots of one running arrow."""

from __future__ import annotations

import os
import time
from pathlib import Path

from quiver_fast.analysis.model.units import per_millisecond
from quiver_fast.cli.arrow.control import Flushed
from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.cli.arrow.snapshots import Snapshot, percentiles_of
from quiver_fast.process import Usage
from quiver_fast.records.formats import FLUSHES_PER_SECOND, UNITS_PER_SECOND
from quiver_fast.records.parser import TransferTail
from quiver_fast.records.transfers import TailBatch
from quiver_fast.wall_clock import wall_base

# An arrow without a report for two flushes is too busy to flush.
_STALE_NS = 2 * UNITS_PER_SECOND["ns"] // FLUSHES_PER_SECOND


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
        self.last = Snapshot((self._moment + self._base) // 1_000_000)
        """The last one taken."""
        self.problem: str | None = None
        """Why the file does not have all of them, or None."""

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
        snapshot = Snapshot(
            timestamp=timestamp,
            period=timestamp - last.timestamp,
            count=last.count + batch.count,
            period_count=batch.count,
            cpu_time=usage.cpu_ms,
            period_cpu_time=usage.cpu_ms - last.cpu_time,
            rss=usage.rss,
            period_bytes=batch.body_bytes if self._streaming else None,
            latency_us=_mean_us(batch.latency_sum, batch.count, batch.time_unit),
            settlement_us=_mean_us(batch.sampled_sum, batch.sampled, batch.time_unit),
            **percentiles_of(self._tail.latencies, batch.time_unit),
            covered_ms=covered_ns(
                begin,
                self._moment,
                None if last.count else _monotonic(batch.first_time, batch.time_unit, self._base),
                self._end(batch, flushed) if ended else None,
            )
            / 1e6,
            latencies=self._tail.latencies,
            time_unit=batch.time_unit,
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
