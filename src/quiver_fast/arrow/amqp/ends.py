"""Many ends in one process: how their connections open at the same time, and their sums."""

from __future__ import annotations

import os
import resource
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from quiver_fast import sockets
from quiver_fast.arrow.amqp.ends_loop import EndsLoop
from quiver_fast.arrow.amqp.opening import Opening
from quiver_fast.arrow.run.control import Control
from quiver_fast.errors import LinkError, MessageError, OutcomeError, PeerError, QuiverError
from quiver_fast.loop import interrupt

if TYPE_CHECKING:
    from quiver_fast.arrow.amqp.connection import Connection
    from quiver_fast.arrow.amqp.returning import Return, Ways
    from quiver_fast.arrow.run.account import Account
    from quiver_fast.arrow.run.course import Limits
    from quiver_fast.records.writer import RecordWriter

# Connections that open at the same time: more would not fit the backlog of a listener.
_OPENING = 64
# Descriptors of a process besides those of its connections.
_OTHER_FILES = 32
# Open connections wait for the others: their time-outs are checked so often (seconds).
_SERVE_PERIOD = 1.0
# Connections that are away are tended so often (nanoseconds).
_TEND_PERIOD = 1_000_000


def allow_files(connections: int) -> None:
    """Raise the limit of open files, so that each connection has a descriptor.

    Raises:
        QuiverError: the hard limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise QuiverError(
                f"connections={connections} take {needed} open files, and the system allows this "
                f"process {hard} (see ulimit -Hn)"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@dataclass(frozen=True)
class EndsShape:
    """How the ends of a process are connected.

    Attributes:
        connections: their number.
        links: links of each connection, each with a session of its own.
        sends: the ends are senders.
        listens: the peer opens the connections.
        passive: the peer opens sessions and links.
        host, port: where to connect to, or to listen.
        place: the name of that in messages.
        first: the number of the first end, among all ends of its side.
        goal: messages that end the run of all receivers together; 0 for none.
        exact: spin until messages are due, instead of sleeping.
        patience: seconds to wait for peers that connect; None for ever.
        counts_turns: see EndsLoop.
    """

    connections: int
    links: int
    sends: bool
    listens: bool
    passive: bool
    host: str
    port: int
    place: str
    first: int = 0
    goal: int = 0
    exact: bool = False
    patience: float | None = None
    counts_turns: bool = False

    @property
    def count(self) -> int:
        """Number of ends."""
        return self.connections * self.links

    def name_of(self, number: int) -> str:
        """Return the name of a connection in messages."""
        return f"{self.place} (connection {number + 1} of {self.connections})"


class Ends:
    """All ends of a process: senders or receivers. An arrow uses them like one endpoint.

    Args:
        shape: how they are connected.
        writer: where the records go.
        limits: when all of them stop.
        make_connection: makes a connection of a connected socket, its name and its number.
        make_endpoint: makes the endpoint of a connection, given its limits and its number.
        ways: how lost connections come back; None: the first one ends the run.
    """

    def __init__(
        self,
        shape: EndsShape,
        writer: RecordWriter,
        limits: Limits,
        make_connection: Callable[[socket.socket, str, int], Connection],
        make_endpoint: Callable[[Connection, Limits, int], Any],
        ways: Ways | None = None,
    ) -> None:
        self._shape = shape
        self._limits = limits
        self._control = limits.control
        self._inner = Control()
        self._make_connection = make_connection
        self._make_endpoint = make_endpoint
        self._ways = ways
        self._returns: dict[int, Return] = {}
        kind = EndsLoop
        if ways is not None:
            from quiver_fast.arrow.amqp.lasting_loop import LastingLoop

            kind = LastingLoop
        self._loop = kind(
            writer, limits, self._inner, connections=shape.connections, links=shape.links,
            sends=shape.sends, first_number=shape.first, goal=shape.goal, exact=shape.exact,
            counts_turns=shape.counts_turns,
        )  # fmt: skip
        self._opening: list[Opening] = []
        self._listeners: list[socket.socket] = []
        self._begun = 0
        self.connection: Connection | None = None
        self.endpoints: list[Any] = []

    # ---- opening ---------------------------------------------------------------------

    def open(self, timeout: float) -> None:
        """Open all connections and attach all links.

        Args:
            timeout: seconds that a peer may take for each connection.

        Raises:
            PeerError, SecurityError, LinkError: one of them failed; the message names it.
        """
        begin = time.monotonic()
        if self._shape.listens:
            backlog = min(self._shape.connections, socket.SOMAXCONN)
            self._listeners = sockets.listen(self._shape.host, self._shape.port, max(8, backlog))
        else:
            self._connect_first(timeout)
        try:
            while self._loop.line_count < self._shape.connections:
                self._begin_more(timeout)
                self._step(self._wait(begin))
        finally:
            for listener in self._listeners:
                listener.close()
            for one in self._opening:
                one.abandon()
            self._opening = []

    def _connect_first(self, timeout: float) -> None:
        """Connect once, and wait: the others use the address that works."""
        first = sockets.connect(self._shape.host, self._shape.port, timeout)
        self._family, self._address = first.family, first.getpeername()
        self._begin(first, timeout)

    def _begin(self, sock: socket.socket, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        writes = not self._shape.listens
        self._opening.append(Opening(self._begun if writes else -1, sock, deadline, writes=writes))
        # Peers that connect count when they send their first byte.
        self._begun += writes

    def _begin_more(self, timeout: float) -> None:
        """Begin connections, up to _OPENING at the same time."""
        unspoken = sum(one.number < 0 for one in self._opening)
        left = self._shape.connections - self._begun - unspoken
        most = min(_OPENING - len(self._opening), left)
        for listener in self._listeners:
            for sock in sockets.take_peers(listener, most):
                self._begin(sock, timeout)
                most -= 1
        while most > 0 and not self._listeners:
            try:
                sock = sockets.begin_connect(self._family, self._address)
            except OSError as error:
                raise PeerError(self._cannot_connect(self._begun, error)) from None
            self._begin(sock, timeout)
            most -= 1

    def _cannot_connect(self, number: int, error: OSError) -> str:
        return f"{self._shape.name_of(number)}: cannot connect: {error.strerror or error}"

    def _wait(self, begin: float) -> set[int] | None:
        """Wait for the sockets of connections that open.

        Returns the ready descriptors, or None: then the times of all are checked.

        Raises:
            SignalError: a signal came.
            PeerError: the wrapper said stop, or not all peers came in time.
        """
        poller = select.poll()
        for one in self._opening:
            poller.register(one.sock, one.events)
        for fd in (self._loop.fileno(), self._control.fileno(), interrupt.wake_fd()):
            if fd >= 0:
                poller.register(fd, select.POLLIN)
        for listener in self._listeners if len(self._opening) < _OPENING else ():
            poller.register(listener, select.POLLIN)
        ready = poller.poll(_SERVE_PERIOD * 1000)
        interrupt.raise_if_pending()
        self._control.read()
        if self._control.stopped:
            raise PeerError(f"told to stop before all connections to {self._shape.place} were open")
        self._loop.serve()
        patience = self._shape.patience
        if self._shape.listens and patience is not None and time.monotonic() > begin + patience:
            raise PeerError(
                f"{self._begun} of {self._shape.connections} peers connected to "
                f"{self._shape.place} within {patience:g} s"
            )
        return {fd for fd, _ in ready} or None

    def _step(self, ready: set[int] | None) -> None:
        """Advance the connections that open: those of ``ready``, or all."""
        for one in list(self._opening):
            if ready is not None and one.sock.fileno() not in ready:
                continue
            if one.connection is None and not self._has_socket(one):
                continue
            make = partial(self._make_endpoints, one.number)
            if one.connection is not None and one.is_ready(
                one.connection, make, self._shape.passive
            ):
                self._opening.remove(one)
                self._loop.add(one.connection, list(one.endpoints))
                self.endpoints.extend(one.endpoints)
                self.connection = self.connection or one.connection

    def _has_socket(self, one: Opening) -> bool:
        """Make a connection over a connected socket; say whether there is one."""
        if self._shape.listens:
            spoken = sockets.has_spoken(one.sock)
            if spoken is False:
                # A probe of the port.
                one.sock.close()
                self._opening.remove(one)
            if not spoken:
                return False
            one.number = self._begun
            self._begun += 1
        else:
            code = one.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                error = OSError(code, os.strerror(code))
                raise PeerError(self._cannot_connect(one.number, error))
            if not _is_connected(one.sock):
                self._judge_time(one, "take the connection")
                return False
        one.connection = self._make_connection(
            one.sock, self._shape.name_of(one.number), one.number
        )
        return True

    def _judge_time(self, one: Opening, purpose: str) -> None:
        if time.monotonic() >= one.deadline:
            raise PeerError(
                f"{self._shape.name_of(one.number)}: the peer did not {purpose} in time"
            )

    def _make_endpoints(self, number: int, connection: Connection) -> list[Any]:
        first = number * self._shape.links
        return [
            self._make_endpoint(connection, self._share(end), end)
            for end in range(first, first + self._shape.links)
        ]

    def _share(self, number: int) -> Limits:
        return self._limits.share(number, self._shape.count, self._inner)

    # ---- the run ---------------------------------------------------------------------

    def run(self) -> None:
        """Transfer until all ends are over.

        Raises:
            OutcomeError: messages were rejected, released or modified.
            MessageError: deliveries were aborted.
            PeerError, LinkError, OutputError: an end failed.
        """
        run: Callable[[], None] | None = self._loop.run
        while run is not None:
            run = self._run_until_loss(run)
        account = self.account()
        if self._shape.sends and account.refused:
            from quiver_fast.arrow.amqp.outcome_text import not_accepted

            raise OutcomeError(not_accepted(self._shape.place, account))
        excused = self.interrupted or self._ways is not None
        if not self._shape.sends and account.aborted and not excused:
            raise MessageError(f"{self._shape.place}: {account.aborted} deliveries were aborted")

    def _run_until_loss(self, run: Callable[[], None]) -> Callable[[], None] | None:
        """Run until all ends are over, or until a connection is lost; return how to go on."""
        try:
            run()
        except (PeerError, LinkError) as error:
            if self._ways is None:
                raise
            loop: Any = self._loop
            lost = loop.take_lost(str(error))
            if not lost:
                raise
            links = self._shape.links
            for line, endpoints, reason in lost:
                # The lines of the loop are in the order in which the connections opened.
                number = self.endpoints[line * links].number // links
                first = self._shape.first + number * links
                ends = (first, first + links - 1)
                self._returns[line] = self._ways.lose(number, endpoints, ends, reason)
            return partial(loop.go_on, partial(self._tend, loop))
        return None

    def _tend(self, loop: Any) -> int:
        """Step the connections that are away; return how many nanoseconds later to do so again."""
        begin = time.monotonic_ns()
        for line, one in list(self._returns.items()):
            is_back = one.step()
            over = [end.go_without() for end in one.endpoints]
            if is_back:
                # It may be lost again at once.
                del self._returns[line]
                loop.put_back(line, one.connection)
            elif all(over):
                del self._returns[line]
                one.give_up()
                loop.leave_out(line)
        # At most a quarter of the time, however many there are.
        return max(_TEND_PERIOD, 3 * (time.monotonic_ns() - begin))

    def close(self, *, ended: bool = False) -> None:
        """Close all connections; never raises. See Connection.close."""
        for one in self._returns.values():
            one.give_up()
        self._loop.close(ended=ended)

    def account(self) -> Account:
        """Return the account of all ends."""
        from quiver_fast.arrow.run.account import account_of_all

        accounts = [one.account() for one in self.endpoints]
        # An end that was not opened has none.
        counts = [0] * self._shape.count
        for one, account in zip(self.endpoints, accounts, strict=True):
            counts[one.number] = account.sent or account.received
        return account_of_all(accounts)._replace(counts=tuple(counts))

    @property
    def interrupted(self) -> int:
        """Number of the signal that ended the run early, or 0."""
        return max((one.interrupted for one in self.endpoints), default=0)


def _is_connected(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return False
    return True
