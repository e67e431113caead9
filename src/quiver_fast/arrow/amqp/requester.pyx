"""A sender of requests, which takes their replies over a second link of its session.

    send      a record of the request, when it was due
    reply     in time: the settlement record of the request, so that settlements are round trips
              else: counted as late, duplicate or foreign (see replies.pyx)

An outcome of the peer settles the delivery of a request, and is not recorded.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from quiver_fast.amqp.data_plane cimport (
    AMQP_ARRIVAL, AMQP_CODE_ACCEPTED, AMQP_NOTHING, AMQP_OUTCOME, STRING32, STRING8,
    amqp_arrival_t, amqp_bytes_t, amqp_event, amqp_link_end_t, amqp_value_t,
)
from quiver_fast.arrow.amqp.link cimport Endpoint, has_ended
from quiver_fast.arrow.amqp.replies cimport (
    IN_TIME, Letter, Replies, Requests, Verdict, read_letter,
)
from quiver_fast.arrow.amqp.sender cimport Sender
from quiver_fast.arrow.amqp.transport cimport no_memory
from quiver_fast.errors import LinkError
from quiver_fast.proton.libproton cimport (
    PN_REMOTE_UNINIT, PN_UNSPECIFIED, pn_link_open, pn_link_remote_source, pn_link_source,
    pn_link_state, pn_link_t, pn_receiver, pn_terminus_get_address, pn_terminus_get_type,
    pn_terminus_set_address, pn_terminus_set_dynamic,
)
from quiver_fast.records.digits cimport put_decimal
from quiver_fast.records.formats import SETTLEMENT_SAMPLE_INTERVAL

cdef int64_t SETTLEMENT_SAMPLE = SETTLEMENT_SAMPLE_INTERVAL
# No number has more digits.
cdef size_t MOST_DIGITS = 18
# Of a reply in several frames, so many bytes are read.
cdef size_t HEAD = 65536


cdef class Requester(Sender):
    """Send requests by the schedule, and match their replies by correlation-id.

    Args:
        replies: the counts of all ends of the process.
        replies_from: the address of the replies; empty for a dynamic node of the peer.
        id_prefix: the beginning of this run's ids.
        window: replies that the peer may send ahead.
        make_template: makes the message of a request, given the address of the replies.
        options: see Sender.
    """

    cdef Replies replies
    cdef Requests requests
    cdef str replies_from
    cdef bytes id_prefix
    cdef const char *prefix
    cdef size_t prefix_size
    cdef object make_template
    cdef pn_link_t *reply_link
    cdef amqp_link_end_t *reply_end
    cdef uint32_t window
    # The first bytes of the reply that comes in several frames.
    cdef uint8_t *head
    cdef size_t head_size

    def __cinit__(self) -> None:
        self.head = NULL

    def __init__(self, connection, writer, limits, *, replies: Replies, replies_from: str,
                 id_prefix: str, window: int, make_template: Callable[[str], MessageTemplate],
                 **options: object) -> None:
        super().__init__(connection, writer, limits, **options)
        # Replies are recorded, not outcomes.
        self.settlement = False
        self.replies = replies
        self.requests = Requests(replies)
        self.replies_from = replies_from
        self.id_prefix = id_prefix.encode("ascii")
        self.prefix = self.id_prefix
        self.prefix_size = len(self.id_prefix)
        self.make_template = make_template
        self.window = window
        self.course.patience += replies.timeout * self.course.time_divisor

    def __dealloc__(self) -> None:
        free(self.head)

    def account(self) -> "Account":
        return super().account()._replace(replies=self.replies.document())

    # ---- links -----------------------------------------------------------------------

    def send_attach(self) -> None:
        super().send_attach()
        self.reply_link = pn_receiver(self.session, f"{self.name}-replies".encode())
        if self.replies_from:
            pn_terminus_set_address(pn_link_source(self.reply_link), self.replies_from.encode())
        else:
            pn_terminus_set_dynamic(pn_link_source(self.reply_link), True)
        pn_link_open(self.reply_link)

    cdef bint usable(self) noexcept nogil:
        if not Endpoint.usable(self) or pn_link_state(self.reply_link) & PN_REMOTE_UNINIT:
            return False
        return pn_terminus_get_type(pn_link_remote_source(self.reply_link)) != PN_UNSPECIFIED

    cdef bint ended_by_reason(self) except? -1 nogil:
        cdef bint closed = Endpoint.ended_by_reason(self)
        return has_ended(self, self.reply_link) or closed

    def use_link(self) -> None:
        """Make the message, which has the address of the replies; give credit for them."""
        cdef const char *address = pn_terminus_get_address(pn_link_remote_source(self.reply_link))
        if address == NULL and not self.replies_from:
            raise LinkError(f"{self.connection.peer}: the peer made no node for the replies")
        self.template = self.make_template(
            self.replies_from or address.decode("utf-8", "replace"))
        self.outgoing.template = self.template
        self.connection.referred = self.template
        super().use_link()
        self.reply_end = self.connection.end_of(self.reply_link)
        self.reply_end.user = <void *>self
        self.connection.give_credit(self.reply_end, self.window, False)

    # ---- requests --------------------------------------------------------------------

    cdef int record(self, int64_t time) except -1 nogil:
        self.requests.add(time)
        return Sender.record(self, time)

    cdef int64_t turn(self, int64_t now) except? -1 nogil:
        self.requests.expire(self.course.wall_time())
        return Sender.turn(self, now)

    cdef bint is_settled(self) noexcept nogil:
        return Sender.is_settled(self) and self.requests.waiting == 0

    # ---- replies ---------------------------------------------------------------------

    cdef int take_input(self) except -1 nogil:
        cdef amqp_event event = self.connection.next_event()
        while event != AMQP_NOTHING:
            if event == AMQP_OUTCOME and self.connection.plane.session == self.end.session:
                self.take_disposition(&self.connection.plane.disposition)
            elif event == AMQP_ARRIVAL:
                self.take_reply(&self.connection.plane.arrival)
            event = self.connection.next_event()
        return 0

    cdef int take_reply(self, const amqp_arrival_t *arrival) except -1 nogil:
        """Take a frame of a reply; count the reply with its last frame."""
        if arrival.link != self.reply_end or arrival.aborted:
            return 0
        if arrival.first and not arrival.more:
            self.note_reply(arrival.payload)
        else:
            self.keep_head(arrival)
            if arrival.more:
                return 0
            self.note_reply(amqp_bytes_t(self.head, self.head_size))
        if not arrival.settled:
            self.connection.accept(
                arrival.link.session, arrival.delivery_id, AMQP_CODE_ACCEPTED)
        if self.reply_end.counts.credit <= self.window // 2:
            self.connection.give_credit(
                self.reply_end, self.window - self.reply_end.counts.credit, False)
        return 0

    cdef int keep_head(self, const amqp_arrival_t *arrival) except -1 nogil:
        """Keep the bytes of a frame: any frame may have the fields."""
        cdef size_t part
        if self.head == NULL:
            self.head = <uint8_t *>malloc(HEAD)
            if self.head == NULL:
                no_memory()
        if arrival.first:
            self.head_size = 0
        part = min(arrival.payload.size, HEAD - self.head_size)
        if part:
            memcpy(self.head + self.head_size, arrival.payload.start, part)
        self.head_size += part
        return 0

    cdef int note_reply(self, amqp_bytes_t message) except -1 nogil:
        cdef Letter letter
        cdef int64_t now = self.course.wall_time()
        cdef int64_t number
        cdef Verdict verdict
        cdef char[24] digits
        cdef char *end
        read_letter(message.start, message.size, &letter)
        number = self.number_of(&letter.correlation)
        verdict = self.requests.answer(number, now)
        self.replies.count(verdict, &letter, now)
        if verdict != IN_TIME:
            return 0
        end = put_decimal(digits, self.template.before + number)
        return self.writer.settled(
            digits, end - digits, now, number % SETTLEMENT_SAMPLE == 1)

    cdef int64_t number_of(self, const amqp_value_t *id) noexcept nogil:
        """Return the number of the request with an id, from 1; 0 of an id that is not ours."""
        cdef size_t cut = self.prefix_size
        cdef size_t i
        cdef int64_t number = 0
        if id.constructor != STRING8 and id.constructor != STRING32:
            return 0
        if not cut < id.content.size <= cut + MOST_DIGITS or memcmp(
                id.content.start, self.prefix, cut) != 0:
            return 0
        for i in range(cut, id.content.size):
            if not c"0" <= id.content.start[i] <= c"9":
                return 0
            number = 10 * number + (id.content.start[i] - c"0")
        return max(number - self.template.before, <int64_t>0)
