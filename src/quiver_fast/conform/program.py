"""A client or an arrow as a process: its arguments, its output, its end."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Bytes of a file that a program writes, so that its output does not fill the disk.
_OUTPUT_MAX = 64 << 20
REVISIONS = ("v3", "v2", "v1")
HOST, PATH = "127.0.0.1", "conform"


def words(
    revision: str, operation: str, port: int | str, *, backwards: bool = False, **changes: Any
) -> list[str]:
    """Return the arguments of a revision of the arrow contract.

    Args:
        revision: ``v1``, ``v2`` or ``v3``.
        operation: ``send`` or ``receive``.
        port: where the peer is.
        backwards: the last one comes first.
        changes: values by key, with ``_`` for ``-``; None leaves a key out.
    """
    keys: dict[str, Any] = {
        "connection-mode": "client", "channel-mode": "active", "operation": operation,
        "id": "conform", "host": HOST, "port": port, "path": PATH, "duration": 0, "count": 5,
        "body-size": 100, "credit-window": 10, "transaction-size": 0, "durable": 0,
    }  # fmt: skip
    keys |= {"settlement": 0} if revision == "v2" else {"rate": 0, "set-message-id": 0}
    keys |= {name.replace("_", "-"): value for name, value in changes.items()}
    if revision == "v1":
        order = "connection-mode operation host port path count body-size credit-window"
        return [tempfile.gettempdir(), *(str(keys[key]) for key in order.split())]
    named = [f"{key}={value}" for key, value in keys.items() if value is not None]
    return named[::-1] if backwards else named


@dataclass(frozen=True)
class End:
    """How a program ended.

    Attributes:
        late: what it did in place of an end, which came from us; empty if it ended itself.
    """

    code: int
    stdout: str
    stderr: str
    late: str

    @property
    def said(self) -> str:
        """The exit code and the reason."""
        return self.late or f"exit code {self.code}: {self.stderr.strip()}"

    @property
    def lines(self) -> list[str]:
        """The lines that it printed."""
        return self.stdout.splitlines()


class Program:
    """A process whose output never blocks it.

    Args:
        command: the words.
        environ: its environment.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        # Open for the life of this object, which closes them.
        self._out = tempfile.TemporaryFile()  # noqa: SIM115
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        # A group of its own: what it starts ends with it.
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err, env=environ,
            start_new_session=True,
        )  # fmt: skip
        with contextlib.suppress(OSError):  # It has ended already.
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (_OUTPUT_MAX, _OUTPUT_MAX))

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait(self, limit: float) -> None:
        """Wait for its end, or so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(limit)

    def end(self, limit: float) -> End:
        """Return how it ended, within so many seconds."""
        self.wait(limit)
        late = f"it runs on after {limit:g} s" if self.running else ""
        self.kill()
        code = self._process.returncode
        return End(code, _all(self._out.fileno()), _all(self._err.fileno()), late)

    def kill(self) -> None:
        """End it, and what it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End it, and forget its output."""
        self.kill()
        self._out.close()
        self._err.close()


def _all(descriptor: int) -> str:
    """Read a whole file, which the process may still have open."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")
