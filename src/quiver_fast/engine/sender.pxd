from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from quiver_fast.amqp.data_plane cimport (
    amqp_bytes_t, amqp_disposition_t, amqp_stamp_t, amqp_state_t, amqp_transfer_t,
    amqp_unsettled_t,
)
from quiver_fast.engine.link cimport Endpoint
from quiver_fast.engine.template cimport MessageTemplate
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
    # Deliveries that wait for their outcome.
    cdef amqp_unsettled_t waiting
    # Most messages differ in time, id and number alone: one frame is written for all.
    cdef amqp_stamp_t stamp
    cdef bint is_stamped
    # Of the present message, what is not on its way: its head or that of a section, the body,
    # and the part of the body that is in the present Data section.
    cdef const uint8_t *lead
    cdef size_t lead_left
    cdef uint64_t body_left
    cdef uint64_t section_left
    # The present delivery: a frame of it is to come, the first, or one that aborts it.
    cdef bint is_open
    cdef bint is_first
    cdef bint is_aborting
    cdef uint32_t delivery_id
    # The present message's time, when its first bytes went out, and the bytes recorded.
    cdef int64_t message_time
    cdef int64_t first_time
    cdef int64_t told
    # The largest payload of a frame.
    cdef size_t frame_payload
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
    cdef size_t largest_stamp(self) noexcept nogil
    cdef int lay_stamp(self) noexcept nogil
    cdef int64_t room(self) noexcept nogil
    cdef int take_ids(self, int64_t count) except -1 nogil
    cdef int send_stamped(self, int64_t count) except -1 nogil
    cdef int record(self, int64_t time) except -1 nogil
    cdef int64_t send_time(self) noexcept nogil
    cdef int begin_message(self, int64_t time) except -1 nogil
    cdef int send_frame(self) except -1 nogil
    cdef int lay_transfer(self, amqp_transfer_t *frame, uint8_t *tag) noexcept nogil
    cdef int put_payload(self, uint8_t *out, size_t size) except -1 nogil
    cdef int begin_section(self) noexcept nogil
    cdef int finish_delivery(self) except -1 nogil
    cdef int abort_delivery(self) except -1 nogil
    cdef int send_abort(self) except -1 nogil
    cdef uint8_t *put_enlisted(self, uint8_t *out, amqp_transfer_t *frame) noexcept nogil
    cdef int tell(self, char kind) except -1 nogil
    cdef int tell_progress(self) except -1 nogil
    cdef int fail_silent(self) except -1
    cdef int feed_body(self, int64_t now) except -1 nogil
    cdef int collect_outcomes(self) except -1 nogil
    cdef int take_disposition(self, const amqp_disposition_t *told) except -1 nogil
    cdef int take_outcomes(
        self, const amqp_disposition_t *told, uint32_t first, uint32_t last) except -1 nogil
    cdef int count_outcomes(self, const amqp_state_t *state, int64_t count) except -1 nogil
    cdef int64_t settle_each(self, uint32_t first, uint32_t last) except -1 nogil
    cdef int64_t next_wake(self, int64_t now) noexcept nogil
    cdef bint is_settled(self) noexcept nogil
    cdef int transact(self, int64_t now) except -1 nogil
    cdef int ended_by_peer(self, int64_t now) except -1
