"""The end of a run: the senders of a queue have ended, and its receivers take the rest.

A queue's only receiver is told how many messages were sent, and ends with the last one. So is each
receiver that gets a copy of every message. Several receivers end when all together have accepted or
rejected as many messages as were sent. After a lost connection messages may come twice, and of a
filter the server alone knows the last message: these receivers end when nothing comes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

from quiver_fast.cli.arrow.run import ArrowRun

# A peer may take seconds to answer that its queue is empty.
_STOP_PATIENCE = 20.0
# Receivers that connect again, or have a filter, are told to end when nothing came for so long.
_QUIET_SECONDS = 2.0
# The interval at which the records of several receivers are read while they drain a queue.
_LOOK_SECONDS = 0.2


class Crew:
    """All ends of one queue: --timeout applies only where all of them are silent."""

    def __init__(self, runs: Sequence[ArrowRun]) -> None:
        self._runs = runs

    @property
    def running(self) -> bool:
        """Whether any of them runs."""
        return any(run.running for run in self._runs)

    @property
    def silence(self) -> float:
        """Seconds since the last of those that run moved something."""
        return min((run.silence for run in self._runs if run.running), default=0.0)


class QueueDrain:
    """Tells the receivers of one queue when to end, once its senders have ended.

    The receivers go on until they have all sent messages, until nothing moves for the run's
    time-out, or until the drain's time-out is over. None of these is a failure.
    """

    def __init__(
        self,
        senders: Sequence[ArrowRun],
        receivers: Sequence[ArrowRun],
        timeout: float,
        *,
        only_complete: bool = False,
        copies: int = 1,
    ) -> None:
        """Prepare to drain.

        Args:
            senders: started arrows.
            receivers: started arrows; those without a control end by themselves.
            timeout: seconds from the senders' end; 0 leaves the rest in the queue.
            only_complete: a failed sender begins no drain: its failure stops the receivers.
            copies: how often the receivers get each message.
        """
        self._senders = senders
        self._receivers = receivers
        self._timeout = timeout
        self._only_complete = only_complete
        self._copies = copies
        self._deadline: float | None = None
        self._stopped: float | None = None
        self._looked = 0.0

    def advance(self) -> None:
        """Take the step that is due now; call it again and again while the arrows run."""
        running = [run for run in self._receivers if run.running and run.control is not None]
        if not running or any(run.running for run in self._senders):
            return
        now = time.monotonic()
        if self._stopped is not None:
            self._check_end(running, now - self._stopped)
        elif self._deadline is None:
            if not self._only_complete or all(run.ending().complete for run in self._senders):
                self._begin(running, now)
        elif now >= self._deadline or self._is_silent(running) or self._have_all(running, now):
            self._stop(running, now)

    def _begin(self, running: Sequence[ArrowRun], now: float) -> None:
        self._deadline = now + self._timeout
        for run in running:
            run.tolerate_silence()
        if not self._by_silence and len(self._receivers) == 1 and running[0].control is not None:
            running[0].control.sent(self._sent)
        # Where all senders failed before their first message, nothing is left to take.
        may_come = self._sent or any(run.ending().complete for run in self._senders)
        if self._timeout == 0 or not may_come:
            self._stop(running, now)

    @property
    def _reconnects(self) -> bool:
        return bool(self._receivers[0].plan.options.reconnect)

    @property
    def _by_silence(self) -> bool:
        """Whether the receivers end when nothing comes: no count tells their last message."""
        return self._reconnects or self._receivers[0].plan.options.is_filtered

    @property
    def _sent(self) -> int:
        return sum(run.transferred for run in self._senders) * self._copies

    def _have_all(self, running: Iterable[ArrowRun], now: float) -> bool:
        """Say whether several receivers have all messages; a single one ends by itself."""
        if self._by_silence or len(self._receivers) == 1 or now - self._looked < _LOOK_SECONDS:
            return False
        self._looked = now
        for run in running:
            run.snapshot()
        taken = sum(run.last_snapshot.count + run.rejected for run in self._receivers)
        return taken >= self._sent

    def _is_silent(self, running: Sequence[ArrowRun]) -> bool:
        options = running[0].plan.options
        patience = options.patience
        if self._by_silence:
            patience = _QUIET_SECONDS + options.asked_silence
        return 0 < patience < min(run.silence for run in running)

    def _stop(self, running: Iterable[ArrowRun], now: float) -> None:
        self._stopped = now
        for run in running:
            if run.control is not None:
                run.control.stop()

    def _check_end(self, running: Iterable[ArrowRun], waited: float) -> None:
        away = self._receivers[0].plan.options.reconnect_seconds if self._reconnects else 0
        # One that may be without a connection for ever ends by the time that the drain has.
        patience = _STOP_PATIENCE + (away if away < math.inf else self._timeout)
        if waited > patience:
            reason = f"did not end {patience:.0f} seconds after it was told to"
            for run in running:
                run.stop(reason, at_fault=True)
