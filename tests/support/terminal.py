"""A terminal for tests: the visible text of a command, line by line, with its colours."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyte

_READ_SIZE = 65_536
_HISTORY = 1_000


@dataclass
class Seen:
    """Return the final text of the terminal, scrolled lines included.

    Attributes:
        returncode: the command's.
        raw: every byte that it wrote.
        lines: the text, without blanks at the ends of lines.
        styles: for each line the colours of its characters other than the default.
        cursor_hidden: whether the command left without a cursor.
    """

    returncode: int
    raw: bytes
    lines: list[str]
    styles: list[set[str]]
    cursor_hidden: bool

    def find(self, words: str) -> int:
        """Return the number of the first line with ``words``.

        Raises:
            AssertionError: there is none.
        """
        for number, text in enumerate(self.lines):
            if words in text:
                return number
        raise AssertionError(f"'{words}' is in none of:\n" + "\n".join(self.lines))


class Terminal:
    """Runs one command on a terminal of a given size."""

    def __init__(self, columns: int, rows: int = 24) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=_HISTORY, ratio=1)
        self._stream = pyte.ByteStream(self._screen)
        self._ours, self._theirs = pty.openpty()
        self._raw = b""
        self._set_size(columns, rows)

    def resize(self, columns: int, rows: int = 24) -> None:
        """Change its size while the command runs, as a window manager does."""
        self._set_size(columns, rows)
        self._screen.resize(rows, columns)

    def run(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        on_output: Callable[[bytes], None] = lambda raw: None,
    ) -> Seen:
        """Run ``command`` to its end; call ``on_output`` with all bytes so far as they come."""
        process = subprocess.Popen(
            command, stdin=self._theirs, stdout=self._theirs, stderr=self._theirs,
            env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(self._theirs)
        while True:
            try:
                piece = os.read(self._ours, _READ_SIZE)
            except OSError:  # EIO: nobody has the other side open.
                break
            self._raw += piece
            self._stream.feed(piece)
            on_output(self._raw)
        os.close(self._ours)
        return self._seen(process.wait())

    def _set_size(self, columns: int, rows: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._theirs if not self._raw else self._ours, termios.TIOCSWINSZ, size)

    def _seen(self, returncode: int) -> Seen:
        screen = self._screen
        rows = [*screen.history.top, *(screen.buffer[row] for row in range(screen.lines))]
        texts = ["".join(row[column].data for column in range(screen.columns)) for row in rows]
        styles = [
            {row[column].fg for column in range(screen.columns) if row[column].data.strip()}
            - {"default"}
            for row in rows
        ]
        hidden = screen.cursor.hidden
        return Seen(returncode, self._raw, [text.rstrip() for text in texts], styles, hidden)
