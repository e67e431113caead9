"""Child processes whose output never blocks them and which never outlive a test."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

# A longer wait means a hang: a busy machine may take ten times as long as a quiet one.
START_SECONDS = 60.0
END_SECONDS = 60.0


@dataclass(frozen=True)
class Finished:
    """How a process ended."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        """The lines on stdout; of an arrow its records, without the ends' numbers between them."""
        return [line for line in self.stdout.splitlines() if not re.fullmatch("@[0-9]+", line)]


class Running:
    """A process writing to files, so that no pipe fills up unread.

    Args:
        command: Program and arguments.
        stdout: A file descriptor to write to in place of the captured file.
        env: Variables besides those inherited.
        pass_fds: Descriptors that the child inherits.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdout: int | None = None,
        env: dict[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.command = list(command)
        # Open for the life of this object, which closes them in __exit__.
        self._out = tempfile.TemporaryFile()  # noqa: SIM115
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self._started = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self._out if stdout is None else stdout,
            stderr=self._err,
            env={**os.environ, **(env or {})},
            pass_fds=pass_fds,
        )

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._out.close()
        self._err.close()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    def stdout_so_far(self) -> str:
        """Return the output of the process so far."""
        return _read(self._out.fileno())

    def stderr_so_far(self) -> str:
        """Return the standard error of the process so far."""
        return _read(self._err.fileno())

    def wait(self, timeout: float = END_SECONDS) -> Finished:
        """Return how the process ended.

        Raises:
            AssertionError: It has not ended after `timeout` seconds: a hang.
        """
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(
                f"hangs after {timeout} s: {' '.join(self.command)}\n"
                f"stderr: {_read(self._err.fileno())!r}"
            ) from None
        seconds = time.monotonic() - self._started
        return Finished(code, _read(self._out.fileno()), _read(self._err.fileno()), seconds)

    def listens_on(self, port: int) -> bool:
        """Tell whether the process listens on `port`, without connecting to it."""
        try:
            sockets = psutil.Process(self.process.pid).net_connections("tcp")
        except psutil.Error:
            return False
        return any(s.status == psutil.CONN_LISTEN and s.laddr.port == port for s in sockets)

    def wait_until_listening(self, port: int) -> None:
        """Return once the process listens on `port`, or has ended."""
        wait_until(
            lambda: self.process.poll() is not None or self.listens_on(port),
            f"{self.command[:4]} listens on {port}",
        )


def _read(descriptor: int) -> str:
    """Read a whole file without moving the offset that the child shares."""
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode("utf-8", "replace")


def run(command: Sequence[str], timeout: float = END_SECONDS, **options: object) -> Finished:
    """Run a command to its end."""
    with Running(command, **options) as running:  # type: ignore[arg-type]
        return running.wait(timeout)


def wait_until(
    condition: Callable[[], bool], what: str, timeout: float = START_SECONDS, pause: float = 0.01
) -> None:
    """Poll a condition.

    Raises:
        AssertionError: It is still false after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(pause)


def free_port() -> int:
    """Return a TCP port of the loopback interface that nobody uses at the moment.

    It stays bound for a while, without listening. So neither another test nor an outgoing
    connection gets it before its listener, which can bind it too, because listeners set
    SO_REUSEADDR.
    """
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    if len(_reserved) == _reserved.maxlen:
        _reserved.popleft().close()
    _reserved.append(probe)
    port: int = probe.getsockname()[1]
    return port


_reserved: deque[socket.socket] = deque(maxlen=256)


REPOSITORY = Path(__file__).resolve().parents[2]
