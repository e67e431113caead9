from libc.stdint cimport int64_t, uint64_t

from quiver_fast.engine.link cimport Endpoint
from quiver_fast.engine.template cimport MessageTemplate
from quiver_fast.proton.libproton cimport pn_delivery_t
from quiver_fast.run.pacer cimport Schedule

cdef class Sender(Endpoint):
    cdef MessageTemplate template
    # None: as fast as can be.
    cdef Schedule schedule
    # The schedule is kept awake, not asleep.
    cdef bint is_exact
    cdef bint with_ids
    cdef bint settlement
    cdef bint presettled
    # Bodies are announced, and recorded as they go.
    cdef bint streaming
    cdef int64_t batch_sent
    # Bytes of the present message's body that the engine does not have yet.
    cdef uint64_t body_left
    # The part of body_left that is in the present Data section.
    cdef uint64_t section_left
    # The present message's time, when its first bytes went out, and the bytes recorded.
    cdef int64_t message_time
    cdef int64_t first_time
    cdef int64_t told
    # What the engine is given at a time, whole frames if it can be.
    cdef size_t piece
    cdef size_t frame_payload
    # The piece of the body that goes out with the head, and the rest of the body.
    cdef size_t first_piece
    cdef uint64_t body_rest
    cdef readonly int64_t sent
    cdef readonly int64_t settled
    cdef readonly int64_t accepted
    cdef readonly int64_t rejected
    cdef readonly int64_t released
    cdef readonly int64_t modified
    # Messages that a signal cut off.
    cdef readonly int64_t aborted
    # Bytes of bodies; counted in streaming mode only.
    cdef readonly int64_t bytes
    cdef readonly str first_refusal

    cdef int await_credit(self, int64_t now) except -1 nogil
    cdef int loop(self) except -1 nogil
    cdef int await_next(self, int64_t wake) except -1 nogil
    cdef bint is_done(self, int64_t now) noexcept nogil
    cdef int64_t allowance(self, int64_t now) noexcept nogil
    cdef int burst(self, int64_t now) except -1 nogil
    cdef int send_message(self, int64_t now) except -1 nogil
    cdef int64_t send_time(self) noexcept nogil
    cdef int begin_stream(self, int64_t time) noexcept nogil
    cdef int finish_delivery(self) except -1 nogil
    cdef int abort_delivery(self) noexcept nogil
    cdef size_t room(self) noexcept nogil
    cdef int tell(self, char kind) except -1 nogil
    cdef int tell_progress(self) except -1 nogil
    cdef int fail_silent(self) except -1
    cdef int feed_body(self, int64_t now) except -1 nogil
    cdef bint feed_piece(self, size_t room, int64_t now) except? False nogil
    cdef int collect_outcomes(self) except -1 nogil
    cdef int take_outcome(self, pn_delivery_t *delivery) except -1 nogil
    cdef int note_refusal(self, pn_delivery_t *delivery) except -1
    cdef int record_settlement(self, pn_delivery_t *delivery, int64_t time) except -1 nogil
    cdef int64_t next_wake(self, int64_t now) noexcept nogil
    cdef bint is_settled(self) noexcept nogil
    cdef int transact(self, int64_t now) except -1 nogil
    cdef int ended_by_peer(self, int64_t now) except -1
