"""One child process: it has a session of its own, is measured, and always stops."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TextIO

import psutil

from quiver_fast.errors import visible

STOP_GRACE = 5.0
"""Seconds that a child has to drain and end after a first signal."""

_CLOSE_GRACE = 1.0
_END_TICK = 0.005
_PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT

_lives: set[int] = set()
"""The ends that this process holds of the pipes that its children watch."""


class Usage:
    """CPU time and memory of a process and its descendants. A prelude may start many."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._tree: list[psutil.Process] = []
        self.rss = 0
        """Resident bytes at the last sample that found the process alive."""
        self._rss_before = 0
        self.cpu_ms = 0
        """CPU milliseconds, user and system, so far."""
        self._waited: dict[int, int] = {}

    @property
    def waited(self) -> float | None:
        """Seconds that the first threads of the processes waited for a core; None if not known."""
        return sum(self._waited.values()) / 1e9 if self._waited else None

    def sample_rss(self) -> None:
        """Sample memory and waits of the known processes, which is cheap enough to do often."""
        rss = 0
        for process in self._tree:
            with contextlib.suppress(psutil.Error):
                rss += process.memory_info().rss
            with contextlib.suppress(OSError, IndexError, ValueError):
                words = Path(f"/proc/{process.pid}/schedstat").read_text(encoding="ascii").split()
                self._waited[process.pid] = int(words[1])
        # A process that has ended has no memory: keep the last figure.
        if rss:
            self._rss_before, self.rss = self.rss, rss

    def sample(self) -> None:
        """Look for new descendants, and sample memory and CPU time."""
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self.pid)
            self._tree = [root, *root.children(recursive=True)]
        self.sample_rss()
        seconds = 0.0
        for process in self._tree:
            with contextlib.suppress(psutil.Error):
                # The figures of a parent include children that have ended and been waited for.
                seconds += sum(process.cpu_times()[:4])
        self.cpu_ms = max(self.cpu_ms, round(seconds * 1000))

    def finish(self, cpu_ms: int) -> None:
        """Make the figures final: ``cpu_ms`` is exact, but samples miss the last part."""
        self.cpu_ms = cpu_ms
        # The process may have freed memory for its end before the last sample.
        self.rss = max(self.rss, self._rss_before)

    def processes(self) -> list[psutil.Process]:
        """Return the process and its descendants, as of the last full sample."""
        return list(self._tree)


