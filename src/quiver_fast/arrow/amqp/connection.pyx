"""One AMQP connection: its opening, the peer's open frame, and its end.

Callers look at the engine's state and take the data plane's events between two exchanges of
bytes; see quiver_fast.arrow.amqp.transport.
"""

from libc.stdint cimport int64_t

import os

from quiver_fast.amqp.data_plane cimport (
    AMQP_THEIRS, amqp_bytes_t, amqp_plane_init, amqp_timers_init, amqp_wait_init,
)
from quiver_fast.amqp.tls cimport (
    tls_alert, tls_close, tls_established, tls_failure, tls_lacks_certificate,
)
from quiver_fast.arrow.amqp.transport cimport Transport
from quiver_fast.arrow.run.control cimport Control
from quiver_fast.errors import PeerError, SecurityError, SignalError
from quiver_fast.loop.interrupt import raise_if_pending
from quiver_fast.proton.conditions cimport condition_text
from quiver_fast.proton.libproton cimport (
    PN_LOCAL_CLOSED, PN_MAP, PN_REMOTE_ACTIVE, PN_REMOTE_CLOSED, PN_REMOTE_UNINIT, PN_SASL_NONE,
    PN_SASL_OK, PN_STRING, PN_SYMBOL, pn_bytes, pn_bytes_t, pn_condition_is_set,
    pn_connection_close, pn_connection_collect, pn_connection_driver_bind,
    pn_connection_driver_init, pn_connection_offered_capabilities, pn_connection_open,
    pn_connection_properties, pn_connection_remote_condition, pn_connection_remote_container,
    pn_connection_remote_properties, pn_connection_set_container, pn_connection_set_hostname,
    pn_connection_state, pn_data_enter, pn_data_exit, pn_data_get_bytes, pn_data_next,
    pn_data_put_map, pn_data_put_string, pn_data_put_symbol, pn_data_rewind, pn_data_t,
    pn_data_type, pn_sasl, pn_sasl_get_mech, pn_sasl_outcome, pn_session_close, pn_session_head,
    pn_session_next, pn_session_t, pn_transport_condition, pn_transport_set_idle_timeout,
    pn_transport_set_max_frame, pn_transport_set_server,
)
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.resolving import wire_name
from quiver_fast.security.security cimport conclude_sasl, peer_is_loopback
from quiver_fast.sockets import peer_address

cdef int64_t SECOND = 1000000000
cdef int64_t CLOSE_TIMEOUT = 2 * SECOND

# Key of the run's id in the open frame's properties (part 2.7.1).
RUN_ID = b"quiver-run-id"
# The content type of a TLS alert (RFC 8446, section 5.1): the answer of a TLS port to AMQP.
cdef unsigned char TLS_ALERT = 21
# Texts of the TLS layer about a peer that does not answer its hello, or answers without TLS.
NO_TLS = ("cut the connection in the handshake", "speaks no TLS")

WANTS_CERTIFICATE = "the peer wants a certificate: --cert, --key"
# Options about the alerts of a peer (RFC 8446, 6.2).
ALERT_OPTIONS = {
    **dict.fromkeys((42, 43, 44, 45, 46, 48, 49), "--cert"),
    # Without verification a client offers older versions.
    70: "--tls-insecure",
    112: "the host of the URL",
}

# After such an open only a close may follow; see amqp_opened_t.
UNFIT_OPEN = "the max-frame-size in the peer's open is below 512"

# Outcomes of SASL that do not judge the credentials (part 5.3.3.6).
PEER_FAILURES = {
    2: "the peer failed for a reason of its own (sys)",
    3: "the peer cannot authenticate until its operator mends it (sys-perm)",
    4: "the peer cannot authenticate now, and may later (sys-temp)",
}


cdef int put_symbol(pn_data_t *data, bytes symbol) except -1:
    """Put the one symbol of a field that may hold several (part 1.4, multiple)."""
    return pn_data_put_symbol(data, pn_bytes(len(symbol), symbol))


