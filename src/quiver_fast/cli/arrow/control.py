"""The wrapper's end of the control socket: it learns when an arrow is ready, and says when to end.

The two ends are a pair of stream sockets. Lines of text go over them: `ready` from the
arrow; `sent N` and `stop` to it. An arrow that reads the end of the stream ends as well.
"""

from __future__ import annotations

import contextlib
import socket

__all__ = ["Control"]

_READY = b"ready"
_READ_SIZE = 4096


class Control:
    """The wrapper's end of the stream, and the arrow's until the arrow has started."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._ready = False
        self._text = b""

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def arrow_fd(self) -> int:
        """The descriptor of the arrow's end, for the arrow to inherit."""
        return self._theirs.fileno()

    def started(self) -> None:
        """Leave the arrow's end to the arrow, so that its own end closes the stream."""
        self._theirs.close()

    def is_ready(self) -> bool:
        """Say whether the arrow has said that it is ready. Does not wait."""
        # An arrow that has ended cannot say anything more; its exit code tells why.
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while text := self._ours.recv(_READ_SIZE):
                *lines, self._text = (self._text + text).split(b"\n")
                self._ready |= _READY in lines
        return self._ready

    def sent(self, count: int) -> None:
        """Tell a receiver that the run has ``count`` messages: with the last one it ends."""
        self._say(f"sent {count}")

    def stop(self) -> None:
        """Tell a receiver to take what is on its way and end in order."""
        self._say("stop")

    def close(self) -> None:
        """Close both ends."""
        self._ours.close()
        self._theirs.close()

    def _say(self, line: str) -> None:
        # The arrow may have ended by itself; then nobody reads.
        with contextlib.suppress(ConnectionError):
            self._ours.sendall(line.encode() + b"\n")
