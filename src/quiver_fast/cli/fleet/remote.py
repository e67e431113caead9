"""The command's view of an end on a host, with all that is needed to drain the end's queue."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.cli.arrow.snapshots import Snapshot


class RemoteEnd:
    """An end on a host, with the methods of an arrow's run that `QueueDrain` calls."""

    def __init__(self, plan: ArrowPlan, host: int, send: Callable[..., None]) -> None:
        """Begin without any word from the host.

        Args:
            plan: the end's plan.
            host: the number of its host.
            send: sends a document to the host.
        """
        self.plan = plan
        self.host = host
        self._send = send
        self._running: bool | None = None
        self.count = self.rejected = 0
        self.silence = 0.0
        self.failed: str | None = None
        """Why it failed by itself; None if it did not."""
        self.control: RemoteEnd | None = self if plan.controlled else None

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.plan.title

    @property
    def begun(self) -> bool:
        """Whether it was started."""
        return self._running is not None

    @property
    def running(self) -> bool:
        """Whether it runs, or will be started."""
        return self._running is not False

    @property
    def transferred(self) -> int:
        """The number of messages so far."""
        return self.count

    @property
    def last_snapshot(self) -> Snapshot:
        """A snapshot that has its count."""
        return Snapshot(count=self.count)

    def snapshot(self) -> Snapshot:
        """Return :attr:`last_snapshot`: the host reports without being asked."""
        return self.last_snapshot

    def update(self, status: dict[str, Any]) -> None:
        """Take the host's report of it."""
        self._running = bool(status["running"])
        self.count, self.silence = int(status["count"]), float(status["silence"])
        self.rejected = int(status["rejected"])
        self.failed = status["failed"]

    def mark_gone(self) -> None:
        """Note that its host was lost, or never started it."""
        self._running = False

    def tolerate_silence(self) -> None:
        """Do nothing: its host never judges silence."""

    def sent(self, count: int) -> None:
        """Tell a receiver that its queue has ``count`` messages of the run."""
        self._send(kind="sent", ends=[self.title], count=count)

    def stop(
        self, reason: str = "", signum: int = signal.SIGTERM, *, at_fault: bool = False
    ) -> None:
        """Tell it to end; without a reason a receiver ends in order."""
        known = {"reason": reason, "signal": int(signum), "at_fault": at_fault}
        self._send(
            **({"kind": "stop"} | known if reason else {"kind": "drained"}), ends=[self.title]
        )

    def kill(self) -> None:
        """End it at once."""
        self._send(kind="kill", ends=[self.title])
