"""The security of a connection, as client or server: TLS at its socket, and the SASL plug-in.

The mechanisms are in quiver_fast.security.sasl. The engine's callbacks are here. They take the
GIL (a handshake is not a hot path), catch every error, and keep it for the connection to raise.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcmp

import os

from quiver_fast.amqp.data_plane cimport amqp_plane_secure, amqp_plane_t
from quiver_fast.amqp.tls cimport tls_peer_subject
from quiver_fast.amqp.tls import present as tls_present
from quiver_fast.errors import SecurityError, UsageError
from quiver_fast.proton.engine_log import follow_engine_log
from quiver_fast.proton.libproton cimport (
    PN_SASL_AUTH, PN_SASL_OK, PN_SASL_TEMP, SASL_POSTED_CHALLENGE, SASL_POSTED_INIT,
    SASL_POSTED_MECHANISMS, SASL_POSTED_OUTCOME, SASL_POSTED_RESPONSE, SASL_RECVED_FAILURE, c_bool,
    pn_bytes, pn_bytes_t, pn_sasl, pn_sasl_done, pn_sasl_outcome, pn_sasl_outcome_t,
    pn_sasl_set_allow_insecure_mechs, pn_transport_require_auth, pn_transport_t,
    pnx_sasl_get_context, pnx_sasl_implementation, pnx_sasl_set_bytes_out, pnx_sasl_set_context,
    pnx_sasl_set_desired_state, pnx_sasl_set_failed, pnx_sasl_set_implementation,
    pnx_sasl_set_selected_mechanism, pnx_sasl_set_succeeded,
)
from quiver_fast.proton.libsys cimport (
    AF_INET, AF_INET6, AF_UNIX, getpeername, monotonic_ns, sockaddr, sockaddr_in, sockaddr_in6,
    sockaddr_storage, socklen_t,
)

STRAY_SASL = "SASL: the peer sent a frame of SASL where none is due"

cdef unsigned char[12] V4_MAPPED = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
cdef unsigned char[16] LOOPBACK_V6 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]

follow_engine_log()


cdef class Security:
    """The security settings of connections: TLS, credentials and SASL mechanisms.

    Args:
        tls: use TLS.
        username: user name for SASL, or None.
        password: password for SASL, or None.
        certificate: PEM file that identifies this side, or None.
        key: PEM file with its private key; None if the certificate's file has it.
        trust_store: PEM file of the trusted authorities; None for the system's.
        verify: check the peer's certificate and name (client only).
        mechanisms: the only SASL mechanisms to use, in order, or None.
        allow_insecure_plain: as a server, accept PLAIN without TLS also from other machines.
        allow_old_tls: as a server, accept TLS before 1.2, and keys and ciphers of its time.

    Raises:
        UsageError: TLS is not in this build, or a file is missing.
    """

    def __init__(self, *, tls: bool = False, username: str | None = None,
                 password: str | None = None, certificate: str | None = None,
                 key: str | None = None, trust_store: str | None = None, verify: bool = True,
                 mechanisms: list[str] | None = None,
                 allow_insecure_plain: bool = False, allow_old_tls: bool = False) -> None:
        if tls and not tls_present():
            raise UsageError("TLS is not in this build (OpenSSL was missing when it was built)")
        for role, path in (("cert", certificate), ("key", key), ("trust-store", trust_store)):
            if path is not None and not os.access(path, os.R_OK):
                raise UsageError(f"{role}: cannot read {path}")
        self.tls = tls
        self.username = username
        self.password = password
        self.certificate = certificate
        self.key = key
        self.trust_store = trust_store
        self.verify = verify
        self.mechanisms = mechanisms
        self.allow_insecure_plain = allow_insecure_plain
        self.allow_old_tls = allow_old_tls
        self.users = {}

    def prepare_server(self) -> None:
        """Make the TLS context and the credentials now, so that a server's start fails on errors.

        Raises:
            SecurityError: the certificate, its key, the trust store or the credentials
                cannot be used.
        """
        if self.tls:
            self.make_context(True)
        if self.username is not None:
            self.server_credentials()

    def server_credentials(self) -> object:
        """Return the server's user in SCRAM's form, or None; derived once."""
        if self.credentials is None and self.username is not None:
            # Imported when a peer speaks SASL: most arrows need no hashes.
            from quiver_fast.security.scram import Credentials
            self.credentials = Credentials(self.username, self.password or "")
            self.password = None
        return self.credentials

    def known_logins(self) -> object:
        """Return the failed logins of all connections."""
        if self.logins is None:
            from quiver_fast.security.logins import Logins
            self.logins = Logins()
        return self.logins

    cdef bint serves_strangers(self) except -1:
        """Say whether a client may skip SASL."""
        if self.mechanisms is not None:
            return "ANONYMOUS" in self.mechanisms
        return self.username is None

    cdef int make_context(self, bint server) except -1:
        """Make the TLS context that all connections share, once."""
        if self.context is not None:
            return 0
        # A server with a trust store refuses clients without a certificate.
        wanted = self.trust_store is not None if server else self.verify
        self.context = TlsContext(
            server=server, certificate=self.certificate, key=self.key,
            trust_store=self.trust_store, peer="required" if wanted else "any",
            old=self.allow_old_tls)
        return 0

    cdef int apply(self, SaslExchange exchange, pn_transport_t *transport, amqp_plane_t *plane,
                   int fd, bytes hostname) except -1:
        """Set up SASL for a transport that is not bound yet, and TLS at its socket.

        The plane, whose owner frees it after the transport, learns when SASL has succeeded.

        The engine keeps a reference to the exchange until the transport is freed or
        `release_sasl` is called. The caller frees the TLS of the exchange.
        """
        if self.tls:
            self.make_context(exchange.server)
            exchange.tls = self.context.open(fd, None if exchange.server else hostname)
        exchange.plane = plane
        # We decide which mechanisms are allowed, not the engine.
        pn_sasl_set_allow_insecure_mechs(pn_sasl(transport), True)
        Py_INCREF(exchange)
        pnx_sasl_set_implementation(transport, &sasl_callbacks, <void *>exchange)
        if exchange.server and not self.serves_strangers():
            pn_transport_require_auth(transport, True)
            plane.demands_sasl = True
        return 0


cdef class SaslExchange:
    """The SASL state of one connection; lives as long as its transport needs it.

    Args:
        security: the security settings.
        server: this side is the server.
        loopback: the peer is on this machine.
        address: the address by which its failed logins count; empty if nobody can make it wait.
    """

    def __cinit__(self, Security security, bint server, bint loopback=False,
                  bytes address=b"") -> None:
        self.security = security
        self.server = server
        self.loopback = loopback
        self.address = address
        self.tls = NULL
        self.stage = SASL_IDLE
        self.offered = b""
        self.outgoing = b""
        self.user = b""
        self.passed = False
        self.refusal = PN_SASL_AUTH
        self.error = None

    cdef const char *subject(self) noexcept nogil:
        """Return the subject of the peer's certificate; NULL if it showed none."""
        return tls_peer_subject(self.tls) if self.tls != NULL else NULL

    def choose(self, offered: str) -> None:
        """Choose the client's mechanism from ``offered`` and make its initial response."""
        # Imported when a peer speaks SASL: most arrows need no hashes.
        from quiver_fast.security.sasl import choose_client_mechanism
        security = self.security
        self.mechanism = choose_client_mechanism(
            offered.split(), username=security.username, password=security.password,
            certificate=security.tls and security.certificate is not None,
            allowed=security.mechanisms, readable=self.tls == NULL and not self.loopback)
        self.outgoing = self.mechanism.initial

    def offer(self) -> None:
        """Choose the mechanisms that this side offers as a server."""
        from quiver_fast.security.sasl import server_mechanisms
        security = self.security
        names = server_mechanisms(
            credentials=security.username is not None, external=self.subject() != NULL,
            plain=self.tls != NULL or self.loopback or security.allow_insecure_plain,
            allowed=security.mechanisms)
        self.offered = " ".join(names).encode()

    def start(self, mechanism: str) -> None:
        """Begin the mechanism that the client chose, if it was offered."""
        cdef const char *subject = self.subject()
        from quiver_fast.security.mechanism import ServerMechanism
        from quiver_fast.security.sasl import make_server_mechanism
        self.mechanism = ServerMechanism()
        if not self.offered:
            # The choice came in one write with the header, so before our offer went out.
            self.offer()
        if mechanism.encode() in self.offered.split():
            external = subject.decode("utf-8", "replace") if subject != NULL else None
            self.mechanism = make_server_mechanism(
                mechanism, credentials=self.security.server_credentials(), external=external)

    def ask(self) -> None:
        """Ask for a response with an empty challenge (RFC 4422, part 5)."""
        self.stage = SASL_RUNNING
        self.outgoing = b""

    def respond(self, response: bytes) -> None:
        """Pass the client's response to the mechanism; `stage` says whether it has decided."""
        challenge = self.mechanism.respond(response)
        if challenge is not None:
            self.stage = SASL_RUNNING
            self.outgoing = challenge
            return
        self.stage = SASL_DECIDED
        # After a failure too, else the engine would send the last challenge again.
        self.outgoing = self.mechanism.additional
        user = (self.mechanism.user or "").encode()
        self.user = self.security.users.setdefault(user, user)
        self.passed = bool(user)
        self.mechanism = None
        if self.address:
            self.security.known_logins().judged(self.address, self.passed, monotonic_ns())

    def keep(self, response: bytes | None, mechanism: str | None) -> bool:
        """Keep a response if it has to wait for its judgement; return whether it has.

        All responses of one attempt together wait no longer than the delay.

        Raises:
            SecurityError: too many attempts wait.
        """
        if not self.address:
            return False
        logins = self.security.known_logins()
        now = monotonic_ns()
        delay = logins.delay(self.address, now)
        if delay <= self.waited:
            return False
        self.login = logins.wait(self.address)
        self.kept = (response, mechanism)
        self.due = now + delay - self.waited
        self.waited = delay
        self.plane.held = True
        return True

    cdef int let_go(self) except -1:
        """Keep no response any more."""
        if self.kept is not None:
            self.kept = None
            self.login.waiting -= 1
            self.plane.held = False
        return 0

    def fail(self, error: Exception | None) -> None:
        """Refuse the peer; the connection raises the error, if there is one, later."""
        self.stage = SASL_DECIDED
        self.outgoing = b""
        self.passed = False
        self.error = error


