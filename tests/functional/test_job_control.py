"""Ctrl-Z on a terminal: the shell gets the cursor, and the run takes it again."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SHOWN, HIDDEN = b"\x1b[?25h", b"\x1b[?25l"


class Shell:
    """A shell with job control on a terminal of its own."""

    def __init__(self) -> None:
        child, self._ours = pty.fork()
        if child == 0:
            os.environ.update(TERM="xterm-256color", PS1="ready> ", LC_ALL="C.UTF-8")
            os.environ.pop("NO_COLOR", None)
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self._child = child
        self.raw = b""

    def close(self) -> None:
        os.close(self._ours)
        os.waitpid(self._child, 0)

    def type(self, text: str) -> None:
        self.raw = b""
        os.write(self._ours, text.encode())

    def read_until(self, *pieces: bytes) -> None:
        """Read until the pieces came, in their order."""
        start = 0
        for piece in pieces:
            while piece not in self.raw[start:]:
                self.raw += os.read(self._ours, 65_536)
            start += self.raw[start:].index(piece) + len(piece)


@pytest.fixture(name="shell")
def a_shell() -> Iterator[Shell]:
    shell = Shell()
    shell.read_until(b"ready> ")
    yield shell
    shell.close()


def cursor_is_shown(raw: bytes) -> bool:
    return raw.rfind(SHOWN) > raw.rfind(HIDDEN)


def test_a_run_is_stopped_and_goes_on(shell: Shell, tmp_path: Path) -> None:
    quiver = Path(sys.executable).with_name("quiver")
    shell.type(f"{quiver} --duration 0 --rate 100 --output {tmp_path}/run\n")
    shell.read_until(HIDDEN, b"Running")
    shell.type("\x1a")
    shell.read_until(b"Stopped", b"ready> ")
    assert cursor_is_shown(shell.raw)
    # In the background the cursor stays the shell's.
    shell.type("fg\n")
    shell.read_until(HIDDEN, b"Running")
    shell.type("\x1a")
    shell.read_until(b"Stopped", b"ready> ")
    assert cursor_is_shown(shell.raw)
    shell.type("fg\n")
    shell.read_until(HIDDEN)
    shell.type("\x03")
    shell.read_until(b"ready> ")
    assert cursor_is_shown(shell.raw)
    shell.type("exit\n")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_the_cursor_of_a_real_terminal(tmp_path: Path) -> None:
    def tmux(*words: str) -> str:
        command = ["tmux", "-S", str(tmp_path / "socket"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def cursor() -> str:
        return tmux("display-message", "-p", "#{cursor_flag}")

    def wait_for(words: str, flag: str) -> None:
        while words not in tmux("capture-pane", "-p") or cursor() != flag:
            pass

    quiver = Path(sys.executable).with_name("quiver")
    tmux("new-session", "-d", "-x", "100", "-y", "30", "bash --norc --noprofile -i")
    try:
        line = f"{quiver} --duration 0 --rate 100 --output {tmp_path}/run"
        tmux("send-keys", line, "Enter")
        wait_for("Running", "0")
        tmux("send-keys", "C-z")
        wait_for("Stopped", "1")
        tmux("send-keys", "fg", "Enter")
        wait_for("Running", "0")
        tmux("send-keys", "C-c")
        wait_for("interrupted", "1")
    finally:
        tmux("kill-server")
