"""Watching one or two arrows until they have ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.cli.arrow.run import ArrowRun
from quiver_fast.cli.arrow.snapshots import Snapshot, join
from quiver_fast.errors import EXIT_SIGNAL, SignalError
from quiver_fast.records.formats import FLUSHES_PER_SECOND

SNAPSHOT_PERIOD = 2.0
_TICK = 0.05
# Our arrows write their records at the same moments, and report that a little later.
_FLUSH_PERIOD = 1 / FLUSHES_PER_SECOND
_TELLING = 0.005
# After a signal, senders wait a second for outcomes, and then for a peer that may not answer.
_SENDERS_FIRST = 1.5

SnapshotCallback = Callable[[dict[str, Snapshot]], None]
RoundCallback = Callable[[], None]


class Stoppable(Protocol):
    """A process that can be asked to end: an arrow or a server."""

    def stop(self, reason: str, signum: int) -> None:
        """Make it drain and end, because of ``reason``."""

    def kill(self) -> None:
        """End it at once."""


class StoppableArrow(Stoppable, Protocol):
    """An arrow that may run on another host."""

    @property
    def plan(self) -> ArrowPlan:
        """Its plan."""


class SignalWatch:
    """While entered, notes SIGINT, SIGTERM and SIGHUP, which then do not end the process.

    Those that the process ignores stay ignored: nohup and a shell's ``&`` ask for that.
    """

    _WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.signum: int | None = None
        """The first signal that came, or None."""
        self.count = 0
        self._before: dict[int, Any] = {}
        self._raises = False
        self._passed_on = 0

    @property
    def exit_code(self) -> int | None:
        """The exit code for a shell, or None without a signal."""
        return None if self.signum is None else EXIT_SIGNAL + self.signum

    @property
    def reason(self) -> str | None:
        """The signal's name for a summary, or None without a signal."""
        return None if self.signum is None else f"interrupted by {signal.Signals(self.signum).name}"

    def __enter__(self) -> SignalWatch:
        self._before = {
            number: signal.signal(number, self._note)
            for number in self._WATCHED
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(self, *_exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise a SignalError for signals that come in the block: it waits for a peer."""
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    def pass_on(self, process: Stoppable) -> None:
        """Pass a signal that has come on to a process; a second signal ends it at once."""
        if self.count == self._passed_on:
            return
        self._passed_on = self.count
        process.stop(self.reason or "", self.signum or signal.SIGTERM)
        if self.count > 1:
            process.kill()

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        self.signum = self.signum or signum
        self.count += 1
        if self._raises:
            raise SignalError(self.reason or "", self.signum)


class OrderlyEnd:
    """The end of all arrows before their time: senders first, so that nothing stays on its way.

    Receivers of queues end when no sender runs, or soon. They drain their queues then, after the
    last outcome and the last commit.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why they end; None before."""
        self._signum: int = signal.SIGTERM
        self._held_until = 0.0
        self._told: set[Any] = set()

    def begin(self, reason: str, signum: int = signal.SIGTERM) -> None:
        """Begin; only the first call counts."""
        if self.reason is None:
            self.reason, self._signum = reason, signum
            self._held_until = time.monotonic() + _SENDERS_FIRST

    def advance(self, runs: Sequence[StoppableArrow], signals: SignalWatch) -> None:
        """Stop those of the running arrows whose turn it is; a second signal ends all at once."""
        if signals.count:
            self.begin(signals.reason or "", signals.signum or signal.SIGTERM)
        if self.reason is None:
            return
        impatient = signals.count > 1
        queued = [] if impatient or any(run.plan.server for run in runs) else runs
        senders = [run for run in queued if run.plan.operation == "send"]
        waits = senders and time.monotonic() < self._held_until
        for run in senders if waits else runs:
            if (run, impatient) in self._told:
                continue
            self._told.add((run, impatient))
            run.stop(self.reason, self._signum)
            if impatient:
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
            on_snapshot: called with snapshots by role, every two seconds and when all arrows
                have ended. Snapshots of running arrows are of one moment, if the arrows tell it;
                those of arrows that have ended since the last call are of their end.
            on_round: called several times a second, after the arrows have been looked at.
        """
        self._end = OrderlyEnd()
        self._signals = signals
        self._on_snapshot = on_snapshot
        self._on_round = on_round
        self._all: list[ArrowRun] = []
        self._runs: list[ArrowRun] = []
        self._ended: list[ArrowRun] = []
        self._next_snapshot = 0.0

    def watch(self, runs: Sequence[ArrowRun]) -> None:
        """Return when all of ``runs``, already started, have ended."""
        self._all, self._runs = list(runs), list(runs)
        self._next_snapshot = _last_flush(time.monotonic() + SNAPSHOT_PERIOD)
        while self._runs:
            self._round()
            self.obey(self._runs)
            self._on_round()
            if self._runs:
                time.sleep(_pause(self._next_snapshot - time.monotonic()))

    def add(self, run: ArrowRun) -> None:
        """Watch one more arrow, which was started meanwhile; for the round's callback."""
        self._all.append(run)
        self._runs.append(run)

    def stop(self, reason: str) -> None:
        """End all arrows in order, because of ``reason``."""
        self._end.begin(reason)

    def obey(self, runs: Sequence[ArrowRun]) -> None:
        """Stop those of ``runs`` that a signal or a call of :meth:`stop` ends now."""
        self._end.advance([run for run in runs if run.running], self._signals)

    def _round(self) -> None:
        ended = [run for run in self._runs if run.poll()]
        for run in ended:
            run.snapshot()
        self._ended += ended
        self._runs = [run for run in self._runs if run not in ended]
        if not self._runs or self._is_time():
            self._take_snapshots()
        for run in ended:
            # A signal or a call of `stop` ends all.
            if not run.ending().complete and not self._signals.count and self._end.reason is None:
                self._stop_others(run)

    def _is_time(self) -> bool:
        """Say whether a snapshot is due, and all arrows have reported or had the time to."""
        late = time.monotonic() - self._next_snapshot
        return late >= _FLUSH_PERIOD or (
            late >= 0 and all(run.has_flushed(self._next_snapshot) for run in self._runs)
        )

    def _take_snapshots(self) -> None:
        for run in self._runs:
            run.hear()
        for run in self._runs:
            run.snapshot()
        fresh, self._ended = [*self._runs, *self._ended], []
        self._on_snapshot(sides_of(fresh, [run for run in self._all if run not in fresh]))
        while self._next_snapshot <= time.monotonic():
            self._next_snapshot += SNAPSHOT_PERIOD

    def _stop_others(self, failed: ArrowRun) -> None:
        for run in self._runs:
            run.stop(f"stopped because the {failed.plan.title} failed")


def sides_of(recent: Sequence[ArrowRun], ended: Sequence[ArrowRun]) -> dict[str, Snapshot]:
    """Return one snapshot of each side, over all its arrows, by role.

    Args:
        recent: arrows with snapshots of the present period; a side without any has no snapshot.
        ended: those that have ended before it.
    """

    def of(runs: Sequence[ArrowRun], role: str) -> list[Snapshot]:
        return [run.last_snapshot for run in runs if run.plan.role == role]

    roles = dict.fromkeys(run.plan.role for run in recent)
    return {role: join(of(recent, role), of(ended, role)) for role in roles}


def _last_flush(moment: float) -> float:
    """Return when our arrows write their records last up to ``moment`` (monotonic seconds)."""
    return moment // _FLUSH_PERIOD * _FLUSH_PERIOD


def _pause(rest: float) -> float:
    """Return how long to sleep, so as to wake when arrows have reported a snapshot's moment.

    Args:
        rest: seconds until that moment; negative when it is over.
    """
    return rest + _TELLING if 0 <= rest < _TICK else _TICK