cdef inline bytes copied(const pn_bytes_t *data):
    return data.start[:data.size] if data != NULL and data.start != NULL else b""


cdef int release_sasl(pn_transport_t *transport) noexcept nogil:
    cdef void *context = pnx_sasl_get_context(transport)
    if context == NULL:
        return 0
    # The engine needs only the user's name from the exchange, and the Security owns the name.
    pnx_sasl_set_context(transport, NULL)
    with gil:
        (<SaslExchange>context).let_go()
        Py_DECREF(<SaslExchange>context)
    return 0


cdef bint conclude_sasl(pn_transport_t *transport) noexcept nogil:
    if pnx_sasl_get_context(transport) == NULL:
        return True
    if not is_concluded(transport):
        return False
    release_sasl(transport)
    return True


cdef bint is_concluded(pn_transport_t *transport) noexcept with gil:
    """Say whether the peer may open: it has passed SASL, or it is a client that needs none.

    The engine itself refuses a client without SASL if SASL is demanded.
    """
    exchange = <SaslExchange><PyObject *>pnx_sasl_get_context(transport)
    return exchange.passed or (exchange.server and exchange.stage == SASL_IDLE)


cdef bint peer_is_loopback(int fd) noexcept nogil:
    cdef sockaddr_storage address
    cdef socklen_t size = sizeof(address)
    cdef const unsigned char *octets
    if getpeername(fd, <sockaddr *>&address, &size) != 0:
        return False
    if address.ss_family == AF_INET:
        return (<unsigned char *>&(<sockaddr_in *>&address).sin_addr)[0] == 127
    if address.ss_family != AF_INET6:
        return address.ss_family == AF_UNIX
    octets = <unsigned char *>&(<sockaddr_in6 *>&address).sin6_addr
    # ::1, or 127.0.0.0/8 mapped into IPv6 (RFC 4291, 2.5.3, 2.5.5.2).
    if memcmp(octets, V4_MAPPED, sizeof(V4_MAPPED)) == 0:
        return octets[12] == 127
    return memcmp(octets, LOOPBACK_V6, sizeof(LOOPBACK_V6)) == 0


