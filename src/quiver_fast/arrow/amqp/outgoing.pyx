"""Messages on their way out as frames: small ones of one frame, larger ones of many.

    message   head · body ················ · section · body ·····
    frames    ├───────────┼───────────┼───────────┼─────────────┤

A body of ``x`` bytes is one block of memory that goes out again and again; any other is all in
memory. Both go out by reference.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from quiver_fast.amqp.data_plane cimport (
    AMQP_CODE_TRANSACTIONAL, AMQP_FRAME_ROOM, AMQP_OURS, AMQP_STAMP_TAG, AMQP_STATE_ROOM,
    AMQP_THEIRS, amqp_bytes_t, amqp_output_add, amqp_output_refer, amqp_output_room,
    amqp_session_end_t, amqp_stamp_lay, amqp_state_t, amqp_transfer_t, amqp_unsettled_add,
    amqp_unsettled_add_all, amqp_unsettled_free, amqp_unsettled_init, amqp_write_state,
    amqp_write_transfer,
)
from quiver_fast.arrow.amqp.link cimport Endpoint
from quiver_fast.arrow.amqp.template cimport MessageTemplate
from quiver_fast.arrow.amqp.transport cimport no_memory
from quiver_fast.errors import LinkError

# Larger bodies are not copied behind each transfer, but referred to.
cdef size_t STAMPED_LIMIT = 4096
cdef size_t CHUNK = 65536
cdef uint32_t FIRST_UNSETTLED = 4096


cdef inline void put_tag(uint8_t *tag, int64_t sequence) noexcept nogil:
    """Put what amqp_stamp_number puts: six bits of the sequence in each byte."""
    cdef int i
    for i in range(AMQP_STAMP_TAG):
        tag[i] = <uint8_t>(48 + ((sequence >> (6 * i)) & 63))


cdef class Outgoing(Endpoint):
    """A sending end's messages as deliveries and frames.

    Args:
        connection, writer, limits, address, name, time_unit, transaction_size: see Endpoint.
        template: the message.
        presettled: send settled.
    """

    def __init__(self, connection, writer, limits, *, address: str, name: str,
                 template: MessageTemplate, presettled: bool, time_unit: str,
                 transaction_size: int) -> None:
        super().__init__(connection, writer, limits, address=address, name=name,
                         time_unit=time_unit, transaction_size=transaction_size)
        self.is_sender = True
        self.template = template
        self.presettled = presettled
        self.streaming = self.template.streaming
        if not amqp_unsettled_init(&self.waiting, 0, FIRST_UNSETTLED, MOST_UNSETTLED):
            raise MemoryError("no memory for unsettled deliveries")

    def __dealloc__(self) -> None:
        amqp_unsettled_free(&self.waiting)

    def check_limits(self) -> None:
        """Raise LinkError where the peer takes no messages as large as ours (part 2.7.3)."""
        cdef uint64_t most = self.end.max_message_size[<int>AMQP_THEIRS]
        if most and self.template.size > most:
            raise LinkError(
                f"{self.connection.peer}: '{self.address}' takes messages of at most {most} bytes, "
                f"and ours have {self.template.size} (body-size {self.template.largest_size})")

    def lay_frames(self) -> None:
        """Take payloads that fill frames of the peer's largest size."""
        largest = min(self.connection.largest_frame(), CHUNK)
        self.frame_payload = largest - AMQP_FRAME_ROOM
        if self.batch_size:
            self.frame_payload -= AMQP_STATE_ROOM
        self.is_stamped = (
            self.batch_size == 0 and not self.streaming and self.template.sizes is None
            and self.template.size + 8 <= min(self.frame_payload, STAMPED_LIMIT))

    cdef int take_ids(self, int64_t count) except -1 nogil:
        """Count deliveries that begin, each of one frame or of the first of several."""
        cdef amqp_session_end_t *session = self.end.session
        self.delivery_id = session.counts.next_delivery_id
        # The coordinator's deliveries lie between ours.
        while self.waiting.next != self.delivery_id:
            if not amqp_unsettled_add(&self.waiting, True):
                no_memory()
        if self.presettled:
            self.waiting.oldest = self.waiting.next = self.delivery_id + <uint32_t>count
        elif amqp_unsettled_add_all(&self.waiting, <uint32_t>count) < count:
            no_memory()
        session.counts.next_delivery_id += <uint32_t>count
        self.end.counts.delivery_count += <uint32_t>count
        self.end.counts.credit -= <uint32_t>count
        return 0

    cdef size_t largest_stamp(self) noexcept nogil:
        """Return the size of a message's frame at most: its id may get digits more in a burst."""
        return AMQP_FRAME_ROOM + self.template.head_size + 8 + <size_t>self.template.body_size

    cdef int lay_stamp(self) noexcept nogil:
        """Write the frame of the present message before it; the head may have grown."""
        amqp_stamp_lay(
            &self.stamp, <uint8_t *>self.template.head,
            self.template.head_size + <size_t>self.template.body_size,
            self.end.session.channel[<int>AMQP_OURS], self.end.handle[<int>AMQP_OURS],
            self.presettled)
        return 0

    cdef int send_frame(self) except -1 nogil:
        """Send the next frame of the present delivery, as full as it can be."""
        cdef amqp_session_end_t *session = self.end.session
        cdef amqp_transfer_t frame
        cdef uint8_t[4] tag
        cdef uint8_t *out
        cdef size_t size = min(self.lead_left, self.frame_payload)
        if self.lead_left <= self.frame_payload:
            size += <size_t>min(<uint64_t>(self.frame_payload - size), self.section_left)
        memset(&frame, 0, sizeof(frame))
        frame.payload.size = size
        frame.more = size < self.lead_left + self.body_left
        self.lay_transfer(&frame, tag)
        out = amqp_output_room(
            &self.connection.plane.output, AMQP_FRAME_ROOM + AMQP_STATE_ROOM + self.lead_left)
        if out == NULL:
            no_memory()
        if self.coordinator is not None and frame.has_delivery_id:
            out = self.put_enlisted(out, &frame)
        else:
            out = amqp_write_transfer(out, session.channel[<int>AMQP_OURS], &frame)
        session.counts.next_outgoing_id += 1
        session.counts.remote_incoming_window -= 1
        self.put_payload(out, size)
        if not frame.more:
            self.finish_delivery()
        return 0

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

    cdef int lay_transfer(self, amqp_transfer_t *frame, uint8_t *tag) noexcept nogil:
        """Fill in what a frame says beside its payload; id and tag are in the first alone."""
        frame.handle = self.end.handle[<int>AMQP_OURS]
        # A delivery is settled by its last frame, or not at all.
        frame.has_settled = True
        frame.settled = self.presettled and not frame.more
        if not self.is_first:
            return 0
        self.is_first = False
        put_tag(tag, self.sent)
        frame.tag.start = tag
        frame.tag.size = AMQP_STAMP_TAG
        frame.delivery_id = self.delivery_id
        frame.has_delivery_id = frame.has_message_format = True
        return 0

    cdef int put_payload(self, uint8_t *out, size_t size) except -1 nogil:
        """Put the next bytes of the present message behind their transfer."""
        cdef size_t lead = min(size, self.lead_left)
        cdef amqp_bytes_t body
        memcpy(out, self.lead, lead)
        amqp_output_add(&self.connection.plane.output, out + lead)
        self.lead += lead
        self.lead_left -= lead
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
        if self.streaming:
            self.bytes += body.size
        if self.section_left == 0 and self.body_left:
            self.begin_section()
        return 0

    cdef int begin_section(self) noexcept nogil:
        """Have the head of the next Data section go out next."""
        self.section_left = min(self.body_left, self.template.section_size)
        self.template.next_section(self.section_left)
        self.lead = <const uint8_t *>self.template.section
        self.lead_left = sizeof(self.template.section)
        return 0

    cdef int abort_delivery(self) except -1 nogil:
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
        session.counts.next_outgoing_id += 1
        session.counts.remote_incoming_window -= 1
        return 0

    cdef int finish_delivery(self) except -1 nogil:
        """Take note that the present delivery is whole."""
        self.is_open = False
        return 0
