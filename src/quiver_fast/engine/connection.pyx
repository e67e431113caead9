"""One AMQP connection over one socket: the engine's driver and the event pump.

The pump is one call, `exchange`: write what the engine has, read what the
socket has, and wait only when there is neither. Callers look at the engine's
state between two exchanges; no event objects are made.
"""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memset

import os

from quiver_fast.amqp.tls cimport (
    TLS_AGAIN, TLS_END, TLS_FAILED, iovec, tls_close, tls_established, tls_events, tls_failure,
    tls_flush, tls_free, tls_read, tls_socket_error, tls_write,
)
from quiver_fast.engine.security.security cimport conclude_sasl, peer_is_loopback
from quiver_fast.errors import PeerError, SecurityError
from quiver_fast.loop.interrupt cimport pending_count, wake_descriptor
from quiver_fast.loop.interrupt import raise_if_pending
from quiver_fast.proton.libproton cimport (
    PN_LOCAL_CLOSED, PN_MAP, PN_REMOTE_ACTIVE, PN_REMOTE_CLOSED, PN_REMOTE_UNINIT, PN_SASL_NONE,
    PN_SASL_OK, PN_STRING, PN_SYMBOL, pn_bytes, pn_bytes_t, pn_condition_get_description,
    pn_condition_get_name, pn_condition_is_set, pn_condition_t, pn_connection_close,
    pn_connection_collect,
    pn_connection_driver_bind, pn_connection_driver_destroy, pn_connection_driver_init,
    pn_connection_driver_read_buffer, pn_connection_driver_read_buffer_sized,
    pn_connection_driver_read_close, pn_connection_driver_read_closed,
    pn_connection_driver_read_done,
    pn_connection_driver_write_buffer, pn_connection_driver_write_close,
    pn_connection_driver_write_done, pn_connection_offered_capabilities, pn_connection_open,
    pn_connection_properties,
    pn_connection_remote_condition, pn_connection_remote_container,
    pn_connection_remote_properties, pn_connection_set_container, pn_connection_set_hostname,
    pn_connection_state, pn_data_enter, pn_data_exit, pn_data_get_bytes, pn_data_next,
    pn_data_put_map, pn_data_put_string, pn_data_put_symbol, pn_data_rewind, pn_data_t,
    pn_data_type, pn_rwbytes_t, pn_sasl, pn_sasl_get_mech, pn_sasl_outcome, pn_session_close,
    pn_session_head, pn_session_next, pn_session_t, pn_transport_condition,
    pn_transport_set_idle_timeout, pn_transport_set_max_frame, pn_transport_set_server,
    pn_transport_tick, ssize_t,
)
from quiver_fast.proton.libsys cimport (
    MSG_DONTWAIT, MSG_NOSIGNAL, POLLIN, POLLOUT, monotonic_ns, pollfd, ppoll, recv, sched_yield,
    send, timespec,
)
from quiver_fast.run.control cimport Control

FOREVER = INT64_MAX

# By default the engine reads 8 KiB at a time; 32 KiB was measured fastest.
cdef size_t READ_SIZE = 32768
cdef int64_t MILLISECOND = 1000000
cdef int64_t SECOND = 1000000000
# About the time that it takes to wake a sleeping process.
cdef int64_t LINGER = 30 * 1000
# A sleeper may take this long to wake on a virtual machine whose core went idle.
cdef int64_t AWAKE = 100 * 1000
cdef int64_t CLOSE_TIMEOUT = 2 * SECOND
# AMQP 1.0 part 2.4.5: a peer may want a frame within any time-out that it names.
cdef int64_t TICK_PERIOD = 50 * MILLISECOND

# Key of the run's id in the open frame's properties (part 2.7.1).
RUN_ID = b"quiver-run-id"
# The content type of a TLS alert (RFC 8446, section 5.1): what a TLS port answers to AMQP.
cdef unsigned char TLS_ALERT = 21
# What the TLS layer says of a peer that does not answer its hello, or not within TLS.
NO_TLS = ("cut the connection in the handshake", "speaks no TLS")


cdef ssize_t receive(int fd, char *start, size_t size) noexcept nogil:
    """Receive bytes in clear; return what `tls_read` would."""
    cdef ssize_t n
    while True:
        n = recv(fd, start, size, MSG_DONTWAIT)
        if n >= 0:
            return n
        if errno != EINTR:
            return TLS_AGAIN if errno == EAGAIN else TLS_FAILED


