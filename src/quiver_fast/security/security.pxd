from libc.stdint cimport int64_t

from quiver_fast.amqp.data_plane cimport amqp_plane_t
from quiver_fast.amqp.tls cimport TlsContext, tls_t
from quiver_fast.proton.libproton cimport pn_transport_t

cdef class Security:
    cdef readonly bint tls
    cdef readonly object username  # type: str | None
    cdef object password
    cdef readonly object certificate  # type: str | None
    cdef readonly object key  # type: str | None
    cdef readonly object trust_store  # type: str | None
    cdef readonly bint verify
    cdef readonly object mechanisms  # type: list[str] | None
    cdef readonly bint allow_insecure_plain
    cdef readonly bint allow_old_tls
    # The server's user; made when the first client authenticates, or by prepare_server.
    cdef object credentials
    # Failed logins by address; made with the first one that is judged.
    cdef object logins
    # Names of authenticated users: the engine points to them after an exchange is gone.
    cdef dict users
    # Made with the first connection, or by prepare_server.
    cdef TlsContext context

    cdef int apply(self, SaslExchange exchange, pn_transport_t *transport, amqp_plane_t *plane,
                   int fd, bytes hostname) except -1
    cdef bint serves_strangers(self) except -1
    cdef int make_context(self, bint server) except -1


cdef enum SaslStage:
    SASL_IDLE       # no SASL header came; as a client: no mechanisms
    SASL_OFFERED    # as a server: the mechanisms go out, the client's choice is due
    SASL_RUNNING    # a response is due; as a client: a challenge or the outcome
    SASL_DECIDED    # nothing more is due; as a server: the outcome goes out


cdef class SaslExchange:
    # The engine points to these objects between its calls.
    cdef Security security
    cdef bint server
    # The peer is on this machine: nobody else can read the connection.
    cdef bint loopback
    # The peer's address, by which its failed logins count; empty if they do not.
    cdef bytes address
    # NULL without TLS. The connection frees it.
    cdef tls_t *tls
    # Of the same connection; it accepts AMQP once SASL has succeeded.
    cdef amqp_plane_t *plane
    cdef SaslStage stage
    cdef object mechanism
    cdef bytes offered
    cdef bytes outgoing
    cdef bytes user
    # SASL has succeeded. As a client: the outcome came, and the peer has proven what it must.
    cdef bint passed
    # As a server: the outcome's code (part 5.3.3.6) if it has not succeeded.
    cdef int refusal
    # A response and its mechanism that wait for their judgement, and the record that counts them.
    cdef tuple kept
    cdef object login
    # When the judgement is due (monotonic ns), and how long this attempt has waited.
    cdef int64_t due
    cdef int64_t waited
    # The exception of a callback; the connection raises it after the engine returns.
    cdef readonly object error  # type: Exception | None

    cdef const char *subject(self) noexcept nogil
    cdef int let_go(self) except -1


# Say whether the peer's open frame may be taken, and release the exchange if so.
cdef bint conclude_sasl(pn_transport_t *transport) noexcept nogil

# Return when to judge the response that the plane is held for (monotonic ns).
cdef int64_t sasl_due(pn_transport_t *transport) noexcept nogil

# Judge that response, and let the plane go on.
cdef void resume_sasl(pn_transport_t *transport) noexcept nogil

# Say whether the peer of a connected socket is on this machine.
cdef bint peer_is_loopback(int fd) noexcept nogil

# Return the address of a connected socket's peer; of IPv6 the network of 64 bits.
cdef bytes peer_network(int fd)
