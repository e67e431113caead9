"""Connections that are opened at the same time. A failure is counted and ends only its own."""

from libc.errno cimport errno
from libc.stdint cimport int64_t
from posix.time cimport timespec
from posix.unistd cimport close

import os
import socket
import time

from cpython.exc cimport PyErr_CheckSignals
from quiver_fast import sockets
from quiver_fast.amqp.data_plane cimport AMQP_NOTHING, AMQP_OUTCOME, amqp_event
from quiver_fast.amqp.tls cimport tls_close, tls_established
from quiver_fast.arguments import endpoint
from quiver_fast.arrow.amqp.connection cimport PEER_CLOSED, Connection
from quiver_fast.errors import PeerError, QuiverError
from quiver_fast.loop.reactor cimport watch_add, watch_change, watch_remove
from quiver_fast.proton.libproton cimport (
    PN_REMOTE_UNINIT, PN_SASL_OK, pn_connection_state, pn_sasl, pn_sasl_outcome,
)
from quiver_fast.proton.libsys cimport (
    EPOLL_CLOEXEC, EPOLLIN, EPOLLOUT, POLLIN, epoll_create1, epoll_event, epoll_wait,
    monotonic_ns, pollfd, ppoll,
)
from quiver_fast.resolving import resolve

# The first arguments of a subclass, which it passes on.
Common: TypeAlias = (
    "tuple[str, int, float, Callable[[socket.socket], Connection], Callable[[], bool]]")
STEPS: tuple[str, ...] = ("tcp", "tls", "sasl", "open", "begin", "attach", "message", "close")

# How messages name a step that was not done in time.
PURPOSES = (
    "take the connection", "speak TLS", "authenticate", "open the connection",
    "begin the session", "attach the link", "settle the message", "answer the close",
)

cdef enum:
    # Descriptors of one epoll_wait; the next one returns the others first.
    BATCH = 256
    # Reasons that are counted one by one: a peer may put anything into its texts.
    REASONS_MAX = 20

cdef int64_t SECOND = 1000000000
# A signal that comes just before a sleep is noticed after it.
cdef int64_t SLEEP_MAX = SECOND // 10

OTHERS = "other reasons"


cdef class Attempt:
    """A connection, session or link, from its begin to its end."""

    def __cinit__(self) -> None:
        cdef int step
        for step in range(STEP_COUNT):
            self.spent[step] = -1
        self.refusal = ""