cdef bytes peer_network(int fd):
    cdef sockaddr_storage address
    cdef socklen_t size = sizeof(address)
    cdef const unsigned char *octets
    if getpeername(fd, <sockaddr *>&address, &size) != 0:
        return b""
    if address.ss_family == AF_INET:
        return (<unsigned char *>&(<sockaddr_in *>&address).sin_addr)[:4]
    if address.ss_family != AF_INET6:
        return b""
    octets = <unsigned char *>&(<sockaddr_in6 *>&address).sin6_addr
    if memcmp(octets, V4_MAPPED, sizeof(V4_MAPPED)) == 0:
        return octets[12:16]
    # One host may have all addresses of such a network (RFC 4291, 2.5.4).
    return octets[:8]


cdef int64_t sasl_due(pn_transport_t *transport) noexcept with gil:
    return (<SaslExchange><PyObject *>pnx_sasl_get_context(transport)).due


cdef void resume_sasl(pn_transport_t *transport) noexcept with gil:
    exchange = <SaslExchange><PyObject *>pnx_sasl_get_context(transport)
    response, mechanism = exchange.kept
    exchange.let_go()
    judge(transport, exchange, response, mechanism)


cdef void on_free(pn_transport_t *transport) noexcept nogil:
    release_sasl(transport)