class Child:
    """A running command in a session of its own.

    Its standard error is passed on line by line. The last line is kept, because it usually says
    why the command failed.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        output: Path | None = None,
        append: bool = False,
        errors: TextIO | None = None,
        merge_errors: bool = False,
        pass_fds: tuple[int, ...] = (),
        grace: float = STOP_GRACE,
        death_signal: signal.Signals = signal.SIGTERM,
        withheld: str = "",
        folder: Path | None = None,
    ) -> None:
        """Start ``command``.

        Args:
            command: the words of the command.
            environment: the environment variables, all of them.
            output: the file for standard output, replaced; None for our own standard output.
            append: append to that file instead of replacing it.
            errors: the stream that gets the lines of standard error; None for our own.
            merge_errors: send standard error to the same place as standard output.
            pass_fds: descriptors that the child inherits.
            grace: seconds that the child has to end after a first signal.
            death_signal: the signal that the system sends to the child when this process is gone.
                The child has to end its own descendants.
            withheld: the beginning of lines of standard error that are kept but not passed on,
                because the caller reports them; empty for none.
            folder: its working folder; None for our own.

        Raises:
            OSError: the command cannot be started.
        """
        self.returncode: int | None = None
        self.last_error_line = ""
        self._grace = grace
        self._withheld = withheld
        self._stop_deadline: float | None = None
        mode = "ab" if append else "wb"
        watched, self._life = open_pipe()
        _lives.add(self._life)
        try:
            with open(output, mode) if output else contextlib.nullcontext() as records:
                # In a session of its own the child does not get a terminal's Ctrl-C: it and its
                # descendants get exactly one signal, from us.
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=records,
                    stderr=subprocess.STDOUT if merge_errors else subprocess.PIPE,
                    env=dict(environment),
                    cwd=folder,
                    pass_fds=(*pass_fds, watched),
                    start_new_session=True,
                    preexec_fn=partial(_end_with_parent, os.getpid(), watched, death_signal),
                )
        except BaseException:
            _close_life(self._life)
            raise
        finally:
            os.close(watched)
        self.usage = Usage(self._process.pid)
        self.usage.sample()
        self._reader: threading.Thread | None = None
        if self._process.stderr is not None:
            self._reader = threading.Thread(
                target=self._pass_errors,
                args=(self._process.stderr, errors or sys.stderr),
                daemon=True,
            )
            self._reader.start()

    @property
    def ending(self) -> str:
        """How the child ended, with its last words if it had any."""
        how = exit_text(self.returncode)
        return f"{self.last_error_line} ({how})" if self.last_error_line else how

    def poll(self) -> bool:
        """Say whether the child has ended; if so, ``returncode`` is set and its usage is final."""
        if self.returncode is not None:
            return True
        if os.waitid(os.P_PID, self._process.pid, _PEEK) is None:
            self._escalate()
            return False
        # Descendants that outlive the arrow would hold its port and its output. Nobody else can
        # get the group's number until the child is reaped below.
        self._signal(signal.SIGKILL)
        _, status, resources = os.wait4(self._process.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        self._process.returncode = self.returncode
        _close_life(self._life)
        self.usage.finish(round((resources.ru_utime + resources.ru_stime) * 1000))
        if self._reader is not None:
            self._reader.join(_CLOSE_GRACE)
        return True

    def stop(self, signum: int = signal.SIGTERM) -> None:
        """Tell the child to drain and end; kill it if it has not ended after the grace time."""
        if self.returncode is None:
            self._signal(signum)
            self._stop_deadline = self._stop_deadline or time.monotonic() + self._grace

    def kill(self) -> None:
        """End the child and its descendants at once."""
        if self.returncode is None:
            self._signal(signal.SIGKILL)

    def kill_and_wait(self) -> None:
        """End the child and its descendants at once, and return when the child is gone."""
        self.kill()
        while not self.poll():
            time.sleep(_END_TICK)

    def end(self) -> None:
        """Tell the child to end, kill it if it does not, and return when it is gone."""
        self.stop()
        while not self.poll():
            time.sleep(_END_TICK)

    def listens_on(self, port: int) -> bool:
        """Say whether the child or a descendant listens on TCP ``port``."""
        self.usage.sample()
        for process in self.usage.processes():
            with contextlib.suppress(psutil.Error):
                for connection in process.net_connections(kind="tcp"):
                    if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                        return True
        return False

    def _escalate(self) -> None:
        if self._stop_deadline is not None and time.monotonic() > self._stop_deadline:
            self.kill()

    def _signal(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signum)

    def _pass_errors(self, stream: IO[bytes], target: TextIO | None) -> None:
        for line in stream:
            text = line.decode("utf-8", "replace")
            self.last_error_line = text.strip() or self.last_error_line
            if target is None or (self._withheld and text.startswith(self._withheld)):
                continue
            text = visible(text.rstrip("\r\n")) + "\n"
            # A line that cannot be written is dropped: a full pipe would stop the child.
            with contextlib.suppress(OSError, ValueError):
                target.write(text)
                target.flush()
        stream.close()


def exit_text(returncode: int | None) -> str:
    """Return how a process ended, in words."""
    if returncode is not None and returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return f"exit code {returncode}"


def open_pipe() -> tuple[int, int]:
    """Return the reading and the writing end of a pipe, which a child can inherit.

    A process may lack standard streams, but a child gets its own in place of these numbers.
    """
    ends = os.pipe()
    reader, writer = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in ends)
    for end in ends:
        os.close(end)
    return reader, writer


def _close_life(held: int) -> None:
    if held in _lives:
        _lives.remove(held)
        os.close(held)


def _close_lives() -> None:
    while _lives:
        os.close(_lives.pop())


# A copy in a forked process would hold the pipe open when its parent is gone.
os.register_at_fork(after_in_child=_close_lives)


def _end_with_parent(parent: int, watched: int, signum: signal.Signals) -> None:
    # The end of the parent closes the pipe, and so sends the signal (fcntl(2), F_SETSIG). The
    # setting survives the exec that follows. The death signal of prctl(2) would come at the end
    # of the thread that started the child.
    fcntl.fcntl(watched, fcntl.F_SETSIG, signum)
    fcntl.fcntl(watched, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(watched, fcntl.F_SETFL, os.O_ASYNC)
    if os.getppid() != parent:
        # The parent was killed before the calls.
        os._exit(1)
