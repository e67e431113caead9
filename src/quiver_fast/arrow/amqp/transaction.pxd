from libc.stdint cimport int64_t, uint8_t, uint32_t

from quiver_fast.amqp.data_plane cimport (
    AMQP_TXN_ID_MAX, amqp_bytes_t, amqp_code, amqp_disposition_t, amqp_link_end_t,
)
from quiver_fast.arrow.amqp.connection cimport Connection
from quiver_fast.proton.libproton cimport pn_link_t, pn_session_t

# A request to the coordinator: our delivery, and the code of its outcome.
cdef struct Question:
    bint asked
    uint32_t id
    amqp_code answer

cdef class Coordinator:
    cdef Connection connection
    cdef pn_session_t *session
    cdef pn_link_t *link
    cdef amqp_link_end_t *end
    # The open transaction; size 0: there is none.
    cdef uint8_t[AMQP_TXN_ID_MAX] id
    cdef size_t id_size
    # Requests that wait for credit, and requests that wait for their outcome.
    cdef bint discharge_next
    cdef bytes discharge_body
    cdef bint declare_next
    cdef Question discharging
    cdef Question declaring
    # From the last outcome: the id of the declared transaction, or the reason of a refusal.
    cdef bytes declared_id
    cdef str why
    # When the peer must have answered (monotonic ns).
    cdef int64_t deadline
    cdef int64_t tag
    # Discharges asked for, and those that the peer accepted.
    cdef int64_t discharges
    cdef readonly int64_t discharged

    cdef int attach(self, pn_session_t *session, str name) except -1
    cdef bint ready(self) except? -1
    cdef int refuse(self) except -1
    cdef int check_detach(self) except -1 nogil
    cdef bint is_open(self) noexcept nogil
    cdef bint is_idle(self) noexcept nogil
    cdef bint is_discharging(self) noexcept nogil
    cdef bint has_committed(self, int64_t open_work) noexcept nogil
    cdef int declare(self) except -1
    cdef int discharge(self, bint again) except -1
    cdef int ask(self) except -1
    cdef bint may_ask(self) noexcept nogil
    cdef int send(self, Question *question, bytes body) except -1
    cdef int take_disposition(self, const amqp_disposition_t *disposition) except -1 nogil
    cdef int note_answer(self, Question *question, const amqp_disposition_t *disposition) except -1
    cdef int poll(self, int64_t now) except -1 nogil
    cdef int take_answers(self, int64_t now) except -1
    cdef int take_declared(self) except -1
    cdef int take_discharged(self) except -1
    cdef int expect(self, Question *question, amqp_code answer, str purpose) except -1
    cdef amqp_bytes_t transaction(self) noexcept nogil
