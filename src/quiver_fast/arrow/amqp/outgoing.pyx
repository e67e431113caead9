"""Deliveries of a sender as frames: a small message is one frame, a larger one several.

    message   head · body ················ · section · body ·····
    frames    ├───────────┼───────────┼───────────┼─────────────┤

A body of ``x`` bytes is one block of memory that goes out again and again; any other is all in
memory. Both go out by reference.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from quiver_fast.amqp.data_plane cimport (
    AMQP_CODE_TRANSACTIONAL, AMQP_FRAME_ROOM, AMQP_OURS, AMQP_STAMP_TAG, AMQP_STATE_ROOM,
    amqp_bytes_t, amqp_link_end_t, amqp_output_add, amqp_output_refer, amqp_output_room,
    amqp_session_end_t, amqp_stamp_lay, amqp_state_t, amqp_transfer_t, amqp_unsettled_add,
    amqp_unsettled_add_all, amqp_unsettled_free, amqp_unsettled_init, amqp_write_state,
    amqp_write_transfer,
)
from quiver_fast.arrow.amqp.connection cimport Connection
from quiver_fast.arrow.amqp.template cimport MessageTemplate
from quiver_fast.arrow.amqp.transaction cimport Coordinator
from quiver_fast.arrow.amqp.transport cimport no_memory

# Larger messages are not copied into the output: it refers to their body.
cdef size_t STAMPED_LIMIT = 4096
cdef size_t CHUNK = 65536
cdef uint32_t FIRST_UNSETTLED = 4096


cdef inline void put_tag(uint8_t *tag, int64_t sequence) noexcept nogil:
    """Write the tag that amqp_stamp_number writes: six bits of the sequence in each byte."""
    cdef int i
    for i in range(AMQP_STAMP_TAG):
        tag[i] = <uint8_t>(48 + ((sequence >> (6 * i)) & 63))


@cython.final
cdef class Outgoing:
    """The deliveries of one link, and the frames that carry them.

    Args:
        template: the message.
        presettled: send settled.
    """

    def __init__(self, template: MessageTemplate, presettled: bool) -> None:
        self.template = template
        self.presettled = presettled
        if not amqp_unsettled_init(&self.unsettled, 0, FIRST_UNSETTLED, MOST_UNSETTLED):
            raise MemoryError("no memory for unsettled deliveries")

    def __dealloc__(self) -> None:
        amqp_unsettled_free(&self.unsettled)

    cdef int attach(
            self, Connection connection, amqp_link_end_t *end, Coordinator coordinator) noexcept:
        """Send over an attached link, in frames of the peer's largest size."""
        self.connection = connection
        self.end = end
        self.coordinator = coordinator
        self.frame_payload = min(connection.largest_frame(), CHUNK) - AMQP_FRAME_ROOM
        if coordinator is not None:
            self.frame_payload -= AMQP_STATE_ROOM
        self.is_stamped = (
            coordinator is None and not self.template.streaming and self.template.sizes is None
            and self.template.size + 8 <= min(self.frame_payload, STAMPED_LIMIT))
        return 0

    cdef int forget(self) except -1:
        """Forget the deliveries of a connection that was lost."""
        amqp_unsettled_free(&self.unsettled)
        if not amqp_unsettled_init(&self.unsettled, 0, FIRST_UNSETTLED, MOST_UNSETTLED):
            no_memory()
        self.is_open = self.is_first = self.is_aborting = False
        # Channel and handle are others.
        self.stamp.size = 0
        return 0

    cdef int begin_deliveries(self, int64_t count) except -1 nogil:
        """Reserve ids and credit for new deliveries; ``delivery_id`` is the first id."""
        cdef amqp_session_end_t *session = self.end.session
        self.delivery_id = session.counts.next_delivery_id
        # The coordinator's deliveries lie between ours.
        while self.unsettled.next != self.delivery_id:
            if not amqp_unsettled_add(&self.unsettled, True):
                no_memory()
        if self.presettled:
            self.unsettled.oldest = self.unsettled.next = self.delivery_id + <uint32_t>count
        elif amqp_unsettled_add_all(&self.unsettled, <uint32_t>count) < count:
            no_memory()
        session.counts.next_delivery_id += <uint32_t>count
        self.end.counts.delivery_count += <uint32_t>count
        self.end.counts.credit -= <uint32_t>count
        return 0

    cdef size_t largest_stamp(self) noexcept nogil:
        """Return the largest size of a message's frame: its id may get more digits in a burst."""
        return AMQP_FRAME_ROOM + self.template.largest_head + 8 + <size_t>self.template.body_size

    cdef int write_stamp(self) noexcept nogil:
        """Write the frame of the present message in front of it; the head may have grown."""
        amqp_stamp_lay(
            &self.stamp, <uint8_t *>self.template.head,
            self.template.head_size + <size_t>self.template.body_size,
            self.end.session.channel[<int>AMQP_OURS], self.end.handle[<int>AMQP_OURS],
            self.presettled)
        return 0

    cdef int begin_message(self, int64_t number) except -1 nogil:
        """Begin a delivery of the template's present message; `send_frame` sends it."""
        self.begin_deliveries(1)
        self.number = number
        self.is_open = True
        self.is_first = True
        self.head = <const uint8_t *>self.template.head
        self.head_left = self.template.head_size
        self.body_left = self.template.body_size
        self.section_left = min(self.body_left, self.template.section_size)
        return 0

    cdef int send_frame(self) except -1 nogil:
        """Send the next frame of the present delivery, as full as it can be."""
        cdef amqp_session_end_t *session = self.end.session
        cdef amqp_transfer_t frame
        cdef uint8_t[4] tag
        cdef uint8_t *out
        cdef size_t size = min(self.head_left, self.frame_payload)
        if self.head_left <= self.frame_payload:
            size += <size_t>min(<uint64_t>(self.frame_payload - size), self.section_left)
        memset(&frame, 0, sizeof(frame))
        frame.payload.size = size
        frame.more = size < self.head_left + self.body_left
        self.describe(&frame, tag)
        out = amqp_output_room(
            &self.connection.plane.output, AMQP_FRAME_ROOM + AMQP_STATE_ROOM + self.head_left)
        if out == NULL:
            no_memory()
        if self.coordinator is not None and frame.has_delivery_id:
            out = self.put_enlisted(out, &frame)
        else:
            out = amqp_write_transfer(out, session.channel[<int>AMQP_OURS], &frame)
        self.count_frames(1)
        self.is_open = frame.more
        return self.put_payload(out, size)

    cdef uint8_t *put_enlisted(self, uint8_t *out, amqp_transfer_t *frame) noexcept nogil:
        """Write a delivery's first transfer as part of the open transaction (part 4.4.1)."""
        cdef uint8_t[AMQP_STATE_ROOM] encoded
        cdef amqp_state_t state
        memset(&state, 0, sizeof(state))
        state.code = AMQP_CODE_TRANSACTIONAL
        state.txn_id = self.coordinator.transaction()
        frame.state.start = encoded
        frame.state.size = amqp_write_state(encoded, &state) - encoded
        return amqp_write_transfer(out, self.end.session.channel[<int>AMQP_OURS], frame)

    cdef int describe(self, amqp_transfer_t *frame, uint8_t *tag) noexcept nogil:
        """Fill in the fields of a frame; only the first one of a delivery has id and tag."""
        frame.handle = self.end.handle[<int>AMQP_OURS]
        # A delivery is settled by its last frame, or not at all.
        frame.has_settled = True
        frame.settled = self.presettled and not frame.more
        if not self.is_first:
            return 0
        self.is_first = False
        put_tag(tag, self.number)
        frame.tag.start = tag
        frame.tag.size = AMQP_STAMP_TAG
        frame.delivery_id = self.delivery_id
        frame.has_delivery_id = frame.has_message_format = True
        return 0

    cdef int put_payload(self, uint8_t *out, size_t size) except -1 nogil:
        """Put the next bytes of the present message behind their transfer."""
        cdef size_t lead = min(size, self.head_left)
        cdef amqp_bytes_t body
        memcpy(out, self.head, lead)
        amqp_output_add(&self.connection.plane.output, out + lead)
        self.head += lead
        self.head_left -= lead
        if self.template.content_text == NULL:
            body.start = <const uint8_t *>self.template.body
        else:
            body.start = <const uint8_t *>self.template.content_text + (
                self.template.body_size - self.body_left)
        body.size = size - lead
        if body.size and not amqp_output_refer(&self.connection.plane.output, body, NULL):
            no_memory()
        self.body_left -= body.size
        self.section_left -= body.size
        self.bytes += body.size
        if self.section_left == 0 and self.body_left:
            self.begin_section()
        return 0

    cdef int begin_section(self) noexcept nogil:
        """Have the head of the next Data section go out next."""
        self.section_left = min(self.body_left, self.template.section_size)
        self.template.next_section(self.section_left)
        self.head = <const uint8_t *>self.template.section
        self.head_left = sizeof(self.template.section)
        return 0

    cdef int abort(self) except -1 nogil:
        """Abort the present delivery, so that the receiver expects no more of it (part 2.6.14)."""
        self.is_aborting = True
        # Without a window the frame has to wait, as any other.
        return self.send_abort() if self.end.session.counts.remote_incoming_window else 0

    cdef int send_abort(self) except -1 nogil:
        cdef amqp_session_end_t *session = self.end.session
        cdef amqp_transfer_t frame
        cdef uint8_t *out
        self.is_open = self.is_aborting = False
        memset(&frame, 0, sizeof(frame))
        frame.handle = self.end.handle[<int>AMQP_OURS]
        frame.aborted = True
        out = amqp_output_room(&self.connection.plane.output, AMQP_FRAME_ROOM)
        if out == NULL:
            no_memory()
        out = amqp_write_transfer(out, session.channel[<int>AMQP_OURS], &frame)
        amqp_output_add(&self.connection.plane.output, out)
        self.count_frames(1)
        return 0
