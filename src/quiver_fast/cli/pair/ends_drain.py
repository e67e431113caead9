"""The end of a run of many ends: each queue's senders have ended, and its receivers take the rest.

One receiver of a queue is told how many messages it has to come to. Of several, none can know: they
end when all together have accepted or rejected as many as were sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from quiver_fast.cli.arrow.run import ArrowRun

# A peer may take seconds to answer that its queue is empty.
_STOP_PATIENCE = 20.0
# While several receivers drain a queue, their records are looked at so often.
_LOOK_SECONDS = 0.2


class Crew:
    """All ends of one queue, to whom one that is silent is compared."""

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
    """Tells the receivers of one queue when to end, once its senders have ended."""

    def __init__(
        self, senders: Sequence[ArrowRun], receivers: Sequence[ArrowRun], timeout: float
    ) -> None:
        """Prepare to drain.

        Args:
            senders: started arrows.
            receivers: likewise; those without a control end by themselves.
            timeout: seconds from the senders' end; 0 leaves the rest in the queue.
        """
        self._senders = senders
        self._receivers = receivers
        self._timeout = timeout
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
            self._begin(running, now)
        elif now >= self._deadline or self._is_silent(running) or self._have_all(running, now):
            self._stop(running, now)

    def _begin(self, running: Sequence[ArrowRun], now: float) -> None:
        self._deadline = now + self._timeout
        for run in running:
            run.tolerate_silence()
        if len(self._receivers) == 1 and running[0].control is not None:
            running[0].control.sent(self._sent)
        if self._timeout == 0:
            self._stop(running, now)

    @property
    def _sent(self) -> int:
        return sum(run.transferred for run in self._senders)

    def _have_all(self, running: Iterable[ArrowRun], now: float) -> bool:
        """Say whether all messages were received; of one receiver, it knows."""
        if len(self._receivers) == 1 or now - self._looked < _LOOK_SECONDS:
            return False
        self._looked = now
        for run in running:
            run.snapshot()
        taken = sum(run.last_snapshot.count + run.rejected for run in self._receivers)
        return taken >= self._sent

    def _is_silent(self, running: Sequence[ArrowRun]) -> bool:
        patience = running[0].plan.options.patience
        return 0 < patience < min(run.silence for run in running)

    def _stop(self, running: Iterable[ArrowRun], now: float) -> None:
        self._stopped = now
        for run in running:
            if run.control is not None:
                run.control.stop()

    def _check_end(self, running: Iterable[ArrowRun], waited: float) -> None:
        if waited > _STOP_PATIENCE:
            reason = f"did not end {_STOP_PATIENCE:.0f} seconds after it was told to"
            for run in running:
                run.stop(reason, at_fault=True)
