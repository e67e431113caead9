"""The live table of a fleet: one row each two seconds, over all hosts."""

from __future__ import annotations

import time
from typing import Any

from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.pair.ends_plan import EndsPlans
from quiver_fast.cli.pair.run import make_view
from quiver_fast.cli.shared.console import Console

_ROW_SECONDS = 2.0


class FleetTable:
    """Adds up the snapshots of all hosts, and shows a row every two seconds."""

    def __init__(self, console: Console, plans: EndsPlans) -> None:
        """Prepare the table."""
        self._clock = plans.clock
        self._view = make_view(console, plans)
        self._view.open()
        self._hosts: dict[int, dict[str, Snapshot]] = {}
        self._fresh: dict[int, dict[str, Snapshot]] = {}
        self._next = 0.0

    def add(self, host: int, sides: dict[str, Any]) -> None:
        """Take a host's snapshots of its sides."""
        told = {role: Snapshot(**fields) for role, fields in sides.items()}
        self._fresh[host] = told
        self._hosts[host] = self._hosts.get(host, {}) | told

    def tick(self) -> None:
        """Show a row if it is time to."""
        now = time.monotonic()
        if self._fresh and now >= self._next:
            self._next = now + _ROW_SECONDS
            self._view.begin()
            row = {}
            for role in ("sender", "receiver"):
                fresh = [told[role] for told in self._fresh.values() if role in told]
                if fresh:
                    every = [told[role] for told in self._hosts.values() if role in told]
                    row[role] = added_up(fresh, every, self._clock.now_ms())
            self._fresh = {}
            self._view.add(row)
        self._view.tick()

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._view.close()


def added_up(fresh: list[Snapshot], every: list[Snapshot], timestamp: int) -> Snapshot:
    """Return one snapshot of one side of all hosts.

    Means are weighted by the messages of each host. A percentile is the largest of any host,
    because hosts report only their own percentiles.

    Args:
        fresh: the snapshots since the last row, at least one.
        every: the latest snapshot of each host.
        timestamp: the present time, epoch milliseconds.
    """
    count = sum(one.period_count for one in fresh)

    def mean(values: list[tuple[float, int]]) -> float:
        weight = sum(each for _, each in values)
        return sum(value * each for value, each in values) / weight if weight else 0.0

    settled = [
        (one.settlement_us, one.period_count or 1) for one in fresh if one.settlement_us is not None
    ]
    sizes = [one.period_bytes for one in fresh if one.period_bytes is not None]
    latency = mean([(one.latency_us, one.period_count) for one in fresh])
    medians = [one.latency_p50_us for one in fresh if one.latency_p50_us is not None]
    tails = [one.latency_p99_us for one in fresh if one.latency_p99_us is not None]
    return Snapshot(
        timestamp=timestamp,
        period=max(one.period for one in fresh),
        count=sum(one.count for one in every),
        period_count=count,
        latency=int(mean([(one.latency, one.period_count) for one in fresh])),
        cpu_time=sum(one.cpu_time for one in every),
        period_cpu_time=sum(one.period_cpu_time for one in fresh),
        rss=sum(one.rss for one in fresh),
        period_bytes=sum(sizes) if sizes else None,
        latency_us=latency,
        settlement_us=mean(settled) if settled else None,
        latency_p50_us=max(medians, default=None),
        latency_p99_us=max(tails, default=None),
        covered_ms=max(one.covered for one in fresh),
    )