cdef const char *on_list_mechanisms(pn_transport_t *transport) noexcept with gil:
    exchange = <SaslExchange><PyObject *>pnx_sasl_get_context(transport)
    try:
        exchange.offer()
    except Exception as error:
        exchange.fail(error)
    # The engine copies the text.
    return exchange.offered


cdef c_bool on_init_server(pn_transport_t *transport) noexcept with gil:
    exchange = <SaslExchange><PyObject *>pnx_sasl_get_context(transport)
    exchange.stage = SASL_OFFERED
    pnx_sasl_set_desired_state(transport, SASL_POSTED_MECHANISMS)
    return True


cdef c_bool on_init_client(pn_transport_t *transport) noexcept nogil:
    return True


cdef void on_prepare_write(pn_transport_t *transport) noexcept nogil:
    return


cdef SaslExchange due(pn_transport_t *transport, SaslStage stage):
    """Return the exchange if a frame for ``stage`` may come now; if not, fail it and return None.

    The engine passes frames of SASL on in any order, also before it has sent the mechanisms.
    """
    exchange = <SaslExchange><PyObject *>pnx_sasl_get_context(transport)
    if exchange.stage == stage:
        return exchange
    if exchange.stage != SASL_DECIDED:
        exchange.fail(None if exchange.server else SecurityError(STRAY_SASL))
        post(transport, exchange)
    return None


cdef void post(pn_transport_t *transport, SaslExchange exchange) noexcept:
    """Let the engine send the exchange's next frame, or end SASL."""
    cdef const char *outgoing = exchange.outgoing
    if exchange.stage == SASL_DECIDED and not exchange.outgoing:
        # Most outcomes carry no data, which is not the same as empty data.
        outgoing = NULL
    pnx_sasl_set_bytes_out(transport, pn_bytes(len(exchange.outgoing), outgoing))
    if exchange.stage == SASL_DECIDED:
        conclude(transport, exchange)
    elif exchange.server:
        pnx_sasl_set_desired_state(transport, SASL_POSTED_CHALLENGE)
    else:
        pnx_sasl_set_desired_state(transport, SASL_POSTED_RESPONSE)


cdef void conclude(pn_transport_t *transport, SaslExchange exchange) noexcept:
    if exchange.passed:
        amqp_plane_secure(exchange.plane)
    else:
        pn_sasl_done(pn_sasl(transport), <pn_sasl_outcome_t>exchange.refusal)
    if not exchange.server:
        # After a success, the engine takes its next state from the outcome.
        if not exchange.passed:
            pnx_sasl_set_desired_state(transport, SASL_RECVED_FAILURE)
        return
    if exchange.passed:
        pnx_sasl_set_succeeded(transport, exchange.user, exchange.user)
    pnx_sasl_set_desired_state(transport, SASL_POSTED_OUTCOME)


