from libc.stdint cimport int64_t, uint32_t

from quiver_fast.amqp.data_plane cimport amqp_disposition_t, amqp_state_t
from quiver_fast.arrow.amqp.link cimport Endpoint
from quiver_fast.arrow.amqp.outgoing cimport Outgoing
from quiver_fast.arrow.amqp.template cimport MessageTemplate
from quiver_fast.arrow.run.delays cimport Cause

cdef class Sender(Endpoint):
    cdef MessageTemplate template
    cdef Outgoing outgoing
    # Messages announce the size of their body, whose progress is recorded.
    cdef bint streaming
    # Spin until a message is due, instead of sleeping.
    cdef bint is_exact
    cdef bint with_ids
    cdef bint settlement
    cdef int64_t batch_sent
    # Of the present message: its SendTime, when its first bytes went out, and bytes recorded.
    cdef int64_t message_time
    cdef int64_t first_time
    cdef int64_t recorded
    cdef int64_t sent
    cdef int64_t settled
    cdef int64_t accepted
    cdef int64_t rejected
    cdef int64_t released
    cdef int64_t modified
    # Messages that a signal aborted.
    cdef int64_t aborted
    cdef str first_refusal

    cdef int await_credit(self, int64_t now) except -1 nogil
    cdef int64_t allowance(self, int64_t now) noexcept nogil
    cdef int burst(self, int64_t now) except -1 nogil
    cdef int answer_drain(self) except -1 nogil
    cdef int64_t room(self) noexcept nogil
    cdef int send_stamped(self, int64_t count) except -1 nogil
    cdef int record(self, int64_t time) except -1 nogil
    cdef int begin_message(self, int64_t time) except -1 nogil
    cdef int record_body(self, char kind) except -1 nogil
    cdef void note_waits(self, int64_t now) noexcept nogil
    cdef Cause awaited(self) noexcept nogil
    cdef int fail_silent(self) except -1
    cdef int finish_delivery(self) except -1 nogil
    cdef int feed_body(self, int64_t now) except -1 nogil
    cdef int take_outcomes(
        self, const amqp_disposition_t *disposition, uint32_t first, uint32_t last) except -1 nogil
    cdef int count_outcomes(self, const amqp_state_t *state, int64_t count) except -1 nogil
    cdef int64_t settle_each(self, uint32_t first, uint32_t last) except -1 nogil
    cdef int64_t next_wake(self, int64_t now) noexcept nogil
    cdef bint is_settled(self) noexcept nogil
    cdef int transact(self, int64_t now) except -1 nogil
    cdef int ended_by_peer(self, int64_t now) except -1
