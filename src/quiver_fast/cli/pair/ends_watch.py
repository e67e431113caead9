"""Watching many ends: one snapshot of each side, and the end of all when one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from quiver_fast.cli.arrow.run import ArrowRun
from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.arrow.supervisor import SignalWatch, SnapshotCallback, Supervisor
from quiver_fast.records.formats import UNITS_PER_SECOND
from quiver_fast.records.log_histogram import LogHistogram


class EndsSupervisor(Supervisor):
    """Watches started arrows, many of each side.

    The end of one that fails ends the sending. Receivers that we can tell when to end go on: they
    take all messages in the queues, also those that a failed receiver had not accepted.
    """

    def __init__(
        self,
        signals: SignalWatch,
        on_snapshot: SnapshotCallback,
        on_round: Callable[[], None],
        time_unit: str,
    ) -> None:
        """See :class:`Supervisor`; ``time_unit`` is that of the records."""
        super().__init__(signals, on_snapshot, on_round)
        self._unit = time_unit
        self._all: Sequence[ArrowRun] = ()

    def watch(self, runs: Sequence[ArrowRun]) -> None:
        """See :meth:`Supervisor.watch`."""
        self._all = list(runs)
        super().watch(runs)

    def _sides(self, fresh: Sequence[ArrowRun]) -> dict[str, Snapshot]:
        sides = {}
        for role in ("sender", "receiver"):
            of_role = [run for run in fresh if run.plan.role == role]
            if of_role:
                others = [run for run in self._all if run.plan.role == role and run not in fresh]
                sides[role] = snapshot_of_all(of_role, others, self._unit)
        return sides

    def _stop_others(self, failed: ArrowRun) -> None:
        for run in self._runs:
            if run.plan.role == "sender" or run.control is None:
                run.stop(f"stopped because {failed.plan.title} failed")


def snapshot_of_all(
    recent: Sequence[ArrowRun], ended: Iterable[ArrowRun], time_unit: str
) -> Snapshot:
    """Return one snapshot of all arrows of a side.

    Counts, CPU time and memory add up. A mean is of all messages, and percentiles are of all
    latencies together.

    Args:
        recent: one or more arrows with snapshots of the present period.
        ended: those that have ended before it.
        time_unit: that of the records.
    """
    fresh = [run.last_snapshot for run in recent]
    last = [one.last_snapshot for one in ended]
    count = sum(one.period_count for one in fresh)
    latencies = LogHistogram()
    for run in recent:
        latencies.merge(run.period_latencies)
    mean = sum(one.latency_us * one.period_count for one in fresh) / count if count else 0.0
    settled = [one for one in fresh if one.settlement_us is not None]
    settlement = _mean_settlement(settled)
    sends = recent[0].plan.operation == "send"
    sizes = [one.period_bytes for one in fresh if one.period_bytes is not None]
    return Snapshot(
        timestamp=max(one.timestamp for one in fresh),
        period=max(one.period for one in fresh),
        count=sum(one.count for one in (*fresh, *last)),
        period_count=count,
        latency=int((settlement or 0.0 if sends else mean) / 1000),
        cpu_time=sum(one.cpu_time for one in (*fresh, *last)),
        period_cpu_time=sum(one.period_cpu_time for one in fresh),
        rss=sum(one.rss for one in fresh),
        period_bytes=sum(sizes) if sizes else None,
        latency_us=mean,
        settlement_us=settlement,
        latency_p50_us=_microseconds(latencies.percentile(50), time_unit),
        latency_p99_us=_microseconds(latencies.percentile(99), time_unit),
        covered_ms=max(one.covered for one in fresh),
    )


def _mean_settlement(settled: Sequence[Snapshot]) -> float | None:
    """Return the mean, by the messages of each end: settlements are sampled by count."""
    weights = [one.period_count or 1 for one in settled]
    values = [
        (one.settlement_us or 0.0) * weight for one, weight in zip(settled, weights, strict=True)
    ]
    return sum(values) / sum(weights) if settled else None


def _microseconds(ticks: float | None, unit: str) -> float | None:
    return None if ticks is None else ticks * UNITS_PER_SECOND["us"] / UNITS_PER_SECOND[unit]
