"""Lost connections that are opened again, of one end or of many, without waiting.

lost ── place 1 ── pause ── place 2 ── longer pause ── place 1 ── open ── attached: back
"""

from __future__ import annotations

import errno
import math
import os
import select
import time
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from quiver_fast import sockets
from quiver_fast.arguments import endpoint as place_text
from quiver_fast.arrow.amqp.opening import Opening
from quiver_fast.errors import LinkError, PeerError, QuiverError, SignalError, TransactionError
from quiver_fast.loop import interrupt
from quiver_fast.records.formats import UNITS_PER_SECOND
from quiver_fast.resolving import Address, resolve

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from quiver_fast.arrow.amqp.connection import Connection
    from quiver_fast.arrow.amqp.link import Endpoint
    from quiver_fast.arrow.run.control import Control
    from quiver_fast.arrow.run.course import Limits
    from quiver_fast.reconnecting import Pause

# The seconds that one attempt may take, until all links are attached; and a name server.
_ATTEMPT = 5.0
_LOOKUP = 2.0
# Addresses of a name are good for so many seconds: a thousand ends ask at the same time.
_FRESH = 1.0
# An end without a connection looks at its clock so often (seconds).
_LOOK = 0.05
# Attempts at the same time: more would not fit the backlog of a listener.
_MOST = 64
# What makes an attempt fail.
_FAILED = (PeerError, LinkError, TransactionError, SignalError, OSError)


class Place(NamedTuple):
    """Where connections are opened.

    Attributes:
        host, port: to connect to.
        hostname: the name for TLS, SASL and the open frame.
        name: the place in messages.
    """

    host: str
    port: int
    hostname: str
    name: str


def places_of(named: Sequence[tuple[str, int]], via: Sequence[tuple[str, int]] = ()) -> list[Place]:
    """Return the places of an arrow.

    Args:
        named: the host and port of the run, and those of failover.
        via: where to connect to in place of each; none for these.
    """
    return [
        Place(*at, host, place_text(host, port))
        for (host, port), at in zip(named, via or named, strict=True)
    ]


@dataclass(eq=False)
class Failure:
    """A lost connection; see the schema of ``failures``."""

    ends: tuple[int, int]
    lost_at: int
    back_at: int | None
    reason: str
    in_doubt: list[list[int]]
    attempts: int = 0
    # The seconds before the last attempt: the server may have been back for so long.
    pause: float = 0.0
    place: str | None = None
    resent: list[list[int]] = field(default_factory=list)


def ranges_of(numbers: Iterable[int]) -> list[list[int]]:
    """Return sorted numbers as ranges, each with its first and its last number."""
    runs = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    parts = ([number for _, number in run] for _, run in runs)
    return [[part[0], part[-1]] for part in parts]


class Ways:
    """How the connections of a process come back, and those that were lost.

    Args:
        places: where to connect, in turns.
        pause: between attempts.
        patience: seconds that a connection may be away; 0 for no limit.
        limits: the limits of all ends.
        time_unit: of the records.
        connect: makes a connection of a socket, its place and the connection's number.
        address: returns the node at the peer of an open connection of an end, by its number.

    Attributes:
        connection: the last one of an only end.
        attempts: how many go on.
    """

    def __init__(
        self,
        places: Sequence[Place],
        pause: Pause,
        patience: float,
        limits: Limits,
        time_unit: str,
        connect: Callable[[socket.socket, Place, int], Connection],
        address: Callable[[Connection, int], str],
    ) -> None:
        self.places = places
        self.pause = pause
        self.patience = patience
        self.connect = connect
        self.address = address
        self.connection: Connection | None = None
        self.attempts = 0
        self._limits = limits
        self._unit = 10**9 // UNITS_PER_SECOND[time_unit]
        self._failures: list[Failure] = []
        # The last return of each connection, which knows its ends.
        self._last: dict[int, Return] = {}
        self._known: dict[Place, tuple[float, list[Address] | PeerError]] = {}

    def run(self, endpoint: Any, connection: Connection) -> None:
        """Run the only end over one connection after the other.

        Raises:
            QuiverError: it failed, or was without a connection for too long.
        """
        self.connection = connection
        back = True
        while back:
            try:
                endpoint.run()
                back = False
            except (PeerError, LinkError) as error:
                self.connection.abandon()
                back = self._come_back(endpoint, str(error))
                if not back:
                    endpoint.conclude()

    def _come_back(self, endpoint: Any, reason: str) -> bool:
        """Wait until the only end has a connection again; return False if its run is over."""
        one = self.lose(0, [endpoint], (0, 0), reason)
        try:
            while not one.step():
                if endpoint.go_without():
                    return False
                one.wait(self._limits.control)
        finally:
            one.give_up()
        self.connection = one.connection
        return True

    def lose(self, number: int, endpoints: Sequence[Endpoint], ends: tuple[int, int],
             reason: str) -> Return:  # fmt: skip
        """Note a lost connection, and begin to open it again.

        Args:
            number: of the connection.
            endpoints: its ends that go on.
            ends: the numbers of the first and the last end of the connection.
            reason: why it was lost.
        """
        before = self._last.get(number)
        if before is not None:
            before.note_resent()
        lost_at = time.monotonic_ns() + self._limits.clock_base
        doubts = sorted(one for end in endpoints for one in end.lose())
        failure = Failure(ends, lost_at, None, reason, ranges_of(doubts))
        self._failures.append(failure)
        self._last[number] = Return(self, number, endpoints, failure, before)
        return self._last[number]

    def now(self) -> int:
        """Return the time, cut as the records cut it: no record after it has an earlier one."""
        now = time.monotonic_ns() + self._limits.clock_base
        return now - now % self._unit

    def addresses(self, place: Place) -> list[Address]:
        """Return the addresses of a place.

        Raises:
            PeerError: its name does not resolve.
        """
        at, found = self._known.get(place, (0.0, []))
        if time.monotonic() > at + _FRESH:
            try:
                found = resolve(place.host, place.port, timeout=_LOOKUP)
            except PeerError as error:
                found = error
            self._known[place] = time.monotonic(), found
        if isinstance(found, PeerError):
            raise found
        return found

    def documents(self) -> list[dict[str, Any]]:
        """Return all failures, at the end of the run."""
        for one in self._last.values():
            one.note_resent()
        return [asdict(one) for one in self._failures]


