"""One child process: started in a session of its own, measured, and stopped for certain."""

from __future__ import annotations

import contextlib
import ctypes
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

STOP_GRACE = 5.0
"""Seconds that a child has to drain and end after a first signal."""

_CLOSE_GRACE = 1.0
_END_TICK = 0.005
_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl
_PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT


class Usage:
    """CPU time and memory of a process and its descendants, which a prelude may make many."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._tree: list[psutil.Process] = []
        self.rss = 0
        """Resident bytes at the last sample that found the process alive."""
        self._rss_before = 0
        self.cpu_ms = 0
        """CPU milliseconds, user and system, so far."""

    def sample_rss(self) -> None:
        """Take a sample of the memory of the known processes; cheap enough to do often."""
        rss = 0
        for process in self._tree:
            with contextlib.suppress(psutil.Error):
                rss += process.memory_info().rss
        # A process that has ended has no memory: its last real figure stays.
        if rss:
            self._rss_before, self.rss = self.rss, rss

    def sample(self) -> None:
        """Look for new descendants, and take samples of memory and CPU time."""
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self._pid)
            self._tree = [root, *root.children(recursive=True)]
        self.sample_rss()
        seconds = 0.0
        for process in self._tree:
            with contextlib.suppress(psutil.Error):
                # Children that have ended and been waited for are in their parent's figures.
                seconds += sum(process.cpu_times()[:4])
        self.cpu_ms = max(self.cpu_ms, round(seconds * 1000))

    def finish(self, cpu_ms: int) -> None:
        """Make the figures final: ``cpu_ms`` is exact, where samples miss the last part."""
        self.cpu_ms = cpu_ms
        # The last sample may have met the process giving its memory back as it ended.
        self.rss = max(self.rss, self._rss_before)

    def processes(self) -> list[psutil.Process]:
        """Return the process and its descendants, as of the last full sample."""
        return list(self._tree)


class Child:
    """A running command in a session of its own.

    Its standard error is passed through line by line, and the last line is kept,
    because it usually says why the command failed.
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
    ) -> None:
        """Start ``command``.

        Args:
            command: the words of the command.
            environment: the environment variables, all of them.
            output: the file for standard output, replaced; None for our own standard output.
            append: do not replace that file, write behind what it has.
            errors: where lines of standard error are passed on to; None for our own.
            merge_errors: send standard error where standard output goes, and pass none on.
            pass_fds: descriptors that the child inherits.
            grace: seconds that the child has to end after a first signal.
            death_signal: what the system sends the child when this process is gone, however it
                ended. Descendants of the child get nothing: it has to end them.
            withheld: how lines of standard error begin that are kept but not passed on,
                because whoever starts the child reports them; empty for none.

        Raises:
            OSError: the command cannot be started.
        """
        self.returncode: int | None = None
        self.last_error_line = ""
        self._grace = grace
        self._withheld = withheld
        self._stop_deadline: float | None = None
        mode = "ab" if append else "wb"
        with open(output, mode) if output else contextlib.nullcontext() as records:
            # A session of its own: a terminal's Ctrl-C reaches only us, so that
            # each child gets exactly one signal, with all of its descendants.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=records,
                stderr=subprocess.STDOUT if merge_errors else subprocess.PIPE,
                env=dict(environment),
                pass_fds=pass_fds,
                start_new_session=True,
                preexec_fn=partial(_end_with_parent, os.getpid(), death_signal),
            )
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

    def poll(self) -> bool:
        """Say whether the child has ended; then ``returncode`` is set and its usage is final."""
        if self.returncode is not None:
            return True
        if os.waitid(os.P_PID, self._process.pid, _PEEK) is None:
            self._escalate()
            return False
        # Descendants that outlive the arrow would hold its port and its output. Until
        # the child is reaped, below, its group's number cannot be anybody else's.
        self._signal(signal.SIGKILL)
        _, status, resources = os.wait4(self._process.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        self._process.returncode = self.returncode
        self.usage.finish(round((resources.ru_utime + resources.ru_stime) * 1000))
        if self._reader is not None:
            self._reader.join(_CLOSE_GRACE)
        return True

    def stop(self, signum: int = signal.SIGTERM) -> None:
        """Ask the child to drain and end; it is killed when it has not after a grace time."""
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
        """Ask the child to end, and return when it is gone, killed if it must be."""
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

    def _pass_errors(self, stream: IO[bytes], target: TextIO) -> None:
        for line in stream:
            text = line.decode("utf-8", "replace")
            self.last_error_line = text.strip() or self.last_error_line
            if not (self._withheld and text.startswith(self._withheld)):
                target.write(text)
                target.flush()
        stream.close()


def exit_text(returncode: int | None) -> str:
    """Return how a process ended, for people."""
    if returncode is not None and returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return f"exit code {returncode}"


def _end_with_parent(parent: int, signum: signal.Signals) -> None:
    # prctl(2): outlives the exec that follows. A killed process stops none of its children.
    _PRCTL(_PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:
        # It was killed before that.
        os._exit(1)
