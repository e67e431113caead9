"""The offset between the clocks of two hosts, measured as NTP does, with a bound of its error.

One host asks, and notes when it asked and when the answer came. The other host answers with two
times of its own clock: when the question came and when the answer left. The exchange with the
shortest round trip is the most exact: the offset is wrong by at most half of the round trip
(RFC 5905, section 8; Mills calls it the clock filter).
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
# A pause between exchanges: all exchanges of a burst would wait in the same queue of a switch.
_PAUSE = 0.002


@dataclass(frozen=True)
class Offset:
    """How far the clock of another host is ahead of ours.

    Attributes:
        nanoseconds: their time minus ours.
        bound: the largest possible error of the offset, nanoseconds, if no clock was set while
            it was measured.
    """

    nanoseconds: int
    bound: int

    def minus(self, other: Offset) -> Offset:
        """Return how far this clock is ahead of another one; both were compared with one clock."""
        return Offset(self.nanoseconds - other.nanoseconds, self.bound + other.bound)


def best_offset(exchanges: Iterable[tuple[int, int, int, int]]) -> Offset:
    """Return the offset of the exchange with the shortest round trip.

    Args:
        exchanges: at least one tuple of four times: question sent (our clock), question
            received, answer sent (their clock), answer received (our clock).
    """
    found = []
    for asked, came, left, answered in exchanges:
        trip = (answered - asked) - (left - came)
        found.append((trip, ((came - asked) + (left - answered)) // 2))
    trip, offset = min(found)
    # Half of the round trip, and one nanosecond for rounding.
    return Offset(offset, max(trip, 0) // 2 + 1)


class ClockServer:
    """Answers with the time of this host until it is closed."""

    def __init__(self, clock: Clock) -> None:
        """Listen on a free port of all addresses.

        Raises:
            OSError: the system refuses.
        """
        self._clock = clock
        self._listener = socket.create_server(("", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
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
                    raise ConnectionError("the clock server closed the connection")
                text += data
            answered = clock()
            came, left = _TIMES.unpack(text)
            found.append((asked, came, left, answered))
            time.sleep(_PAUSE)
    return best_offset(found)
