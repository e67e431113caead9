"""One server from its start to its end."""

from __future__ import annotations

import shlex
import signal
import time
from pathlib import Path

from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.server.plan import ServerPlan, server_arguments
from quiver_fast.cli.shared.start import start_implementation
from quiver_fast.errors import EXIT_USAGE, QuiverError, UsageError
from quiver_fast.process import Child, exit_text

TICK = 0.05
_READY = "ready\n"
# A broker may have much to write to its disk before it ends.
_STOP_GRACE = 30.0


class ServerRun:
    """Runs one server. `stop` asks it to end; `end` also waits until it has ended."""

    def __init__(self, plan: ServerPlan, output: Path | None = None) -> None:
        """Prepare to run ``plan``; its output goes to ``output``, else to ours."""
        self.plan = plan
        self._output = output
        self._child: Child | None = None

    def start(self) -> None:
        """Start the server's process.

        Raises:
            QuiverError: it cannot be started.
        """
        plan = self.plan
        self._child = start_implementation(
            plan.implementation,
            lambda password_fd: server_arguments(plan, password_fd),
            password=plan.password if plan.implementation.extensions else None,
            secrets=plan.secrets,
            prelude=plan.prelude,
            verbose=plan.verbose,
            output=self._output,
            merge_errors=self._output is not None,
            grace=_STOP_GRACE,
            withheld=self._own_errors,
        )

    @property
    def child(self) -> Child:
        """The started process."""
        if self._child is None:
            raise RuntimeError("the server has not been started")
        return self._child

    @property
    def shown_command(self) -> str:
        """The command line that starts the server, as a shell takes it; without passwords."""
        plan = self.plan
        arguments = [
            "password=***" if word.startswith("password=") else word
            for word in server_arguments(plan)
        ]
        return shlex.join([*plan.prelude, *plan.implementation.command, *arguments])

    def wait_until_ready(self, signals: SignalWatch, patience: float) -> bool:
        """Wait for the ready file. Return True when the server serves, False if it was told to end.

        Raises:
            QuiverError: it ended by itself, or is not ready after ``patience`` seconds.
        """
        deadline = time.monotonic() + patience
        while not self.is_ready():
            self.check_alive()
            signals.pass_on(self)
            if signals.count:
                return False
            if time.monotonic() > deadline:
                raise QuiverError(f"the server is not ready after {patience:.0f} seconds")
            time.sleep(TICK)
        return True

    def check_alive(self) -> None:
        """Check that the server still runs.

        Raises:
            QuiverError: it does not.
        """
        if self.child.poll():
            raise QuiverError(f"the server ended by itself: {exit_text(self.child.returncode)}")

    def stop(self, reason: str, signum: int) -> None:
        """Tell the server to drain and end."""
        self.child.stop(signum)

    def kill(self) -> None:
        """End the server at once."""
        self.child.kill()

    def failure(self) -> QuiverError:
        """Return the error of a server that did not end well."""
        how, line = exit_text(self.child.returncode), self.child.last_error_line
        if not self._own_errors or not line.startswith(self._own_errors):
            return QuiverError(f"the server ended: {how}")
        reason = line.removeprefix(self._own_errors)
        return UsageError(reason) if self.child.returncode == EXIT_USAGE else QuiverError(reason)

    @property
    def _own_errors(self) -> str:
        """The beginning of the error lines of our own programs; empty for other implementations."""
        implementation = self.plan.implementation
        return f"quiver-server-{implementation.name}: error: " if implementation.extensions else ""

    def end(self) -> str | None:
        """Tell the server to end and wait for it; return the reason if it did not end well."""
        self.child.end()
        if self.ended_well(signal.SIGTERM):
            return None
        return f"the server did not end well: {exit_text(self.child.returncode)}"

    def ended_well(self, signum: int | None) -> bool:
        """Say whether the server ended well: by itself without a failure, or after a signal.

        Args:
            signum: the signal that it got, or None. Servers without a handler die of the signal,
                and some end with the exit code for it.
        """
        told = () if signum is None else (-signum, 128 + signum)
        return self.child.returncode in (0, *told)

    def cpu_ms(self) -> int:
        """Return the CPU milliseconds that the server and its descendants have used so far."""
        self.child.usage.sample()
        return self.child.usage.cpu_ms

    def is_ready(self) -> bool:
        """Say whether the server has said that it serves."""
        file = Path(self.plan.ready_file or "")
        return file.is_file() and file.read_text(encoding="ascii") == _READY
