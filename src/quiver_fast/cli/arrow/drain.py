"""The end of a run: the sender has ended, and the receiver takes the messages on their way."""

from __future__ import annotations

import time

from quiver_fast.cli.arrow.run import ArrowRun

# A peer may take seconds to answer that its queue is empty.
_STOP_PATIENCE = 20.0


class Drain:
    """Tells a receiver when to end, once its sender has ended in order.

    The receiver goes on until it has all sent messages, until nothing moves for the
    run's time-out, or until the drain's time-out is over. None of these is a failure.
    """

    def __init__(self, sender: ArrowRun, receiver: ArrowRun, timeout: float) -> None:
        """Prepare to drain.

        Args:
            sender: a started arrow.
            receiver: the other one; one without a control ends by itself.
            timeout: seconds from the sender's end; 0 leaves the rest in the queue.
        """
        self._sender = sender
        self._receiver = receiver
        self._timeout = timeout
        self._deadline: float | None = None
        self._stopped: float | None = None

    def advance(self) -> None:
        """Take the step that is due now; call it again and again while the arrows run."""
        if self._receiver.control is None or self._sender.running or not self._receiver.running:
            return
        now = time.monotonic()
        if self._stopped is not None:
            self._check_end(now - self._stopped)
        elif self._deadline is not None:
            if now >= self._deadline or self._is_silent():
                self._stop(now)
        elif self._sender.ending().complete:
            self._begin(now)

    def _begin(self, now: float) -> None:
        self._deadline = now + self._timeout
        self._receiver.tolerate_silence()
        self._say_sent()
        if self._timeout == 0:
            self._stop(now)

    def _say_sent(self) -> None:
        if self._receiver.control is not None:
            self._receiver.control.sent(self._sender.transferred)

    def _is_silent(self) -> bool:
        patience = self._receiver.plan.options.patience
        return 0 < patience < self._receiver.silence

    def _stop(self, now: float) -> None:
        self._stopped = now
        if self._receiver.control is not None:
            self._receiver.control.stop()

    def _check_end(self, waited: float) -> None:
        if waited > _STOP_PATIENCE:
            reason = f"did not end {_STOP_PATIENCE:.0f} seconds after it was told to"
            self._receiver.stop(reason, at_fault=True)
