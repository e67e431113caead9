"""The live table of a fleet: one row each two seconds, over all hosts."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from quiver_fast.cli.arrow.snapshots import Snapshot, join
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
                others = [
                    told[role]
                    for host, told in self._hosts.items()
                    if role in told and role not in self._fresh.get(host, {})
                ]
                if fresh:
                    row[role] = replace(join(fresh, others), timestamp=self._clock.now_ms())
            self._fresh = {}
            self._view.add(row)
        self._view.tick()

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._view.close()
