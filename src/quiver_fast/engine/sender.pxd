from libc.stdint cimport int64_t, uint64_t

from quiver_fast.engine.link cimport Endpoint
from quiver_fast.engine.pacer cimport DelayHistogram, Pacer
from quiver_fast.engine.template cimport MessageTemplate
from quiver_fast.proton.libproton cimport pn_delivery_t

cdef class Sender(Endpoint):
    cdef MessageTemplate template
    cdef Pacer pacer
    cdef readonly DelayHistogram delays
    cdef bint with_ids
    cdef bint settlement
    cdef bint presettled
    cdef int64_t batch_sent
    # Bytes of the present message's body that the engine does not have yet.
    cdef uint64_t body_left
    cdef int64_t schedule_start
    cdef int64_t schedule_epoch
    cdef readonly int64_t sent
    cdef readonly int64_t settled
    cdef readonly int64_t accepted
    cdef readonly int64_t rejected
    cdef readonly int64_t released
    cdef readonly int64_t modified
    cdef readonly str first_refusal

    cdef int loop(self) except -1 nogil
    cdef bint is_done(self, int64_t now) noexcept nogil
    cdef int64_t allowance(self, int64_t now) noexcept nogil
    cdef int burst(self, int64_t now) except -1 nogil
    cdef int send_message(self, int64_t now) except -1 nogil
    cdef int64_t send_time(self) noexcept nogil
    cdef int finish_delivery(self) noexcept nogil
    cdef int feed_body(self) noexcept nogil
    cdef int collect_outcomes(self) except -1 nogil
    cdef int take_outcome(self, pn_delivery_t *delivery) except -1 nogil
    cdef int note_refusal(self, pn_delivery_t *delivery) except -1
    cdef int record_settlement(self, pn_delivery_t *delivery, int64_t time) except -1 nogil
    cdef int64_t next_wake(self, int64_t now) noexcept nogil
    cdef int transact(self) except -1
    cdef int ended_by_peer(self, int64_t now) except -1
