from libc.stdint cimport int64_t

from quiver_fast.amqp.data_plane cimport amqp_bytes_t
from quiver_fast.arrow.amqp.transport cimport Transport
from quiver_fast.proton.libproton cimport pn_condition_t, pn_data_t
from quiver_fast.security.security cimport SaslExchange, Security

cdef enum PeerState:
    PEER_OPEN
    PEER_CLOSED    # the peer closed, orderly and without an error

cdef int put_symbol(pn_data_t *data, bytes symbol) except -1

# An error condition as it came, as ``name: description``.
cdef str error_text(amqp_bytes_t name, amqp_bytes_t description)

cdef class Connection(Transport):
    cdef bint server
    # The peer may be a broker on this machine.
    cdef bint peer_may_be_broker
    cdef bint closing
    # Its socket is closed: the descriptor may be another's.
    cdef readonly bint abandoned
    # The connection was lost at the end of the run; that counts as a close.
    cdef bint excused
    cdef readonly str peer
    # The address and the port at the other end.
    cdef dict place
    cdef readonly str run_id
    cdef Security security
    cdef SaslExchange sasl
    cdef bytes container_id
    cdef bytes hostname

    cdef int step(self, int64_t deadline) except -1
    cdef int await_messages(self, int64_t wake) except -1 nogil
    cdef int judge(self, int64_t deadline, str purpose) except -1
    cdef bint has_unfit_open(self) noexcept nogil
    cdef str delay(self, str purpose)
    cdef int end_sessions(self, int64_t deadline) except -1 nogil
    cdef bint was_read(self) noexcept nogil
    cdef PeerState check(self) except? PEER_CLOSED nogil
    cdef int fail(self) except -1
    cdef object refusal(self, int outcome)
    cdef str tls_advice(self, str failure)
    cdef bytes text_value(self, pn_data_t *data)
