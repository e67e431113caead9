"""An arrow under the control of a test in place of a wrapper: lines on a socket pair."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.arrows import pyfast
from support.processes import END_SECONDS, START_SECONDS, Finished, Running


@dataclass
class Controlled:
    """A running arrow, the wrapper's end of its control socket, and its report file."""

    running: Running
    socket: socket.socket
    report_file: Path

    def wait_ready(self) -> None:
        """Return when the arrow has said that it is ready, before anything else."""
        line = self.hear()
        assert line == "ready", (line, self.running.stdout_so_far())

    def hear(self) -> str:
        """Return the next line of the arrow, without its newline."""
        self.socket.settimeout(START_SECONDS)
        said = b""
        while not said.endswith(b"\n"):
            # One by one, so that later lines stay in the socket.
            said += self.socket.recv(1) or b"(closed)\n"
        return said[:-1].decode()

    def say(self, *lines: str) -> None:
        """Send a line to the arrow."""
        self.socket.sendall("".join(f"{line}\n" for line in lines).encode())

    def hang_up(self) -> None:
        """Close the wrapper's end."""
        self.socket.close()

    def records(self) -> int:
        """Return how many records the arrow has written so far."""
        written = self.running.stdout_so_far()
        return written.count("\n") - written.count("@")

    def end(self, timeout: float = END_SECONDS) -> tuple[Finished, dict[str, Any]]:
        """Return how the arrow ended, and its report."""
        ended = self.running.wait(timeout)
        return ended, json.loads(self.report_file.read_text())


@contextlib.contextmanager
def controlled(directory: Path, *words: str, first: str = "") -> Iterator[Controlled]:
    """Run our arrow with a control socket.

    Args:
        directory: The folder of its report.
        words: Its other arguments.
        first: A line that is sent before it starts.
    """
    ours, arrows = socket.socketpair()
    ours.sendall(f"{first}\n".encode() if first else b"")
    report = directory / f"report-{arrows.fileno()}.json"
    with ours:
        command = pyfast(*words, f"control-fd={arrows.fileno()}", f"report-file={report}")
        with arrows:
            running = Running(command, pass_fds=(arrows.fileno(),))
        with running:
            yield Controlled(running, ours, report)
