"""The receiving end of streams: it checks bodies as they come, over links of the peer.

    peer ── session ──── base link ─────┐
     │  └── session ──── stream link ───┼── one Inflow each ── records
     └───── session ──── stream link ───┘

A peer that knows our connection's capability qd.streaming-links sends each stream on a
link of its own, which it attaches when it needs one, with or without a session of its
own, and may use again for the next.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from quiver_fast.amqp.data_plane cimport amqp_link_end_release
from quiver_fast.arrow.amqp.body cimport (
    BODY_NOT_DATA, BODY_NOT_X, begin_body, body_is_whole, check_body,
)
from quiver_fast.arrow.amqp.incoming cimport Inflow, free_inflow, new_inflow
from quiver_fast.arrow.amqp.receiver cimport Receiver
from quiver_fast.errors import MessageError
from quiver_fast.proton.libproton cimport (
    PN_LOCAL_ACTIVE, PN_LOCAL_UNINIT, PN_RCV_FIRST, PN_REMOTE_ACTIVE, PN_REMOTE_CLOSED,
    pn_link_close, pn_link_free, pn_link_head, pn_link_is_sender, pn_link_open,
    pn_link_remote_source, pn_link_remote_target, pn_link_session,
    pn_link_set_rcv_settle_mode, pn_link_source,
    pn_link_state, pn_link_t, pn_link_target, pn_session_close, pn_session_free,
    pn_session_head, pn_session_open, pn_session_state, pn_session_t, pn_terminus_copy,
)

# A stream link carries one message at a time; the second credit saves a wait between two.
cdef uint32_t STREAM_CREDIT = 2


cdef class StreamReceiver(Receiver):
    """Receive messages of any size in constant memory, and check their bodies.

    Bodies must be Data sections of ``x`` bytes, as many as the message announces. Besides
    the records, the first bytes of each message and its progress are recorded.

    Args:
        See Receiver. The connection must offer ``qd.streaming-links``.
    """

    # The links that the peer attached for streams, besides the base link.
    cdef Inflow *streams
    # Bytes of bodies.
    cdef int64_t bytes

    def __cinit__(self) -> None:
        self.streams = NULL

    def __init__(self, connection, writer, limits, **options: object) -> None:
        super().__init__(connection, writer, limits, **options)
        self.streaming = True
        self.is_plain = False
        # The clock is read for each part of a stream.
        self.course.clock_block = 1

    def account(self) -> "Account":
        return super().account()._replace(bytes=self.bytes)

    def __dealloc__(self) -> None:
        self.free_streams()

    cdef int free_streams(self) noexcept nogil:
        cdef Inflow *flow
        while self.streams != NULL:
            flow = self.streams
            self.streams = flow.next
            free_inflow(flow)
        return 0

    def lose(self) -> list[int]:
        self.free_streams()
        return super().lose()

    # ---- links -----------------------------------------------------------------------

    cdef int take_input(self) except -1 nogil:
        Receiver.take_input(self)
        self.begin_sessions()
        self.answer_links()
        self.drop_closed_links()
        return self.end_sessions()

    cdef int begin_sessions(self) noexcept nogil:
        """Answer the sessions that the peer has begun."""
        cdef pn_session_t *session
        while True:
            session = pn_session_head(
                self.connection.connection, PN_LOCAL_UNINIT | PN_REMOTE_ACTIVE)
            if session == NULL:
                return 0
            pn_session_open(session)

    cdef int end_sessions(self) noexcept nogil:
        """End the sessions that the peer has ended; that of the base link ends the run."""
        cdef pn_session_t *session
        while True:
            session = pn_session_head(
                self.connection.connection, PN_LOCAL_ACTIVE | PN_REMOTE_CLOSED)
            if session == NULL or session == self.session:
                return 0
            pn_session_close(session)
            pn_session_free(session)

    cdef int answer_links(self) except -1 nogil:
        cdef pn_link_t *link
        while True:
            link = pn_link_head(self.connection.connection, PN_LOCAL_UNINIT | PN_REMOTE_ACTIVE)
            if link == NULL:
                return 0
            with gil:
                self.accept_link(link)

    cdef int accept_link(self, pn_link_t *link) except -1:
        """Confirm a link for streams. Its source and target may have any address, or be null."""
        cdef Inflow *flow
        if pn_link_is_sender(link):
            return self.refuse(link, b"amqp:not-allowed", b"this arrow receives")
        flow = new_inflow(link)
        flow.next = self.streams
        self.streams = flow
        pn_terminus_copy(pn_link_source(link), pn_link_remote_source(link))
        pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link))
        pn_link_set_rcv_settle_mode(link, PN_RCV_FIRST)
        pn_link_open(link)
        flow.end = self.connection.end_of(link)
        flow.end.user = flow
        return 0

    cdef int drop_closed_links(self) noexcept nogil:
        """Detach links that the peer has detached; count a message in between as aborted."""
        cdef Inflow **place = &self.streams
        cdef Inflow *flow = place[0]
        cdef int state
        while flow != NULL:
            state = pn_link_state(flow.link) | pn_session_state(pn_link_session(flow.link))
            if state & PN_REMOTE_CLOSED and flow.waiting == 0:
                self.aborted += flow.begun
                place[0] = flow.next
                amqp_link_end_release(&self.connection.plane.endpoints, flow.end)
                pn_link_close(flow.link)
                pn_link_free(flow.link)
                free_inflow(flow)
            else:
                place = &flow.next
            flow = place[0]
        return 0

    cdef int top_up(self) except -1 nogil:
        cdef Inflow *flow = self.streams
        Receiver.top_up(self)
        while flow != NULL:
            if flow.end.counts.credit < STREAM_CREDIT:
                self.connection.give_credit(
                    flow.end, STREAM_CREDIT - flow.end.counts.credit, False)
            flow = flow.next
        return 0

    cdef int drain(self, int64_t now) except -1 nogil:
        cdef Inflow *flow = self.streams
        Receiver.drain(self, now)
        while flow != NULL:
            self.connection.give_credit(flow.end, 0, True)
            flow = flow.next
        return 0

    cdef bint is_drained(self, int64_t now) noexcept nogil:
        cdef Inflow *flow = self.streams
        if not Receiver.is_drained(self, now):
            return False
        while flow != NULL and now < self.course.drain_deadline:
            if flow.end.counts.credit:
                return False
            flow = flow.next
        return True

    # ---- bodies ----------------------------------------------------------------------

    cdef int note_bytes(self, Inflow *flow, const uint8_t *bytes, size_t size) noexcept nogil:
        """Check the next bytes of a body; keep the time of a message's first bytes."""
        cdef uint64_t before
        if not flow.begun:
            flow.begun = True
            flow.first_time = self.now
            flow.recorded = 0
            begin_body(&flow.body)
        before = flow.body.size
        check_body(&flow.body, bytes, size)
        self.bytes += flow.body.size - before
        return 0

    cdef int finish_stream(self, Inflow *flow) except -1 nogil:
        """Compare a whole message with the size that it announced, and record its first bytes."""
        cdef int64_t announced = flow.message.body_size
        if not body_is_whole(&flow.body) or 0 <= announced != <int64_t>flow.body.size:
            with gil:
                self.refuse_body(flow)
        self.record_body(flow, c"F")
        flow.begun = False
        return 0

    cdef int count_other(self, Inflow *flow) except -1 nogil:
        """Discard the body of a message that is not of this run."""
        self.bytes -= flow.body.size
        flow.begun = False
        return Receiver.count_other(self, flow)

    cdef int refuse_body(self, Inflow *flow) except -1:
        size = flow.body.size
        if flow.body.fault == BODY_NOT_DATA:
            reason = "has a body that is not made of Data sections"
        elif flow.body.fault == BODY_NOT_X:
            reason = f"has a byte that is no 'x' within the first {size} bytes of its body"
        elif not body_is_whole(&flow.body):
            reason = f"ends within a section, after {size} bytes of its body"
        else:
            reason = f"has a body of {size} bytes and announced {flow.message.body_size}"
        raise MessageError(f"{self.connection.peer}: message {self.taken() + 1} {reason}")

    cdef int record_body(self, Inflow *flow, char kind) except -1 nogil:
        """Record the bytes of a body that came since the last record."""
        cdef int64_t fresh = <int64_t>(flow.body.size - flow.recorded)
        flow.recorded = flow.body.size
        return self.writer.streamed(
            kind, flow.message.send_time, flow.first_time, self.now, fresh)

    cdef int64_t turn(self, int64_t now) except? -1 nogil:
        if now >= self.course.next_flush:
            self.record_progress()
        return Receiver.turn(self, now)

    cdef int record_progress(self) except -1 nogil:
        """Record the progress of messages that take longer than a flush."""
        cdef Inflow *flow = self.streams
        self.now = self.course.wall_time()
        if self.shows_progress(self.base):
            self.record_body(self.base, c"B")
        while flow != NULL:
            if self.shows_progress(flow):
                self.record_body(flow, c"B")
            flow = flow.next
        return 0

    cdef bint shows_progress(self, Inflow *flow) noexcept nogil:
        """Say whether the message that arrives is of this run."""
        return flow.begun and flow.scanned and self.is_own(flow, self.own_prefix(flow))