cdef str error_text(amqp_bytes_t name, amqp_bytes_t description):
    """Return an error condition as ``name: description``; empty if there is none."""
    text = (<const char *>name.start)[:name.size].decode("utf-8", "replace")
    if description.size:
        text += ": " + (<const char *>description.start)[:description.size].decode(
            "utf-8", "replace")
    return text


cdef class Connection(Transport):
    """An AMQP connection over a connected socket, as client or as server.

    Args:
        sock: a connected TCP socket; the connection owns it from now on.
        peer: the peer's name in messages, such as ``localhost:5672``.
        container_id: this side's container id.
        hostname: the host to name in the open frame and to verify in TLS.
        server: the peer opened the socket.
        security: TLS and SASL.
        max_frame_size: largest frame that this side takes, in bytes.
        idle_timeout: seconds of silence after which the connection fails; 0 for none.
        control: the control socket.
        run_id: an id that both ends of a run share; a peer with another one is refused.
        capability: a capability to offer to the peer; none by default.
        spin: poll for the peer's answer for a moment before a sleep; see amqp/wait.h.
    """

    def __init__(self, sock: "socket.socket", *, peer: str, container_id: str, hostname: str,
                 server: bool, security: Security, max_frame_size: int, idle_timeout: float,
                 control: Control, run_id: str = "", capability: str = "",
                 spin: bool = True) -> None:
        if pn_connection_driver_init(&self.driver, NULL, NULL) != 0:
            raise MemoryError("no memory for a connection")
        self.connection = self.driver.connection
        self.transport = self.driver.transport
        self.sock = sock
        self.fd = sock.fileno()
        self.peer = peer
        # A closed socket has no peer address.
        self.place = peer_address(sock)
        self.server = server
        self.security = security
        self.run_id = run_id
        self.control = control
        self.container_id = container_id.encode()
        self.hostname = wire_name(hostname)
        is_local = peer_is_loopback(self.fd)
        # A broker is never our client; a server on this machine may be one.
        self.peer_may_be_broker = is_local and not server
        self.sasl = SaslExchange(security, server, is_local)
        # We poll the engine's state between exchanges: it needs no events.
        pn_connection_collect(self.connection, NULL)
        if server:
            pn_transport_set_server(self.transport)
        pn_transport_set_max_frame(self.transport, max_frame_size)
        pn_transport_set_idle_timeout(self.transport, <unsigned>(idle_timeout * 1000))
        amqp_plane_init(&self.plane, max_frame_size, int.from_bytes(os.urandom(8), "big"))
        self.plane.lenient = True
        self.plane.endpoints.takes_refusal = not server
        amqp_timers_init(&self.timers, <unsigned>(idle_timeout * 1000), monotonic_ns())
        amqp_wait_init(&self.patience, spin)
        security.apply(self.sasl, self.transport, &self.plane, self.fd, self.hostname)
        self.tls = self.sasl.tls
        pn_connection_set_container(self.connection, self.container_id)
        pn_connection_set_hostname(self.connection, self.hostname)
        if run_id:
            self.announce(RUN_ID, run_id.encode())
        if capability:
            put_symbol(pn_connection_offered_capabilities(self.connection), capability.encode())
        pn_connection_driver_bind(&self.driver)
        pn_connection_open(self.connection)

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
        while not self.try_open():
            self.advance(deadline, "open the connection")

    def try_open(self) -> bool:
        """Say whether both open frames have come; the peer's may be the begin of a refusal.

        Raises:
            SecurityError: see `open`.
        """
        if pn_connection_state(self.connection) & PN_REMOTE_UNINIT or self.has_unfit_open():
            return False
        if not conclude_sasl(self.transport):
            raise SecurityError(f"{self.peer}: SASL: the peer skipped authentication")
        theirs = self.remote_property(RUN_ID)
        if self.run_id and theirs and theirs != self.run_id:
            raise SecurityError(f"{self.peer}: the peer belongs to another run ({theirs})")
        return True

    def advance(self, deadline: int, purpose: str) -> None:
        """Exchange once, within ``deadline`` (monotonic ns).

        Raises:
            PeerError: the time is over or the peer closed.
            SignalError: a signal came.
        """
        try:
            self.step(deadline)
        except SignalError as error:
            why = f" to close: {UNFIT_OPEN}" if self.has_unfit_open() else f" to {purpose}"
            raise error.during(f"waiting for {self.peer}{why}") from None
        self.judge(deadline, purpose)

    def serve(self) -> bool:
        """Write and read without waiting; return whether output waits for the socket."""
        with nogil:
            self.tick()
            self.write()
            while self.read():
                self.pump()
            # At the end of the input the engine judges the rest.
            self.pump()
            self.write()
        return self.blocked

    def confirm(self, deadline: int, purpose: str) -> None:
        """Raise PeerError if the peer closed, or if the time (monotonic ns) is over."""
        self.judge(deadline, purpose)

    def sessions_allowed(self) -> int:
        """Return how many sessions the peer takes, by its open frame (part 2.7.1)."""
        return 1 + self.plane.endpoints.opened[<int>AMQP_THEIRS].channel_max

    def abandon(self) -> None:
        """Close without waiting for the peer."""
        self.closing = True
        pn_connection_close(self.connection)
        with nogil:
            self.write()
        self.sock.close()
        self.abandoned = self.cut = self.finished = self.lost = True

    cdef int step(self, int64_t deadline) except -1:
        """Exchange once. A caller with a link checks the link before it calls `judge`.

        Raises SignalError at a signal.
        """
        raise_if_pending()
        with nogil:
            self.exchange(deadline)
            self.pump()
        return 0

    cdef int await_messages(self, int64_t wake) except -1 nogil:
        """Exchange, and wait for a sender until ``wake`` (monotonic ns).

        A broker on this machine needs the CPU that a spin would take.
        """
        if self.peer_may_be_broker:
            return self.exchange(wake)
        return self.exchange_spinning(wake)

    cdef int judge(self, int64_t deadline, str purpose) except -1:
        """Raise PeerError if the peer closed, or if the time is over; see `check` as well."""
        if self.check() == PEER_CLOSED:
            raise PeerError(f"{self.peer}: the peer closed the connection")
        if monotonic_ns() >= deadline:
            raise PeerError(f"{self.peer}: {self.delay(purpose)}")
        return 0

    cdef bint has_unfit_open(self) noexcept nogil:
        """Say whether the peer's open is the begin of a refusal, which its close ends."""
        return self.plane.endpoints.opened[<int>AMQP_THEIRS].unfit

    cdef str delay(self, str purpose):
        """Return what the peer has not done in time."""
        return UNFIT_OPEN if self.has_unfit_open() else f"the peer did not {purpose} in time"

    cdef PeerState check(self) except? PEER_CLOSED nogil:
        """Return the peer's state, or raise the connection's error."""
        cdef int state = pn_connection_state(self.connection)
        if self.excused:
            return PEER_CLOSED
        if self.sasl.error is not None:
            with gil:
                self.fail()
        if not self.closing and (self.silent or self.broken is not None or (
                pn_condition_is_set(pn_transport_condition(self.transport)))):
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
        remote = condition_text(pn_connection_remote_condition(self.connection))
        if remote:
            raise PeerError(f"{self.peer}: the peer closed the connection: {remote}")
        if self.silent:
            raise PeerError(f"{self.peer}: the peer was silent beyond the idle time-out")
        if self.broken is not None:
            raise PeerError(f"{self.peer}: {self.broken}")
        outcome = pn_sasl_outcome(pn_sasl(self.transport))
        if outcome != PN_SASL_NONE and outcome != PN_SASL_OK:
            raise SecurityError(f"{self.peer}: SASL{self.refusal(outcome)}")
        if self.tls != NULL and not self.heard and tls_lacks_certificate(self.tls):
            how = tls_failure(self.tls).decode("utf-8", "replace") or "it cut the connection"
            raise SecurityError(f"{self.peer}: TLS: {WANTS_CERTIFICATE}; {how}")
        if self.socket_error:
            raise PeerError(
                f"{self.peer}: connection lost: {os.strerror(self.socket_error)}")
        # An end without the close_notify of TLS gets the message of an end without TLS.
        if self.tls != NULL and tls_failure(self.tls)[0] and not (
                self.hung_up and tls_established(self.tls)):
            failure = tls_failure(self.tls).decode("utf-8", "replace")
            raise SecurityError(f"{self.peer}: TLS: {self.tls_advice(failure)}")
        if self.tls == NULL and self.heard and self.first_byte == TLS_ALERT:
            raise SecurityError(f"{self.peer}: the peer speaks TLS: use amqps")
        local = condition_text(pn_transport_condition(self.transport))
        # The engine has an error for an end within a frame too.
        if self.hung_up:
            raise PeerError(f"{self.peer}: the peer cut the connection{self.scheme_hint('')}")
        raise PeerError(f"{self.peer}: {local or 'the peer sent an invalid frame'}")

    cdef str tls_advice(self, str failure):
        """Return why TLS failed, with the options of a client that are about it."""
        if self.server:
            return failure
        option = ALERT_OPTIONS.get(tls_alert(self.tls))
        return f"{failure} (see {option})" if option else f"{failure}{self.scheme_hint(failure)}"

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

    cdef object refusal(self, int outcome):
        """Return the message for a failed SASL exchange: the mechanism, and whose fault it is."""
        mechanism = pn_sasl_get_mech(pn_sasl(self.transport))
        if mechanism == NULL:
            return ": the peer offers no mechanism that fits"
        name = mechanism.decode("ascii", "replace")
        if outcome in PEER_FAILURES:
            return f" {name}: {PEER_FAILURES[outcome]}; our credentials were not judged"
        side = "the peer's" if self.server else "our"
        return f" {name}: {side} credentials were refused"

    def identity(self) -> dict[str, Any]:
        """Return the peer's product, version, container id, address and port.

        None stands for a value that the peer does not give.
        """
        cdef const char *container = pn_connection_remote_container(self.connection)
        return {
            "product": self.remote_property(b"product") or None,
            "version": self.remote_property(b"version") or None,
            "container": container.decode("utf-8", "replace") or None if container else None,
            **self.place,
        }

    def breaks_on_drain(self) -> bool:
        """Say whether the peer fails when it is asked to drain a link.

        RabbitMQ 3 ends the session with an internal error (rabbitmq-server, issue 7119).
        """
        is_rabbit = self.remote_property(b"product") == "RabbitMQ"
        return is_rabbit and self.remote_property(b"version").startswith("3.")

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

        The results of the run are complete before: a peer that is gone changes none.

        Args:
            ended: the run came to its end: let the peer first process all that we sent. Part 2.4.3
                does not ask it to do so before it answers a close, and RabbitMQ drops the
                acceptances that its sessions have not processed yet.
        """
        cdef int64_t deadline = monotonic_ns() + CLOSE_TIMEOUT
        cdef bint done = False
        if self.abandoned:
            return
        self.closing = True
        if ended:
            with nogil:
                self.end_sessions(deadline)
        pn_connection_close(self.connection)
        with nogil:
            while not done and not self.cut and monotonic_ns() < deadline:
                self.exchange(deadline)
                self.pump()
                done = (pn_connection_state(self.connection) & PN_REMOTE_CLOSED) != 0
            self.write()
            if self.tls != NULL:
                tls_close(self.tls)
        self.sock.close()

    cdef bint was_read(self) noexcept nogil:
        """Say whether the peer has read all that we sent: it answered the close after that."""
        return self.closing and (pn_connection_state(self.connection) & PN_REMOTE_CLOSED) != 0

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
            self.pump()
        return 0
