cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from quiver_fast.amqp.data_plane cimport (
    amqp_link_end_t, amqp_stamp_t, amqp_transfer_t, amqp_unsettled_t,
)
from quiver_fast.arrow.amqp.connection cimport Connection
from quiver_fast.arrow.amqp.template cimport MessageTemplate
from quiver_fast.arrow.amqp.transaction cimport Coordinator

cdef enum:
    # Tags are unique while fewer deliveries than this are unsettled (see stamp.h).
    MOST_UNSETTLED = 1 << 24


@cython.final
cdef class Outgoing:
    cdef MessageTemplate template
    cdef bint presettled
    cdef Connection connection
    cdef amqp_link_end_t *end
    # None without transactions.
    cdef Coordinator coordinator
    # Deliveries that wait for their outcome.
    cdef amqp_unsettled_t unsettled
    # Most messages differ in time, id and number alone: one frame is written for all.
    cdef amqp_stamp_t stamp
    cdef bint is_stamped
    # The bytes of the present message that are not sent: of its head or of a section's head, of
    # the body, and of the body's part in the present Data section.
    cdef const uint8_t *head
    cdef size_t head_left
    cdef uint64_t body_left
    cdef uint64_t section_left
    # The present delivery: more of its frames follow, the first is next, an abort is next.
    cdef bint is_open
    cdef bint is_first
    cdef bint is_aborting
    # Of the present delivery, or of the first one of a burst.
    cdef uint32_t delivery_id
    # Which message of the sender it is, from 1.
    cdef int64_t number
    # Bytes of bodies; small messages, which are stamped, are not counted.
    cdef int64_t bytes
    # The largest payload of a frame.
    cdef size_t frame_payload

    cdef inline void count_frames(self, uint32_t count) noexcept nogil:
        self.end.session.counts.next_outgoing_id += count
        self.end.session.counts.remote_incoming_window -= count

    cdef int attach(
        self, Connection connection, amqp_link_end_t *end, Coordinator coordinator) noexcept
    cdef int forget(self) except -1
    cdef int begin_deliveries(self, int64_t count) except -1 nogil
    cdef size_t largest_stamp(self) noexcept nogil
    cdef int write_stamp(self) noexcept nogil
    cdef int begin_message(self, int64_t number) except -1 nogil
    cdef int send_frame(self) except -1 nogil
    cdef uint8_t *put_enlisted(self, uint8_t *out, amqp_transfer_t *frame) noexcept nogil
    cdef int describe(self, amqp_transfer_t *frame, uint8_t *tag) noexcept nogil
    cdef int put_payload(self, uint8_t *out, size_t size) except -1 nogil
    cdef int begin_section(self) noexcept nogil
    cdef int abort(self) except -1 nogil
    cdef int send_abort(self) except -1 nogil
