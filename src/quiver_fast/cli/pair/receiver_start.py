"""Starting receivers: waiting until one is ready, and finding it a port to listen on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from quiver_fast.cli.arrow.run import ArrowRun
from quiver_fast.errors import QuiverError
from quiver_fast.sockets import free_port

_PORT_ATTEMPTS = 5
_PATIENCE = 30.0
_TICK = 0.01


class ReceiverStart:
    """Starts the receivers of a run, and looks at the run meanwhile."""

    def __init__(self, look: Callable[[ArrowRun], None], must_end: Callable[[], bool]) -> None:
        """Prepare to start receivers.

        Args:
            look: called again and again with the receiver, during each wait.
            must_end: says whether the run must end.
        """
        self._look, self._must_end = look, must_end

    def wait_for(self, run: ArrowRun, condition: Callable[[], bool], otherwise: str) -> bool:
        """Wait until a receiver fulfils a condition; one that does not in 30 s is stopped.

        Args:
            run: the receiver.
            condition: says whether it is ready.
            otherwise: its state before that, such as "not ready".

        Returns:
            Whether the run goes on: False if the receiver ended, or the run must end.
        """
        deadline = time.monotonic() + _PATIENCE
        while not run.poll():
            self._look(run)
            if condition():
                return not self._must_end()
            if time.monotonic() > deadline:
                run.stop(f"{otherwise} after {_PATIENCE:.0f} seconds", at_fault=True)
            time.sleep(_TICK)
        return False

    def await_ready(self, run: ArrowRun) -> bool:
        """Wait until a receiver of a server is ready; a foreign one cannot say that it is."""
        control = run.control
        return control is None or self.wait_for(run, control.is_ready, "not ready")

    def listen(
        self, start: Callable[[int], ArrowRun], drop: Callable[[ArrowRun, int], None]
    ) -> tuple[ArrowRun, int] | None:
        """Start a receiver on a free port and return both once it listens there.

        Before the receiver listens, another process may take the port: then the next one is
        tried.

        Args:
            start: starts the receiver on a port.
            drop: removes a receiver whose port was taken.

        Returns:
            None if the receiver ended or must end.

        Raises:
            QuiverError: the system does not tell which ports are listened on.
        """
        if not os.path.exists("/proc/self"):
            raise QuiverError(
                "/proc is not mounted, so nobody sees when the receiver listens: give a URL"
            )
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            port = free_port()
            run = start(port)
            # The receiver waits for one sender, and would take a connection of ours for it.
            listens = partial(run.child.listens_on, port)
            if self.wait_for(run, listens, f"not listening on port {port}"):
                return run, port
            in_use = "in use" in run.child.last_error_line.lower()
            if not in_use or attempt == _PORT_ATTEMPTS:
                return None
            run.close()
            drop(run, port)
        return None