cdef void on_init(pn_transport_t *transport, const char *mechanism,
                  const pn_bytes_t *received) noexcept with gil:
    exchange = due(transport, SASL_OFFERED)
    if exchange is not None:
        # The field is mandatory, but the engine does not check that a client sent it.
        name = mechanism.decode("ascii", "replace") if mechanism != NULL else ""
        # No initial response is not the same as an empty one.
        response = None if received.start == NULL else copied(received)
        take_response(transport, exchange, response, name)


cdef void on_response(pn_transport_t *transport, const pn_bytes_t *received) noexcept with gil:
    exchange = due(transport, SASL_RUNNING)
    if exchange is not None:
        take_response(transport, exchange, copied(received), None)


cdef void take_response(pn_transport_t *transport, SaslExchange exchange, bytes received,
                        str mechanism) noexcept:
    """Answer a client's response, or hold the connection until it may be judged."""
    try:
        if exchange.keep(received, mechanism):
            return
    except Exception as error:
        # Nothing was judged, so the client may try again (part 5.3.3.6).
        exchange.refusal = PN_SASL_TEMP
        exchange.fail(error)
        post(transport, exchange)
        return
    judge(transport, exchange, received, mechanism)


cdef void judge(pn_transport_t *transport, SaslExchange exchange, bytes received,
                str mechanism) noexcept:
    """Answer a client's response now; an initial one names its ``mechanism``."""
    try:
        if mechanism is not None:
            exchange.start(mechanism)
        if received is None and exchange.mechanism.client_first:
            exchange.ask()
        else:
            exchange.respond(received or b"")
    except Exception as error:
        exchange.fail(error)
    post(transport, exchange)


cdef c_bool on_mechanisms(pn_transport_t *transport, const char *offered) noexcept with gil:
    exchange = due(transport, SASL_IDLE)
    if exchange is None:
        return False
    try:
        exchange.choose(offered.decode("ascii", "replace"))
        name = exchange.mechanism.name.encode()
        pnx_sasl_set_selected_mechanism(transport, name)
    except Exception as error:
        exchange.fail(error)
        return False
    exchange.stage = SASL_RUNNING
    pnx_sasl_set_bytes_out(transport, pn_bytes(len(exchange.outgoing), exchange.outgoing))
    pnx_sasl_set_desired_state(transport, SASL_POSTED_INIT)
    return True


cdef void on_challenge(pn_transport_t *transport, const pn_bytes_t *received) noexcept with gil:
    exchange = due(transport, SASL_RUNNING)
    if exchange is None:
        return
    try:
        exchange.outgoing = exchange.mechanism.respond(copied(received))
    except Exception as error:
        exchange.fail(error)
    post(transport, exchange)


cdef void on_outcome(pn_transport_t *transport, const pn_bytes_t *received) noexcept with gil:
    cdef bint succeeded = pn_sasl_outcome(pn_sasl(transport)) == PN_SASL_OK
    exchange = due(transport, SASL_RUNNING)
    if exchange is None:
        # The peer's outcome counts for nothing here.
        pnx_sasl_set_failed(transport)
        return
    exchange.stage = SASL_DECIDED
    if not succeeded:
        return
    try:
        exchange.mechanism.finish(copied(received))
        exchange.passed = True
    except Exception as error:
        exchange.fail(error)
    post(transport, exchange)


cdef c_bool on_can_encrypt(pn_transport_t *transport) noexcept nogil:
    return False


cdef ssize_t on_max_encrypt_size(pn_transport_t *transport) noexcept nogil:
    return 0


cdef ssize_t on_recode(pn_transport_t *transport, pn_bytes_t data,
                       pn_bytes_t *out) noexcept nogil:
    return 0


cdef pnx_sasl_implementation sasl_callbacks
sasl_callbacks.free = on_free
sasl_callbacks.list_mechanisms = on_list_mechanisms
sasl_callbacks.init_server = on_init_server
sasl_callbacks.init_client = on_init_client
sasl_callbacks.prepare_write = on_prepare_write
sasl_callbacks.process_init = on_init
sasl_callbacks.process_response = on_response
sasl_callbacks.process_mechanisms = on_mechanisms
sasl_callbacks.process_challenge = on_challenge
sasl_callbacks.process_outcome = on_outcome
sasl_callbacks.can_encrypt = on_can_encrypt
sasl_callbacks.max_encrypt_size = on_max_encrypt_size
sasl_callbacks.encode = on_recode
sasl_callbacks.decode = on_recode
