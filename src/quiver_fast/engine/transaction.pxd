from libc.stdint cimport int64_t, uint8_t, uint64_t

from quiver_fast.engine.connection cimport Connection
from quiver_fast.proton.libproton cimport pn_delivery_t, pn_link_t, pn_session_t

# AMQP 1.0 part 4.5: states of deliveries in and on behalf of transactions.
cdef enum:
    DECLARED = 0x33
    TRANSACTIONAL_STATE = 0x34

# The length of a txn-id is one byte.
cdef enum:
    LONGEST_ID = 255

cdef class Coordinator:
    cdef Connection connection
    cdef pn_session_t *session
    cdef pn_link_t *link
    # The open transaction; size 0: there is none.
    cdef uint8_t[LONGEST_ID] id
    cdef size_t id_size
    # What waits for the peer's credit, and what for its answer.
    cdef bint discharge_next
    cdef bytes discharge_body
    cdef bint declare_next
    cdef pn_delivery_t *discharging
    cdef pn_delivery_t *declaring
    # When the peer is given up.
    cdef int64_t deadline
    cdef int64_t tag
    cdef readonly int64_t discharged

    cdef int attach(self, pn_session_t *session, str name) except -1
    cdef bint ready(self) except? -1
    cdef int refuse(self) except -1
    cdef int look(self) except -1 nogil
    cdef bint is_open(self) noexcept nogil
    cdef bint is_idle(self) noexcept nogil
    cdef bint is_discharging(self) noexcept nogil
    cdef int declare(self) except -1
    cdef int discharge(self, bint again) except -1
    cdef int ask(self) except -1
    cdef pn_delivery_t *send(self, bytes body) except NULL
    cdef int poll(self, int64_t now) except -1 nogil
    cdef int take_answers(self, int64_t now) except -1
    cdef int take_declared(self) except -1
    cdef int take_discharged(self) except -1
    cdef int expect(self, pn_delivery_t *delivery, uint64_t state, str purpose) except -1
    cdef int enlist(self, pn_delivery_t *delivery, uint64_t outcome) noexcept nogil


cdef uint64_t provisional_outcome(pn_delivery_t *delivery) noexcept nogil
