from quiver_fast.security.security cimport SaslExchange, Security
from quiver_fast.server.addresses.broker cimport Broker
from quiver_fast.server.model.structures cimport Dial, Peer

cdef class Connector:
    cdef Broker broker
    cdef Security security
    cdef SaslExchange exchange
    cdef object target
    cdef list addresses
    cdef size_t attempt
    # The socket while it connects.
    cdef object sock
    cdef double delay
    # The last report, to report a state only once.
    cdef str said
    cdef Dial dial

    cdef int ended(self, Peer *peer) except -1
