from libc.stdint cimport int64_t, uint64_t

from quiver_fast.engine.connection cimport Connection
from quiver_fast.proton.libproton cimport pn_delivery_t, pn_link_t, pn_session_t

# AMQP 1.0 part 4.5: states of deliveries in and on behalf of transactions.
cdef enum:
    DECLARED = 0x33
    TRANSACTIONAL_STATE = 0x34

cdef class Coordinator:
    cdef Connection connection
    cdef pn_link_t *link
    cdef bytes transaction
    cdef readonly int64_t discharged
    cdef int64_t tag

    cdef int attach(self, pn_session_t *session, str name) except -1
    cdef uint64_t call(self, bytes body, str purpose) except 0
    cdef bytes declared_id(self, pn_delivery_t *delivery)
    cdef int declare(self) except -1
    cdef int discharge(self) except -1
    cdef int enlist(self, pn_delivery_t *delivery, uint64_t outcome) except -1


cdef uint64_t provisional_outcome(pn_delivery_t *delivery) noexcept nogil
