"""Receivers that end when their queue is empty: one records messages, one discards them."""

from libc.stdint cimport INT64_MAX, int64_t, uint32_t

from quiver_fast.amqp.data_plane cimport (
    AMQP_ARRIVAL, AMQP_CODE_ACCEPTED, AMQP_NOTHING, amqp_arrival_t, amqp_event,
)
from quiver_fast.arrow.amqp.link cimport Endpoint
from quiver_fast.arrow.amqp.receiver cimport Receiver
from quiver_fast.arrow.run.course cimport OVER, Limits
from quiver_fast.errors import LinkError
from quiver_fast.proton.libproton cimport PN_RCV_FIRST, pn_link_set_rcv_settle_mode
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.words import counted

cdef int64_t SECOND = 1000000000
# How long a peer may take to answer a drain, or to send the next message.
cdef int64_t DRAIN_TIMEOUT = 2 * SECOND
# The same for a peer that cannot be drained: only silence shows that it has no more.
cdef int64_t SILENCE = SECOND


cdef class EmptyingReceiver(Receiver):
    """Receive credit windows, each with a drain, until the peer returns all credit of one.

    A peer that answers no drain has no more when it is silent; `queue_empty` is not true then.
    """

    # A drain has shown that the queue is empty.
    cdef bint emptied
    # Messages taken so far, and when the peer has been silent for too long.
    cdef int64_t seen
    cdef int64_t silence_end

    def __init__(self, connection, writer, limits, **options: object) -> None:
        super().__init__(connection, writer, limits, **options)
        self.seen = -1
        self.silence_end = INT64_MAX

    cdef int64_t turn(self, int64_t now) except? -1 nogil:
        cdef int64_t wake
        if self.taken() != self.seen:
            self.seen = self.taken()
            self.silence_end = now + self.course.patience
        if self.emptied or now >= self.silence_end:
            # The peer has no more messages: the run is over.
            self.course.deadline = now
        wake = Receiver.turn(self, now)
        if wake == OVER or self.course.stopping:
            return wake
        return now if self.emptied else min(wake, self.silence_end)

    cdef int drain(self, int64_t now) except -1 nogil:
        """End at once if the last drain has shown that the queue is empty."""
        if not self.emptied:
            return Receiver.drain(self, now)
        self.was_drained = True
        self.course.drain_deadline = now
        return 0

    cdef int top_up(self) except -1 nogil:
        """Give a window of credit and drain it: the peer shows when it has no more (part 2.6.7)."""
        cdef int64_t more = self.credit_window
        if self.undrainable:
            return Receiver.top_up(self)
        if self.end.counts.credit or self.backlog.messages:
            return 0
        # ActiveMQ Classic gives credit back after each page: see `is_drained`.
        self.emptied = self.end.counts.drained > 0 and self.taken() == self.taken_before
        self.end.counts.drained = 0
        if self.emptied:
            return 0
        self.taken_before = self.taken()
        if self.course.limits.count:
            more = min(more, self.course.limits.count - self.received)
        self.note_drain()
        return self.connection.give_credit(self.end, <uint32_t>more, True) if more > 0 else 0


cdef class Purger(Endpoint):
    """Accept and settle all messages of a queue until it is empty.

    Args:
        connection, writer, limits, address, name: see Endpoint; no limit holds.
        credit_window: messages that the peer may send ahead.
    """

    cdef int64_t credit_window
    cdef bint drainable
    cdef bint was_drained
    # When the peer has been silent for too long.
    cdef int64_t silence_end
    cdef int64_t purged
    # Messages purged before the last drain.
    cdef int64_t drained_at

    def __init__(self, connection: "Connection", writer: "RecordWriter", limits: Limits, *,
                 address: str, name: str, credit_window: int) -> None:
        super().__init__(connection, writer, limits, address=address, name=name,
                         time_unit="ms", transaction_size=0)
        self.is_sender = False
        self.credit_window = credit_window
        self.drainable = not connection.breaks_on_drain()
        self.course.patience = DRAIN_TIMEOUT if self.drainable else SILENCE

    def prepare(self) -> None:
        pn_link_set_rcv_settle_mode(self.link, PN_RCV_FIRST)

    def account(self) -> "Account":
        return super().account()._replace(
            purged=self.purged, queue_empty=self.was_drained if self.drainable else None)

    def run(self) -> None:
        """Take messages until there are no more, or a signal comes.

        Raises:
            PeerError, LinkError: the peer failed, or left before that.
        """
        with nogil:
            self.loop()

    cdef int loop(self) except -1 nogil:
        cdef int64_t now = monotonic_ns()
        self.silence_end = now + self.course.patience
        while not self.was_drained and not self.course.interrupted and now < self.silence_end:
            self.take_messages(now)
            if self.closed_by_peer():
                with gil:
                    raise LinkError(f"{self.connection.peer}: the peer closed the link after "
                                    f"{counted(self.purged, 'message')}")
            self.course.notice_signals(now)
            self.ask_for_more()
            if not self.was_drained:
                self.connection.exchange(self.silence_end)
            now = monotonic_ns()
        return 0

    cdef int take_messages(self, int64_t now) except -1 nogil:
        """Discard the bytes that were read, and settle each complete message."""
        cdef amqp_event event = self.connection.next_event()
        cdef amqp_arrival_t *arrival = &self.connection.plane.arrival
        while event != AMQP_NOTHING:
            if event == AMQP_ARRIVAL:
                self.silence_end = now + self.course.patience
                if not arrival.more and not arrival.aborted:
                    self.purged += 1
                    if not arrival.settled:
                        self.connection.accept(
                            self.end.session, arrival.delivery_id, AMQP_CODE_ACCEPTED)
            event = self.connection.next_event()
        return 0

    cdef int ask_for_more(self) except -1 nogil:
        """Give a window of credit and drain it: the peer shows when it has no more (part 2.6.7)."""
        cdef int64_t credit = self.end.counts.credit
        if not self.drainable:
            if 2 * credit <= self.credit_window:
                self.connection.give_credit(
                    self.end, <uint32_t>(self.credit_window - credit), False)
            return 0
        if credit:
            return 0
        # `drained` is credit that the peer returned; messages have not used it. ActiveMQ Classic
        # returns it after each page of its queue: only a drain without a message counts.
        self.was_drained = self.end.counts.drained > 0 and self.purged == self.drained_at
        self.end.counts.drained = 0
        if not self.was_drained:
            self.drained_at = self.purged
            self.connection.give_credit(self.end, <uint32_t>self.credit_window, True)
        return 0
