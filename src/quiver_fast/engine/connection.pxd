from libc.stdint cimport int64_t

from quiver_fast.amqp.tls cimport tls_t
from quiver_fast.engine.security.security cimport SaslExchange, Security
from quiver_fast.proton.libproton cimport (
    pn_bytes_t, pn_condition_t, pn_connection_driver_t, pn_connection_t, pn_data_t,
    pn_transport_t,
)
from quiver_fast.run.control cimport Control

cdef enum PeerState:
    PEER_OPEN
    PEER_CLOSED    # the peer closed, orderly and without an error

cdef int64_t FOREVER

cdef int put_symbol(pn_data_t *data, bytes symbol) except -1

cdef class Connection:
    cdef pn_connection_driver_t driver
    cdef pn_connection_t *connection
    cdef pn_transport_t *transport
    cdef int fd
    cdef bint server
    # The peer sent FIN, the socket failed, or the engine takes no more: nothing is read.
    cdef bint cut
    # The peer sent FIN.
    cdef bint hung_up
    cdef int socket_error
    # The socket took no more; output is pending.
    cdef bint blocked
    cdef bint closing
    # NULL where there is no TLS.
    cdef tls_t *tls
    # Whether the peer has sent anything yet, and the first byte of it.
    cdef bint heard
    cdef unsigned char first_byte
    cdef int64_t next_tick
    # How many waits skip lingering, and how often in a row lingering was in vain.
    cdef int64_t linger_pause
    cdef int linger_failures
    cdef readonly str peer
    cdef readonly str run_id
    cdef object sock
    cdef Security security
    cdef SaslExchange sasl
    cdef bytes container_id
    # A word of the wrapper ends a wait for the peer.
    cdef Control control
    cdef bytes hostname

    cdef int step(self, int64_t deadline) except -1
    cdef int judge(self, int64_t deadline, str purpose) except -1
    cdef int exchange(self, int64_t wait_until) except -1 nogil
    cdef int exchange_awake(self, int64_t until) except -1 nogil
    cdef int linger(self) noexcept nogil
    cdef int write(self) noexcept nogil
    cdef int clear_socket(self) noexcept nogil
    cdef int write_tls(self, pn_bytes_t data) noexcept nogil
    cdef int read(self) noexcept nogil
    cdef int lose(self, int error) noexcept nogil
    cdef int end_sessions(self, int64_t deadline) except -1 nogil
    cdef int wait(self, int64_t until) noexcept nogil
    cdef int tick(self) noexcept nogil
    cdef PeerState check(self) except? PEER_CLOSED nogil
    cdef int fail(self) except -1
    cdef object refusal(self)
    cdef object condition_text(self, pn_condition_t *condition)
    cdef bytes text_value(self, pn_data_t *data)