class Return:
    """A lost connection on its way back."""

    def __init__(self, ways: Ways, number: int, endpoints: Sequence[Endpoint], failure: Failure,
                 before: Return | None) -> None:  # fmt: skip
        self.number = number
        self.endpoints = endpoints
        self.connection: Connection | None = None
        self._ways = ways
        self._failure = failure
        self._race: sockets.Race | None = None
        self._opening: Opening | None = None
        self._begun = self.due = time.monotonic()
        self._turn = 0
        self._pause = ways.pause.first
        self._paused = 0.0
        self._error = failure.reason
        if before is not None:
            # Begin where it was; a connection that is lost again and again waits longer and longer.
            self._turn = before._turn
            if self._begun < before.due + ways.pause.longest:
                self._pause = before._pause
                self._wait(self._begun)

    def note_resent(self) -> None:
        """Take the numbers of the messages that were sent again over the new connection."""
        resent = sorted(one for end in self.endpoints for one in end.take_resent())
        self._failure.resent += ranges_of(resent)

    def wait(self, control: Control) -> None:
        """Wait until there is something to do, for a moment at most; read the wrapper's lines."""
        poller = select.poll()
        for fd in (control.fileno(), interrupt.wake_fd()):
            if fd >= 0:
                poller.register(fd, select.POLLIN)
        due = self.due
        if self._opening is not None:
            poller.register(self._opening.sock, self._opening.events)
            due = math.inf
        elif self._race is not None:
            poller.register(self._race, select.POLLIN)
            due = self._race.due
        now = time.monotonic()
        poller.poll(math.ceil(max(min(due - now, _LOOK), 0) * 1000))
        control.read()

    def step(self) -> bool:
        """Do what can be done now; say whether the connection is back, with its links.

        Raises:
            QuiverError: it is away for too long.
        """
        now = time.monotonic()
        try:
            return self._advance(now)
        except _FAILED as error:
            told = error.strerror if isinstance(error, OSError) else None
            self._error = f"{self._place.name}: cannot connect: {told}" if told else str(error)
            self.give_up()
            self._turn += 1
            self._wait(now)
        patience = self._ways.patience
        if patience and now >= self._begun + patience:
            self.give_up()
            for endpoint in self.endpoints:
                endpoint.fail_without()
            raise QuiverError(
                f"no connection for {patience:g} s, after {self._failure.attempts} attempts: "
                f"{self._error}"
            )
        return False

    def give_up(self) -> None:
        """Abandon the attempt."""
        if self._race is not None:
            self._race.close()
        if self._opening is not None:
            self._opening.abandon()
        self._ways.attempts -= self._race is not None or self._opening is not None
        self._race = self._opening = None

    @property
    def _place(self) -> Place:
        return self._ways.places[self._turn % len(self._ways.places)]

    def _wait(self, now: float) -> None:
        self._paused = self._pause
        self.due = now + self._pause
        self._pause = min(2 * self._pause, self._ways.pause.longest)

    def _advance(self, now: float) -> bool:
        if self._opening is None:
            self._connect(now)
        one = self._opening
        if one is None or one.connection is None or not one.is_ready(one.connection, self._move):
            return False
        self.connection, self._opening = one.connection, None
        self._ways.attempts -= 1
        self._failure.back_at = self._ways.now()
        self._failure.place = self._place.name
        self.due = now
        for endpoint in self.endpoints:
            endpoint.resume()
        return True

    def _connect(self, now: float) -> None:
        """Begin to connect if it is time; make a connection of the socket that is connected."""
        if self._race is None:
            if now < self.due or self._ways.attempts >= _MOST:
                return
            self._failure.attempts += 1
            self._failure.pause = self._paused
            patience = self._ways.patience
            self._deadline = now + (min(_ATTEMPT, patience) if patience else _ATTEMPT)
            self._race = sockets.Race(self._ways.addresses(self._place))
            self._ways.attempts += 1
        sock = self._race.step()
        if sock is None and now >= self._deadline:
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        if sock is not None:
            self._race.close()
            self._race = None
            self._opening = Opening(self.number, sock, self._deadline)
            self._opening.connection = self._ways.connect(sock, self._place, self.number)

    def _move(self, connection: Connection) -> Sequence[Endpoint]:
        """Have the ends use the new connection, whose peer has opened it."""
        for endpoint in self.endpoints:
            endpoint.move_to(connection, self._ways.address(connection, endpoint.number))
        return self.endpoints
