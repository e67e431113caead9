from quiver_fast.amqp.data_plane cimport amqp_plane_t
from quiver_fast.amqp.tls cimport TlsContext, tls_t
from quiver_fast.proton.libproton cimport pn_transport_t

cdef class Security:
    cdef readonly bint tls
    cdef readonly object username
    cdef object password
    cdef readonly object certificate
    cdef readonly object key
    cdef readonly object trust_store
    cdef readonly bint verify
    cdef readonly object mechanisms
    cdef readonly bint allow_insecure_plain
    cdef readonly bint allow_old_tls
    # The server's user; made when the first client authenticates, or by prepare_server.
    cdef object credentials
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
    # The exception of a callback; the connection raises it after the engine returns.
    cdef readonly object error

    cdef const char *subject(self) noexcept nogil


# Say whether the peer's open frame may be taken, and release the exchange if so.
cdef bint conclude_sasl(pn_transport_t *transport) noexcept nogil

# Say whether the peer of a connected socket is on this machine.
cdef bint peer_is_loopback(int fd) noexcept nogil
