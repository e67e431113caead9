"""The wrapper's end of the control socket: reports from an arrow, and commands to it.

The two ends are a pair of stream sockets. Lines of text go over them: `ready`, `flushed T N` and
`rejected N` from the arrow; `hold`, `start`, `sent N` and `stop` to it. An arrow that reads the
end of the stream ends as well.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass

_READY = b"ready"
_FLUSHED = b"flushed "
_REJECTED = b"rejected "
_READ_SIZE = 4096


@dataclass(frozen=True)
class Flushed:
    """The report of an arrow that it has written its records.

    Attributes:
        time: the time of the flush, in nanoseconds of the monotonic clock.
        size: the size of the file with all records up to that time.
    """

    time: int
    size: int


class Control:
    """The wrapper's end of the stream, and the arrow's until the arrow has started."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._ready = False
        self._flushed: Flushed | None = None
        self._rejected = 0
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
        """Say whether the arrow has reported that it is ready. Does not wait."""
        self._listen()
        return self._ready

    def flushed(self) -> Flushed | None:
        """Return the arrow's last report of its records; None before. Does not wait."""
        self._listen()
        return self._flushed

    def hold(self) -> None:
        """Tell a sender to wait for `start` when it is ready; call it before the arrow starts."""
        self._say("hold")

    def start(self) -> None:
        """Tell a sender that waits to begin."""
        self._say("start")

    def rejected(self) -> int:
        """Return how many messages the arrow reported as rejected. Does not wait."""
        self._listen()
        return self._rejected

    def sent(self, count: int) -> None:
        """Tell a receiver that the run has ``count`` messages: with the last one it ends."""
        self._say(f"sent {count}")

    def stop(self) -> None:
        """Tell a receiver to take the messages on their way and end in order."""
        self._say("stop")

    def close(self) -> None:
        """Read the last lines of the arrow, and close both ends."""
        self._listen()
        self._ours.close()
        self._theirs.close()

    def _listen(self) -> None:
        if self._ours.fileno() < 0:
            return
        # An arrow that has ended cannot say anything more; its exit code tells why.
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while text := self._ours.recv(_READ_SIZE):
                *lines, self._text = (self._text + text).split(b"\n")
                for line in lines:
                    self._take(line)

    def _take(self, line: bytes) -> None:
        """Note the report in a line; ignore an unknown line."""
        self._ready |= line == _READY
        if line.startswith(_FLUSHED):
            time, size = line.removeprefix(_FLUSHED).split()
            self._flushed = Flushed(int(time), int(size))
        elif line.startswith(_REJECTED):
            self._rejected = int(line.removeprefix(_REJECTED))

    def _say(self, line: str) -> None:
        # The arrow may have ended by itself; then it does not read.
        with contextlib.suppress(ConnectionError):
            self._ours.sendall(line.encode() + b"\n")
