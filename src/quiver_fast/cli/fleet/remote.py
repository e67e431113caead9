"""What the command knows of an end on a host: enough to end its queue as `quiver` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.cli.arrow.snapshots import Snapshot

_UNTOLD = Snapshot(0, 0, 0, 0, 0, 0, 0, 0)


class RemoteEnd:
    """An end on a host, with what :class:`.ends_drain.QueueDrain` asks of an arrow's run."""

    def __init__(self, plan: ArrowPlan, host: int, say: Callable[..., None]) -> None:
        """Prepare to know an end.

        Args:
            plan: what the end is to do.
            host: the number of its host.
            say: tells the host something.
        """
        self.plan = plan
        self.host = host
        self._say = say
        self._running: bool | None = None
        self.count = self.rejected = 0
        self.silence = 0.0
        self.failed: str | None = None
        """Why it failed by itself; None where it did not."""
        self.control: RemoteEnd | None = self if plan.controlled else None

    @property
    def title(self) -> str:
        """What to call it."""
        return self.plan.title

    @property
    def begun(self) -> bool:
        """Whether it was started."""
        return self._running is not None

    @property
    def running(self) -> bool:
        """Whether it runs; one that was not started counts, because it will."""
        return self._running is not False

    @property
    def transferred(self) -> int:
        """Messages so far."""
        return self.count

    @property
    def last_snapshot(self) -> Snapshot:
        """Its count, as a snapshot has it."""
        return Snapshot(0, 0, self.count, 0, 0, 0, 0, 0)

    def snapshot(self) -> Snapshot:
        """Return :attr:`last_snapshot`: its host tells by itself."""
        return self.last_snapshot

    def told(self, status: dict[str, Any]) -> None:
        """Take what the host says of it."""
        self._running = bool(status["running"])
        self.count, self.silence = int(status["count"]), float(status["silence"])
        self.rejected = int(status["rejected"])
        self.failed = status["failed"]

    def gone(self) -> None:
        """Note that its host was lost, or never started it."""
        self._running = False

    def tolerate_silence(self) -> None:
        """Nothing to do: its host never judges its silence."""

    def sent(self, count: int) -> None:
        """Tell a receiver that its queue has ``count`` messages of the run."""
        self._say(kind="sent", ends=[self.title], count=count)

    def stop(self, reason: str = "", *, at_fault: bool = False) -> None:
        """Have it end: a receiver in order, if no reason is given."""
        if reason:
            self._say(kind="stop", ends=[self.title], reason=reason, at_fault=at_fault)
        else:
            self._say(kind="drained", ends=[self.title])
