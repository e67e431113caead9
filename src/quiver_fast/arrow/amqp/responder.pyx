"""A receiver of requests, which sends a reply to each over a second link of its session.

    request ──> taken: the record ──> worked on ──> the reply ──> accepted

The second link has no address: each reply names its own (anonymous terminus). A peer without a
broker attaches that link itself.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from quiver_fast.amqp.data_plane cimport (
    AMQP_ARRIVAL, AMQP_CODE_ACCEPTED, AMQP_CODE_NONE, AMQP_CODE_RECEIVED, AMQP_FRAME_ROOM,
    AMQP_NOTHING, AMQP_OUTCOME, AMQP_RECEIVER, NULL_, amqp_arrival_t, amqp_bytes_t, amqp_code,
    amqp_disposition_t, amqp_event, amqp_link_end_t,
    amqp_unsettled_add, amqp_unsettled_clip, amqp_unsettled_free, amqp_unsettled_init,
    amqp_unsettled_settle_all, amqp_unsettled_t,
)
from quiver_fast.arrow.amqp.incoming cimport Inflow
from quiver_fast.arrow.amqp.link cimport Endpoint, has_ended
from quiver_fast.arrow.amqp.outgoing cimport MOST_UNSETTLED
from quiver_fast.arrow.amqp.replies cimport Letter, read_letter
from quiver_fast.arrow.amqp.shaped_receiver cimport ShapedReceiver
from quiver_fast.arrow.amqp.transport cimport no_memory
from quiver_fast.proton.libproton cimport (
    PN_REMOTE_UNINIT, PN_UNSPECIFIED, pn_link_is_sender, pn_link_open, pn_link_remote_source,
    pn_link_remote_target, pn_link_source, pn_link_state, pn_link_t, pn_link_target, pn_sender,
    pn_terminus_copy, pn_terminus_get_type, pn_terminus_is_dynamic, pn_terminus_set_address,
)

# The bytes of a reply besides its id, its address and its body.
cdef size_t FRAME = 128
cdef uint32_t FIRST_UNSETTLED = 4096


cdef inline uint8_t *put(uint8_t *out, const char *bytes, size_t size) noexcept nogil:
    memcpy(out, bytes, size)
    return out + size


cdef inline uint8_t *put_number(uint8_t *out, uint64_t number, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        out[i] = <uint8_t>(number >> (8 * (width - 1 - i)))
    return out + width


cdef class Responder(ShapedReceiver):
    """Answer requests, one after the other.

    Args:
        reply_size: bytes in the body of a reply.
        options: see ShapedReceiver; ``delay`` is the work on each request.
    """

    cdef size_t reply_size
    cdef pn_link_t *reply_link
    cdef amqp_link_end_t *reply_end
    cdef amqp_unsettled_t unsettled
    # The reply to the request that is worked on: the id with its constructor, then the address.
    cdef bint is_asked
    cdef size_t id_size
    cdef size_t address_size
    cdef int64_t taken_at
    cdef uint8_t *head
    cdef size_t head_room
    cdef uint8_t *reply
    cdef size_t reply_room
    cdef int64_t replied
    cdef int64_t undelivered

    def __cinit__(self) -> None:
        self.head = self.reply = NULL

    def __init__(self, connection, writer, limits, *, reply_size: int, **options: object) -> None:
        super().__init__(connection, writer, limits, **options)
        self.reply_size = reply_size

    def __dealloc__(self) -> None:
        free(self.head)
        free(self.reply)
        amqp_unsettled_free(&self.unsettled)

    def account(self) -> "Account":
        return super().account()._replace(replied=self.replied, undelivered=self.undelivered)

    # ---- links -----------------------------------------------------------------------

    def send_attach(self) -> None:
        super().send_attach()
        self.reply_link = pn_sender(self.session, f"{self.name}-replies".encode())
        pn_link_open(self.reply_link)

    cdef bint usable(self) noexcept nogil:
        if not Endpoint.usable(self) or pn_link_state(self.reply_link) & PN_REMOTE_UNINIT:
            return False
        return pn_terminus_get_type(pn_link_remote_target(self.reply_link)) != PN_UNSPECIFIED

    cdef bint find_link(self) except -1:
        return Endpoint.find_link(self) and self.reply_link != NULL

    cdef int answer(self, pn_link_t *link) except -1:
        """Confirm the requester's link for replies, too: it asks for a dynamic node."""
        if not pn_link_is_sender(link) or self.reply_link != NULL or (
                not pn_terminus_is_dynamic(pn_link_remote_source(link))):
            return Endpoint.answer(self, link)
        self.reply_link = link
        pn_terminus_copy(pn_link_source(link), pn_link_remote_source(link))
        pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link))
        pn_terminus_set_address(pn_link_source(link), b"replies")
        pn_link_open(link)
        return 0

    cdef bint ended_by_reason(self) except? -1 nogil:
        cdef bint closed = Endpoint.ended_by_reason(self)
        return has_ended(self, self.reply_link) or closed

    def use_link(self) -> None:
        super().use_link()
        self.reply_end = self.connection.end_of(self.reply_link)
        self.reply_end.user = self.user()
        if not amqp_unsettled_init(
                &self.unsettled, self.reply_end.session.counts.next_delivery_id, FIRST_UNSETTLED,
                MOST_UNSETTLED):
            no_memory()

    # ---- requests --------------------------------------------------------------------

    cdef int take_input(self) except -1 nogil:
        cdef amqp_event event = self.connection.next_event()
        self.taken_since = 0
        while event != AMQP_NOTHING:
            if event == AMQP_ARRIVAL:
                self.take_arrival(&self.connection.plane.arrival)
            elif event == AMQP_OUTCOME:
                self.take_disposition(&self.connection.plane.disposition)
            event = self.connection.next_event()
        return 0

    cdef int finish_message(self, Inflow *flow, const amqp_arrival_t *arrival) except -1 nogil:
        """Keep the id and the address for the reply; then see ShapedReceiver."""
        cdef Letter letter
        cdef bint whole = arrival.first and not arrival.more
        if flow.scanned and self.is_own(flow, self.own_prefix(flow) if self.with_ids else 0):
            if whole:
                read_letter(arrival.payload.start, arrival.payload.size, &letter)
            else:
                read_letter(flow.head, flow.head_size, &letter)
            self.keep(&letter)
        return ShapedReceiver.finish_message(self, flow, arrival)

    cdef int keep(self, const Letter *letter) except -1 nogil:
        """Keep a copy of the fields of a request that its reply needs."""
        cdef size_t size = letter.id.size + letter.reply_to.size
        self.is_asked = letter.reply_to.size > 0
        self.id_size = letter.id.size
        self.address_size = letter.reply_to.size
        self.taken_at = self.now
        grow(&self.head, &self.head_room, size)
        if letter.id.size:
            memcpy(self.head, letter.id.start, letter.id.size)
        if letter.reply_to.size:
            memcpy(self.head + letter.id.size, letter.reply_to.start, letter.reply_to.size)
        return 0

    cdef int step(self, int64_t now) except -1 nogil:
        ShapedReceiver.step(self, now)
        if self.is_asked and self.is_busy and now >= self.busy_until:
            # The reply waits for credit, whose flow wakes us.
            self.next_step = INT64_MAX
        return 0

    cdef bint is_ending(self, bint closed, int64_t now) noexcept nogil:
        # The last request gets its reply, too.
        if self.is_asked and not closed and now < self.course.drain_deadline:
            return False
        return ShapedReceiver.is_ending(self, closed, now)

    cdef int finish_work(self) except -1 nogil:
        """Send the reply, if there is credit; then accept the request."""
        if self.is_asked:
            if not self.may_reply():
                return 0
            self.is_asked = False
            self.send_reply()
        return ShapedReceiver.finish_work(self)

    # ---- replies ---------------------------------------------------------------------

    cdef bint may_reply(self) noexcept nogil:
        cdef size_t frames = 1 + (self.head_room + FRAME + self.reply_size) // (
            self.connection.largest_frame() - AMQP_FRAME_ROOM)
        return self.reply_end.counts.credit > 0 and (
            self.reply_end.session.counts.remote_incoming_window >= frames)

    cdef int send_reply(self) except -1 nogil:
        cdef amqp_bytes_t tag
        cdef amqp_bytes_t message
        cdef uint8_t[4] name
        grow(&self.reply, &self.reply_room,
             FRAME + self.id_size + self.address_size + self.reply_size)
        message.start = self.reply
        message.size = self.write_reply() - self.reply
        put_number(name, <uint64_t>self.replied, 4)
        tag.start = name
        tag.size = sizeof(name)
        if not amqp_unsettled_add(&self.unsettled, False):
            no_memory()
        self.connection.transfer(self.reply_end, tag, message, False)
        self.replied += 1
        return 0

    cdef uint8_t *write_reply(self) noexcept nogil:
        """Encode the reply: properties, application properties, one Data section (part 3.2)."""
        cdef uint8_t *out = put(self.reply, b"\x00\x53\x73\xd0", 4)
        cdef size_t id_size = max(self.id_size, <size_t>1)
        # The list: to is the third field, correlation-id the sixth (part 3.2.4).
        out = put_number(out, 4 + 4 + 5 + self.address_size + id_size, 4)
        out = put(out, b"\x00\x00\x00\x06\x40\x40\xb1", 7)
        out = put_number(out, self.address_size, 4)
        out = put(out, <const char *>self.head + self.id_size, self.address_size)
        out = put(out, b"\x40\x40", 2)
        if self.id_size:
            out = put(out, <const char *>self.head, self.id_size)
        else:
            out = put_number(out, NULL_, 1)
        out = put(out, b"\x00\x53\x74\xc1\x2a\x04\xa1\x08SendTime\x81", 17)
        out = put_number(out, <uint64_t>self.course.wall_time(), 8)
        out = put(out, b"\xa1\x0bReceiveTime\x81", 14)
        out = put_number(out, <uint64_t>self.taken_at, 8)
        out = put(out, b"\x00\x53\x75\xb0", 4)
        out = put_number(out, self.reply_size, 4)
        memset(out, c"x", self.reply_size)
        return out + self.reply_size

    cdef int take_disposition(self, const amqp_disposition_t *disposition) except -1 nogil:
        """Count the replies that the peer did not accept: nobody waits for them any more."""
        cdef uint32_t first = disposition.first
        cdef uint32_t last = disposition.last
        cdef amqp_code code = disposition.state.code
        cdef int64_t count
        if code == AMQP_CODE_RECEIVED or (code == AMQP_CODE_NONE and not disposition.settled):
            return 0
        if disposition.role != AMQP_RECEIVER or (
                not amqp_unsettled_clip(&self.unsettled, &first, &last)):
            return 0
        count = amqp_unsettled_settle_all(&self.unsettled, first, last)
        if code != AMQP_CODE_ACCEPTED and code != AMQP_CODE_NONE:
            self.undelivered += count
        if count and not disposition.settled:
            self.connection.settle(self.reply_end.session, first, last)
        return 0


cdef int grow(uint8_t **memory, size_t *room, size_t size) except -1 nogil:
    """Make room for so many bytes."""
    cdef uint8_t *larger
    if size <= room[0]:
        return 0
    larger = <uint8_t *>realloc(memory[0], 2 * size)
    if larger == NULL:
        no_memory()
    memory[0] = larger
    room[0] = 2 * size
    return 0