cdef class Attempts:
    """The loop over attempts. A subclass defines the steps after the open.

    Args:
        host, port: where to connect to.
        timeout: seconds that an attempt may take from the time it was due.
        make_connection: makes a connection of a connected socket.
        is_stopped: says whether the user wants the end.

    Raises:
        PeerError: the host does not resolve.
        OSError: the system has no room.
    """

    def __cinit__(self, *arguments: object, **options: object) -> None:
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll < 0:
            raise OSError(errno, f"epoll: {os.strerror(errno)}")

    def __init__(self, host: str, port: int, timeout: float,
                 make_connection: Callable[[socket.socket], Connection],
                 is_stopped: Callable[[], bool]) -> None:
        self.family, self.address = reachable(host, port, timeout)
        self.place = endpoint(host, port)
        self.patience = <int64_t>(timeout * SECOND)
        self.make_connection = make_connection
        self.is_stopped = is_stopped
        self.pending = {}
        self.reasons = {}

    def __dealloc__(self) -> None:
        if self.epoll >= 0:
            close(self.epoll)

    @property
    def peer_address(self) -> tuple[str, int]:
        """The address and the port that are connected to."""
        return self.address[:2]

    # ---- hooks of subclasses ---------------------------------------------------------

    cdef int begin_step(self, Attempt one) except -1:
        """Begin the present step of an attempt."""
        return 0

    cdef int take_bytes(self, Attempt one) except -1:
        """Take the input of an attempt's connection."""
        return self.advance(one)

    cdef int take_outcome(self, Connection connection) except -1:
        """Take a disposition of the peer."""
        return 0

    cdef int succeed(self, Attempt one) except -1:
        """Count an attempt that has passed all steps."""
        return 0

    # ---- one attempt -----------------------------------------------------------------

    cdef Attempt connect(self, int64_t due):
        """Begin a connection; return None if it fails at once."""
        one = Attempt()
        one.due = due
        one.since = monotonic_ns()
        one.deadline = due + self.patience
        self.pending[one] = None
        try:
            one.sock = sockets.begin_connect(self.family, self.address)
        except OSError as error:
            self.fail(one, error)
            return None
        one.watch.fd = one.sock.fileno()
        one.watch.owner = <void *>one
        one.awaits_room = True
        if watch_add(self.epoll, &one.watch, EPOLLIN | EPOLLOUT) != 0:
            self.fail(one, OSError(errno, os.strerror(errno)))
            return None
        return one

    cdef int serve(self, Attempt one) except -1:
        """Read and write the socket of an attempt, and advance the attempt."""
        try:
            if one.connection is None:
                self.open_connection(one)
            self.exchange(one.connection)
            self.take_bytes(one)
            self.flush(one)
        except QuiverError as error:
            self.fail(one, error)
        except OSError as error:
            self.fail(one, error)
        return 0

    cdef int open_connection(self, Attempt one) except -1:
        """Open AMQP over a socket that epoll reports, unless connecting has failed."""
        code = one.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        one.connection = self.make_connection(one.sock)
        return self.advance(one)

    cdef int exchange(self, Connection connection) except -1:
        """Write the output, read the input, and take its events."""
        cdef amqp_event event
        cdef bint got = True
        connection.tick()
        connection.write()
        while got:
            # epoll reports a socket again that was not read to its end, but no bytes within TLS.
            got = connection.read() and connection.tls != NULL
            event = connection.next_event()
            while event != AMQP_NOTHING:
                if event == AMQP_OUTCOME:
                    self.take_outcome(connection)
                event = connection.next_event()
        return 0

    cdef int flush(self, Attempt one) except -1:
        """Write the output; have epoll report room if the socket is full."""
        cdef Connection connection = one.connection
        if connection is None or one.watch.fd < 0:
            return 0
        connection.write()
        if connection.blocked != one.awaits_room:
            one.awaits_room = connection.blocked
            watch_change(self.epoll, &one.watch, EPOLLIN | (EPOLLOUT if one.awaits_room else 0))
        return 0

    cdef int advance(self, Attempt one) except -1:
        """Record the steps that an attempt has passed, and begin the next one."""
        cdef int64_t now
        while one.step < STEP_COUNT and self.has_passed(one):
            if one.step != STEP_TLS or one.connection.tls != NULL:
                now = monotonic_ns()
                one.spent[one.step] = now - one.since
                one.since = now
            one.step += 1
            if one.step == STEP_COUNT:
                self.release(one)
                return self.succeed(one)
            self.begin_step(one)
        return 0

    cdef bint has_passed(self, Attempt one) except -1:
        """Say whether the peer has answered the present step."""
        cdef Connection connection = one.connection
        cdef bint opened = not pn_connection_state(connection.connection) & PN_REMOTE_UNINIT
        if one.step == STEP_TCP:
            return True
        if one.step == STEP_TLS and (connection.tls == NULL or tls_established(connection.tls)):
            return True
        if one.step == STEP_SASL and (
                opened or pn_sasl_outcome(pn_sasl(connection.transport)) == PN_SASL_OK):
            return True
        if one.step == STEP_OPEN and opened and connection.try_open():
            return True
        if connection.check() == PEER_CLOSED:
            raise PeerError("the peer closed the connection")
        return False

    cdef int release(self, Attempt one) except -1:
        """Close the socket of an attempt, if it has one."""
        self.pending.pop(one, None)
        if one.sock is None:
            return 0
        if one.watch.fd >= 0:
            watch_remove(self.epoll, &one.watch)
            one.watch.fd = -1
        if one.connection is None:
            one.sock.close()
            return 0
        if one.connection.tls != NULL and one.connection.closing:
            tls_close(one.connection.tls)
        one.connection.abandon()
        return 0

    # ---- failures --------------------------------------------------------------------

    cdef int fail(self, Attempt one, object error) except -1:
        """End an attempt, and count the reason."""
        self.release(one)
        self.failed += 1
        return self.count_reason(self.reasons, one, error)

    cdef int count_reason(self, dict reasons, Attempt one, object error) except -1:
        cdef str reason = str(error)
        if isinstance(error, OSError):
            reason = f"cannot connect: {error.strerror}"
        if one is not None and one.connection is not None:
            reason = reason.removeprefix(f"{one.connection.peer}: ")
        if reason not in reasons and len(reasons) >= REASONS_MAX:
            reason = OTHERS
        reasons[reason] = reasons.get(reason, 0) + 1
        return 0

    cdef int judge_times(self, int64_t now) except -1:
        """Fail the attempts whose time is over: `pending` is in the order of deadlines."""
        cdef Attempt one
        late = []
        for one in self.pending:
            if one.deadline > now:
                break
            late.append(one)
        for one in late:
            reason = f"connecting to {self.place}: no answer in time"
            if one.connection is not None:
                reason = one.connection.delay(PURPOSES[one.step])
            self.fail(one, PeerError(reason))
        return 0

    # ---- the loop --------------------------------------------------------------------

    cdef int poll(self, int64_t until) except -1:
        """Wait for sockets until ``until`` (monotonic ns); serve the ready ones."""
        cdef epoll_event[BATCH] events
        cdef Watch *watch
        cdef pollfd polled
        cdef timespec rest
        cdef int64_t left = min(max(until - monotonic_ns(), 0), SLEEP_MAX)
        cdef int count
        cdef int i
        polled.fd = self.epoll
        polled.events = POLLIN
        rest.tv_sec = left // SECOND
        rest.tv_nsec = left % SECOND
        with nogil:
            # The time-out of epoll_wait has a resolution of milliseconds.
            ppoll(&polled, 1, &rest, NULL)
            count = epoll_wait(self.epoll, events, BATCH, 0)
        PyErr_CheckSignals()
        for i in range(count):
            watch = <Watch *>events[i].data.ptr
            self.serve(<Attempt>watch.owner)
        self.judge_times(monotonic_ns())
        return 0


def reachable(host: str, port: int, timeout: float) -> tuple[int, tuple[object, ...]]:
    """Return family and address of a host: the one that takes connections, else the first one.

    Raises:
        PeerError: the host does not resolve.
    """
    deadline = time.monotonic() + timeout
    found = resolve(host, port, timeout=timeout)
    try:
        probe = sockets.connect_to(found, endpoint(host, port), deadline)
    except PeerError:
        return found[0]
    with probe:
        return probe.family, probe.getpeername()
