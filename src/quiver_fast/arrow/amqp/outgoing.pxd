from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from quiver_fast.amqp.data_plane cimport amqp_stamp_t, amqp_transfer_t, amqp_unsettled_t
from quiver_fast.arrow.amqp.link cimport Endpoint
from quiver_fast.arrow.amqp.template cimport MessageTemplate

cdef enum:
    # Tags are unique while fewer deliveries than this are unsettled (see stamp.h).
    MOST_UNSETTLED = 1 << 24

cdef class Outgoing(Endpoint):
    cdef MessageTemplate template
    cdef bint presettled
    # Bodies are announced, and recorded as they go.
    cdef bint streaming
    # Deliveries that wait for their outcome.
    cdef amqp_unsettled_t waiting
    # Most messages differ in time, id and number alone: one frame is written for all.
    cdef amqp_stamp_t stamp
    cdef bint is_stamped
    # What of the present message is not on its way: its head or that of a section, the body,
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
    # The largest payload of a frame.
    cdef size_t frame_payload
    cdef readonly int64_t sent
    # Bytes of bodies; counted in streaming mode only.
    cdef readonly int64_t bytes

    cdef int take_ids(self, int64_t count) except -1 nogil
    cdef size_t largest_stamp(self) noexcept nogil
    cdef int lay_stamp(self) noexcept nogil
    cdef int send_frame(self) except -1 nogil
    cdef uint8_t *put_enlisted(self, uint8_t *out, amqp_transfer_t *frame) noexcept nogil
    cdef int lay_transfer(self, amqp_transfer_t *frame, uint8_t *tag) noexcept nogil
    cdef int put_payload(self, uint8_t *out, size_t size) except -1 nogil
    cdef int begin_section(self) noexcept nogil
    cdef int abort_delivery(self) except -1 nogil
    cdef int send_abort(self) except -1 nogil
    cdef int finish_delivery(self) except -1 nogil
