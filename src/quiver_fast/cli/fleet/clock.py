"""The offset between the clocks of two hosts, by exchanges as of NTP, and how exact it is.

One host answers each question with the times at which it came and left, by its own clock. The
one that asks knows when it asked and when the answer came. Of all exchanges the one with the
shortest round trip tells most: whatever the ways there and back took of it, the offset is wrong
by half of the round trip at most (RFC 5905, section 8; Mills calls it the clock filter).
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Clock = Callable[[], int]
"""Returns epoch nanoseconds."""

EXCHANGES = 64
_TIMES = struct.Struct(">QQ")
_QUESTION = b"?"
_SECONDS = 5.0
# Exchanges follow each other after so long: a burst would meet one queue at a switch.
_PAUSE = 0.002


@dataclass(frozen=True)
class Offset:
    """How far the clock of another host is ahead of ours.

    Attributes:
        nanoseconds: their time minus ours.
        bound: by how much that may be wrong at most, nanoseconds, if both clocks ran on while
            it was measured.
    """

    nanoseconds: int
    bound: int

    def minus(self, other: Offset) -> Offset:
        """Return how far this clock is ahead of another one that was compared with the same."""
        return Offset(self.nanoseconds - other.nanoseconds, self.bound + other.bound)


def best_offset(exchanges: Iterable[tuple[int, int, int, int]]) -> Offset:
    """Return the offset that the exchange with the shortest round trip tells.

    Args:
        exchanges: of each, at least one: asked (our clock), came there, left there (theirs),
            answered (ours).
    """
    found = []
    for asked, came, left, answered in exchanges:
        trip = (answered - asked) - (left - came)
        found.append((trip, ((came - asked) + (left - answered)) // 2))
    trip, offset = min(found)
    # Half of the round trip, and what rounding and the clocks' own ticks add.
    return Offset(offset, max(trip, 0) // 2 + 1)


class ClockServer:
    """Answers with the time of this host until it is closed."""

    def __init__(self, clock: Clock) -> None:
        """Begin to listen on a free port of all addresses.

        Raises:
            OSError: it cannot.
        """
        self._clock = clock
        self._listener = socket.create_server(("", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Listen no longer."""
        # A thread that waits in accept() would keep the socket open.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_SECONDS)
            try:
                while connection.recv(1):
                    came = self._clock()
                    connection.sendall(_TIMES.pack(came, self._clock()))
            except OSError:
                return


def measure_offset(address: tuple[str, int], clock: Clock, exchanges: int = EXCHANGES) -> Offset:
    """Return how far the clock of a :class:`ClockServer` is ahead of ours.

    Raises:
        OSError: it cannot be reached.
    """
    found = []
    with socket.create_connection(address, timeout=_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(exchanges):
            asked = clock()
            connection.sendall(_QUESTION)
            text = b""
            while len(text) < _TIMES.size:
                data = connection.recv(_TIMES.size - len(text))
                if not data:
                    raise ConnectionError("the host that tells the time closed the connection")
                text += data
            answered = clock()
            came, left = _TIMES.unpack(text)
            found.append((asked, came, left, answered))
            time.sleep(_PAUSE)
    return best_offset(found)