cdef int put_symbol(pn_data_t *data, bytes symbol) except -1:
    """Put the one symbol of a field that may hold several (part 1.4, multiple)."""
    return pn_data_put_symbol(data, pn_bytes(len(symbol), symbol))


cdef class Connection:
    """An AMQP connection over a connected socket, as client or as server.

    Args:
        sock: a connected TCP socket; the connection owns it from now on.
        peer: how messages name the peer, such as ``localhost:5672``.
        container_id: this side's container id.
        hostname: the host to name in the open frame and to verify in TLS.
        server: the peer opened the socket.
        security: TLS and SASL.
        max_frame_size: largest frame that this side takes, in bytes.
        idle_timeout: seconds of silence after which the peer is given up; 0 for none.
        control: what the wrapper says.
        run_id: an id that both ends of a run share; a peer with another one is refused.
        capability: a capability to offer to the peer; none by default.
    """

    def __cinit__(self) -> None:
        memset(&self.driver, 0, sizeof(self.driver))
        self.fd = -1

    def __init__(self, sock: object, *, peer: str, container_id: str, hostname: str,
                 server: bool, security: Security, max_frame_size: int, idle_timeout: float,
                 control: Control, run_id: str = "", capability: str = "") -> None:
        if pn_connection_driver_init(&self.driver, NULL, NULL) != 0:
            raise MemoryError("no memory for a connection")
        self.connection = self.driver.connection
        self.transport = self.driver.transport
        self.sock = sock
        self.fd = sock.fileno()
        self.peer = peer
        self.server = server
        self.security = security
        self.run_id = run_id
        self.control = control
        self.container_id = container_id.encode()
        self.hostname = hostname.encode()
        self.sasl = SaslExchange(security, server, peer_is_loopback(self.fd))
        # State is polled between exchanges, so the engine need not make events.
        pn_connection_collect(self.connection, NULL)
        if server:
            pn_transport_set_server(self.transport)
        pn_transport_set_max_frame(self.transport, max_frame_size)
        pn_transport_set_idle_timeout(self.transport, <unsigned>(idle_timeout * 1000))
        security.apply(self.sasl, self.transport, self.fd, self.hostname)
        self.tls = self.sasl.tls
        pn_connection_set_container(self.connection, self.container_id)
        pn_connection_set_hostname(self.connection, self.hostname)
        if run_id:
            self.announce(RUN_ID, run_id.encode())
        if capability:
            put_symbol(pn_connection_offered_capabilities(self.connection), capability.encode())
        pn_connection_driver_bind(&self.driver)
        pn_connection_open(self.connection)

    def __dealloc__(self) -> None:
        if self.driver.transport != NULL:
            pn_connection_driver_destroy(&self.driver)
        tls_free(self.tls)

    def announce(self, key: bytes, value: bytes) -> None:
        """Put one entry into the properties of our open frame."""
        cdef pn_data_t *data = pn_connection_properties(self.connection)
        pn_data_put_map(data)
        pn_data_enter(data)
        pn_data_put_symbol(data, pn_bytes(len(key), key))
        pn_data_put_string(data, pn_bytes(len(value), value))
        pn_data_exit(data)

    def open(self, timeout: float) -> None:
        """Wait until TLS, SASL and both open frames are done.

        Raises:
            PeerError: the peer did not answer in ``timeout`` seconds, or closed.
            SecurityError: TLS or SASL failed, or the peer belongs to another run.
        """
        cdef int64_t deadline = monotonic_ns() + <int64_t>(timeout * 1e9)
        while pn_connection_state(self.connection) & PN_REMOTE_UNINIT:
            self.advance(deadline, "open the connection")
        if self.server and not conclude_sasl(self.transport):
            raise SecurityError(f"{self.peer}: SASL: the peer skipped authentication")
        theirs = self.remote_property(RUN_ID)
        if self.run_id and theirs and theirs != self.run_id:
            raise SecurityError(f"{self.peer}: the peer belongs to another run ({theirs})")

    def advance(self, deadline: int, purpose: str) -> None:
        """Exchange once, within ``deadline`` (monotonic ns).

        Raises:
            PeerError: the time is over or the peer closed.
            SignalError: a signal came.
        """
        self.step(deadline)
        self.judge(deadline, purpose)

    cdef int step(self, int64_t deadline) except -1:
        """Exchange once; a caller with a link judges the link before it calls `judge`.

        Raises SignalError at a signal.
        """
        raise_if_pending()
        with nogil:
            self.exchange(deadline)
        return 0

    cdef int judge(self, int64_t deadline, str purpose) except -1:
        """Raise PeerError if the peer closed, or if the time is over; see `check` as well."""
        if self.check() == PEER_CLOSED:
            raise PeerError(f"{self.peer}: the peer closed the connection")
        if monotonic_ns() >= deadline:
            raise PeerError(f"{self.peer}: the peer did not {purpose} in time")
        return 0

    cdef int exchange(self, int64_t wait_until) except -1 nogil:
        """Write, read, and wait for the socket until ``wait_until`` (monotonic ns).

        Waits only when nothing was read; 0 waits only for a full socket to drain.
        Returns 1 if bytes were read.
        """
        self.tick()
        self.write()
        cdef int got = self.read()
        if got or self.cut:
            return got
        if self.blocked and wait_until == 0:
            wait_until = FOREVER
        if wait_until == 0:
            return 0
        self.wait(wait_until)
        if self.blocked:
            self.write()
        return self.read()

    cdef int exchange_awake(self, int64_t until) except -1 nogil:
        """Like exchange, but do not sleep through the last moments before ``until``.

        A sleeper wakes too late for records of microseconds. Meanwhile the
        core is yielded to any other process.
        """
        if monotonic_ns() < until - AWAKE:
            return self.exchange(until - AWAKE)
        cdef int got = self.exchange(0)
        while not got and not self.cut and monotonic_ns() < until:
            sched_yield()
            got = self.read()
        return got

    cdef int linger(self) noexcept nogil:
        """Poll for the peer's answer for a moment before sleeping; return 1 if it came.

        Waking up costs more than a peer needs to answer a small window. After a wait
        in vain the next waits are skipped, twice as many each time.
        """
        cdef int64_t deadline
        if self.linger_pause > 0:
            self.linger_pause -= 1
            return 0
        self.write()
        deadline = monotonic_ns() + LINGER
        while monotonic_ns() < deadline:
            if self.read():
                self.linger_failures = 0
                return 1
            if self.cut:
                return 0
        self.linger_failures = min(self.linger_failures + 1, 10)
        self.linger_pause = 1 << self.linger_failures
        return 0

    cdef int write(self) noexcept nogil:
        """Write the engine's output until there is no more or the socket is full."""
        cdef pn_bytes_t data = pn_connection_driver_write_buffer(&self.driver)
        cdef ssize_t n
        self.blocked = False
        if self.tls != NULL:
            return self.write_tls(data)
        while data.size > 0:
            n = send(self.fd, data.start, data.size, MSG_DONTWAIT | MSG_NOSIGNAL)
            if n < 0:
                if errno == EINTR:
                    continue
                if errno == EAGAIN:
                    self.blocked = True
                else:
                    self.lose(errno)
                return 0
            pn_connection_driver_write_done(&self.driver, n)
            data = pn_connection_driver_write_buffer(&self.driver)
        return 0

    cdef int clear_socket(self) noexcept nogil:
        """Return the socket that frames may be written to past this; -1 where TLS is between."""
        return self.fd if self.tls == NULL else -1

    cdef int write_tls(self, pn_bytes_t data) noexcept nogil:
        """Write ``data`` and what comes after it, within TLS."""
        cdef iovec part
        cdef ssize_t n = tls_flush(self.tls)
        while data.size > 0 and n != TLS_FAILED:
            part.iov_base = <void *>data.start
            part.iov_len = data.size
            n = tls_write(self.tls, &part, 1)
            if n <= 0:
                break
            pn_connection_driver_write_done(&self.driver, n)
            data = pn_connection_driver_write_buffer(&self.driver)
        if n == TLS_FAILED:
            self.lose(tls_socket_error(self.tls))
            return 0
        # A handshake that waits for the peer is not blocked: it needs something to read.
        self.blocked = (tls_events(self.tls) & POLLOUT) != 0
        return 0

    cdef int lose(self, int error) noexcept nogil:
        """Mark the connection as lost, because of ``error``: nothing goes out any more.

        A peer that closed may have said why, which is still to be read.
        """
        while self.read():
            pass
        self.socket_error = error
        self.cut = True
        pn_connection_driver_write_close(&self.driver)
        return 0

    cdef int read(self) noexcept nogil:
        """Read once; return 1 if there was something."""
        cdef pn_rwbytes_t space
        cdef ssize_t n
        # The engine stops reading after the peer's close, and after a frame that it cannot
        # dispatch; of the latter it says nothing.
        self.cut = self.cut or pn_connection_driver_read_closed(&self.driver)
        if self.cut:
            return 0
        space = pn_connection_driver_read_buffer_sized(&self.driver, READ_SIZE)
        if space.size == 0:
            # A frame larger than the buffer is half in: let the buffer grow.
            space = pn_connection_driver_read_buffer(&self.driver)
        if space.size == 0:
            return 0
        if self.tls != NULL:
            n = tls_read(self.tls, space.start, space.size)
        else:
            n = receive(self.fd, space.start, space.size)
        if n > 0:
            if not self.heard:
                self.heard = True
                self.first_byte = space.start[0]
            pn_connection_driver_read_done(&self.driver, n)
            return 1
        if n == TLS_AGAIN:
            return 0
        self.hung_up = n == TLS_END
        if not self.hung_up:
            self.socket_error = tls_socket_error(self.tls) if self.tls != NULL else errno
        self.cut = True
        pn_connection_driver_read_close(&self.driver)
        return 0

    cdef int wait(self, int64_t until) noexcept nogil:
        """Sleep until the socket is ready, a signal or a wrapper's word came, or ``until``."""
        cdef pollfd[3] fds
        cdef timespec span
        cdef int64_t rest
        until = min(until, self.next_tick)
        rest = until - monotonic_ns()
        if rest <= 0:
            rest = 0
        span.tv_sec = rest // SECOND
        span.tv_nsec = rest % SECOND
        fds[0].fd = self.fd
        fds[0].events = POLLIN | (POLLOUT if self.blocked else 0)
        # Once a signal was seen its pipe stays readable; it must not keep us awake.
        fds[1].fd = wake_descriptor() if pending_count() == 0 else -1
        fds[1].events = POLLIN
        fds[2].fd = self.control.fd
        fds[2].events = POLLIN
        if ppoll(fds, 3, &span, NULL) > 0 and fds[2].revents:
            self.control.look()
        return 0

    cdef int tick(self) noexcept nogil:
        """Let the engine keep idle time-outs, its own and the peer's."""
        cdef int64_t now = monotonic_ns()
        if now < self.next_tick:
            return 0
        pn_transport_tick(self.transport, now // MILLISECOND)
        self.next_tick = now + TICK_PERIOD
        return 0

    cdef PeerState check(self) except? PEER_CLOSED nogil:
        """Return the peer's state, or raise what went wrong with the connection."""
        cdef int state = pn_connection_state(self.connection)
        if self.sasl.error is not None:
            with gil:
                self.fail()
        if pn_condition_is_set(pn_transport_condition(self.transport)) and not self.closing:
            with gil:
                self.fail()
        if state & PN_REMOTE_CLOSED:
            if pn_condition_is_set(pn_connection_remote_condition(self.connection)):
                with gil:
                    self.fail()
            return PEER_CLOSED
        if self.cut and not self.closing:
            with gil:
                self.fail()
        return PEER_CLOSED if self.cut else PEER_OPEN

    cdef int fail(self) except -1:
        """Raise the connection's error: SASL's, TLS's, the peer's, or the socket's."""
        if self.sasl.error is not None:
            raise type(self.sasl.error)(f"{self.peer}: {self.sasl.error}")
        remote = self.condition_text(pn_connection_remote_condition(self.connection))
        if remote:
            raise PeerError(f"{self.peer}: the peer closed the connection: {remote}")
        outcome = pn_sasl_outcome(pn_sasl(self.transport))
        if outcome != PN_SASL_NONE and outcome != PN_SASL_OK:
            raise SecurityError(f"{self.peer}: SASL{self.refusal()}")
        if self.socket_error:
            raise PeerError(
                f"{self.peer}: connection lost: {os.strerror(self.socket_error)}")
        # An end without the close of TLS is told as one without TLS is.
        if self.tls != NULL and tls_failure(self.tls)[0] and not (
                self.hung_up and tls_established(self.tls)):
            failure = tls_failure(self.tls).decode("utf-8", "replace")
            raise SecurityError(f"{self.peer}: TLS: {failure}{self.scheme_hint(failure)}")
        if self.tls == NULL and self.heard and self.first_byte == TLS_ALERT:
            raise SecurityError(f"{self.peer}: the peer speaks TLS: use amqps")
        local = self.condition_text(pn_transport_condition(self.transport))
        if "idle-timeout" in local or "idle timeout" in local:
            raise PeerError(f"{self.peer}: the peer was silent beyond the idle time-out")
        # The engine gives one error for an end within a frame and for an invalid frame.
        if not local and not self.hung_up:
            raise PeerError(f"{self.peer}: the peer sent an invalid frame")
        if self.cut:
            raise PeerError(f"{self.peer}: the peer cut the connection{self.scheme_hint('')}")
        raise PeerError(f"{self.peer}: {local}")

    def scheme_hint(self, failure: str) -> str:
        """Return advice for a client whose peer may be of the other scheme; empty if it is not.

        Args:
            failure: why TLS failed; empty without TLS.
        """
        if self.server:
            return ""
        if self.tls != NULL:
            strange = any(words in failure for words in NO_TLS)
            return " (if this port is not for TLS, use amqp)" if strange else ""
        return "" if self.heard else " before it sent a byte (if this port is for TLS, use amqps)"

    cdef object refusal(self):
        """Say which side's credentials were refused, and for which mechanism."""
        mechanism = pn_sasl_get_mech(pn_sasl(self.transport))
        if mechanism == NULL:
            return ": the peer offers no mechanism that fits"
        side = "the peer's" if self.server else "our"
        return f" {mechanism.decode('ascii', 'replace')}: {side} credentials were refused"

    cdef object condition_text(self, pn_condition_t *condition):
        """Return an AMQP error condition as ``name: description``; empty if not set."""
        if not pn_condition_is_set(condition):
            return ""
        name = pn_condition_get_name(condition)
        description = pn_condition_get_description(condition)
        text = name.decode("utf-8", "replace")
        if description != NULL and description[0] != 0:
            text += ": " + description.decode("utf-8", "replace")
        return " ".join(text.split())

    def identity(self) -> dict[str, str | None]:
        """Return the peer's product, version and container id; None for what it does not say."""
        cdef const char *container = pn_connection_remote_container(self.connection)
        return {
            "product": self.remote_property(b"product") or None,
            "version": self.remote_property(b"version") or None,
            "container": container.decode("utf-8", "replace") or None if container else None,
        }

    def remote_property(self, wanted: bytes) -> str:
        """Return a text of the properties in the peer's open frame; empty if it has none."""
        cdef pn_data_t *data = pn_connection_remote_properties(self.connection)
        cdef bytes key
        pn_data_rewind(data)
        if not pn_data_next(data) or pn_data_type(data) != PN_MAP:
            return ""
        pn_data_enter(data)
        while pn_data_next(data):
            key = self.text_value(data)
            if not pn_data_next(data):
                break
            if key == wanted:
                return self.text_value(data).decode("utf-8", "replace")
        return ""

    cdef bytes text_value(self, pn_data_t *data):
        cdef pn_bytes_t value
        if pn_data_type(data) != PN_STRING and pn_data_type(data) != PN_SYMBOL:
            return b""
        value = pn_data_get_bytes(data)
        return value.start[:value.size]

    def close(self, *, ended: bool = False) -> None:
        """Close in order and wait briefly for the peer's answers; never raises.

        Everything that the run needed was confirmed before; a peer that is gone by
        now changes no result.

        Args:
            ended: the run came to its end: let the peer first process all that we sent. Part 2.4.3
                does not ask it to do so before it answers a close, and RabbitMQ drops the
                acceptances that its sessions have not processed yet.
        """
        cdef int64_t deadline = monotonic_ns() + CLOSE_TIMEOUT
        cdef bint done = False
        self.closing = True
        if ended:
            with nogil:
                self.end_sessions(deadline)
        pn_connection_close(self.connection)
        with nogil:
            while not done and not self.cut and monotonic_ns() < deadline:
                self.exchange(deadline)
                done = (pn_connection_state(self.connection) & PN_REMOTE_CLOSED) != 0
            self.write()
            if self.tls != NULL:
                tls_close(self.tls)
        self.sock.close()

    cdef int end_sessions(self, int64_t deadline) except -1 nogil:
        """End the sessions, and wait until the peer has ended them, or closes."""
        cdef pn_session_t *session = pn_session_head(self.connection, 0)
        while session != NULL:
            pn_session_close(session)
            session = pn_session_next(session, 0)
        while not self.cut and monotonic_ns() < deadline and (
                pn_connection_state(self.connection) & PN_REMOTE_ACTIVE) and (
                pn_session_head(self.connection, PN_LOCAL_CLOSED | PN_REMOTE_ACTIVE) != NULL):
            self.exchange(deadline)
        return 0
