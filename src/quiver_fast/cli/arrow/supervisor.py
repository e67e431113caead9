"""Watching one or two arrows until they have ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from types import FrameType, TracebackType
from typing import Any, Protocol

from quiver_fast.cli.arrow.run import ArrowRun
from quiver_fast.cli.arrow.snapshots import Snapshot

__all__ = ["SignalForwarder", "SignalWatch", "SnapshotCallback", "Supervisor"]

SNAPSHOT_PERIOD = 2.0
_TICK = 0.05

SnapshotCallback = Callable[[dict[str, Snapshot]], None]
RoundCallback = Callable[[], None]


class SignalWatch:
    """While entered, notes SIGINT, SIGTERM and SIGHUP, which then do not end the process."""

    _WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.signum: int | None = None
        """The first signal that came, or None."""
        self.count = 0
        self._before: dict[int, Any] = {}

    @property
    def exit_code(self) -> int | None:
        """The exit code that says so to a shell, or None without a signal."""
        return None if self.signum is None else 128 + self.signum

    @property
    def reason(self) -> str | None:
        """The signal's name for a summary, or None without a signal."""
        return None if self.signum is None else f"interrupted by {signal.Signals(self.signum).name}"

    def __enter__(self) -> SignalWatch:
        self._before = {number: signal.signal(number, self._note) for number in self._WATCHED}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        self.signum = self.signum or signum
        self.count += 1


class Stoppable(Protocol):
    """A process that can be asked to end: an arrow or a server."""

    def stop(self, reason: str, signum: int) -> None:
        """Make it drain and end, because of ``reason``."""

    def kill(self) -> None:
        """End it at once."""


class SignalForwarder:
    """Forwards signals to the running arrows and servers."""

    def __init__(self, signals: SignalWatch) -> None:
        """Prepare to forward what ``signals``, entered, notes."""
        self._signals = signals
        self.forwarded = 0
        """How many signals have been passed on."""

    def forward(self, runs: Iterable[Stoppable]) -> None:
        """Forward a signal that has come to ``runs``; a second signal ends them at once."""
        if self._signals.count == self.forwarded:
            return
        self.forwarded = self._signals.count
        for run in runs:
            run.stop(self._signals.reason or "", self._signals.signum or signal.SIGTERM)
            if self.forwarded > 1:
                run.kill()


class Supervisor:
    """Watches started arrows: forwards signals, takes snapshots, stops all when one fails."""

    def __init__(
        self,
        signals: SignalWatch,
        on_snapshot: SnapshotCallback = lambda _snapshots: None,
        on_round: RoundCallback = lambda: None,
    ) -> None:
        """Prepare to watch.

        Args:
            signals: the watch on signals, entered.
            on_snapshot: called with the snapshots taken at one moment, by role, about every
                two seconds and when an arrow has ended.
            on_round: called several times a second, after the arrows have been looked at.
        """
        self.forwarder = SignalForwarder(signals)
        self._on_snapshot = on_snapshot
        self._on_round = on_round
        self._runs: list[ArrowRun] = []
        self._next_snapshot = 0.0

    def watch(self, runs: Sequence[ArrowRun]) -> None:
        """Return when all of ``runs``, already started, have ended."""
        self._runs = list(runs)
        self._next_snapshot = time.monotonic() + SNAPSHOT_PERIOD
        while self._runs:
            self.forwarder.forward(self._runs)
            self._round()
            self._on_round()
            if self._runs:
                time.sleep(_TICK)

    def _round(self) -> None:
        ended = [run for run in self._runs if run.poll()]
        if ended or time.monotonic() >= self._next_snapshot:
            self._take_snapshots()
        self._runs = [run for run in self._runs if run not in ended]
        for run in ended:
            if not run.ending().complete:
                self._stop_others(run)

    def _take_snapshots(self) -> None:
        self._on_snapshot({run.plan.role: run.snapshot() for run in self._runs})
        self._schedule_next()

    def _schedule_next(self) -> None:
        while self._next_snapshot <= time.monotonic():
            self._next_snapshot += SNAPSHOT_PERIOD

    def _stop_others(self, failed: ArrowRun) -> None:
        for run in self._runs:
            run.stop(f"stopped because the {failed.plan.title} failed")
