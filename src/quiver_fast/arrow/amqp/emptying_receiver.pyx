"""A receiver that ends when its queue is empty."""

from libc.stdint cimport INT64_MAX, int64_t, uint32_t

from quiver_fast.arrow.amqp.link cimport OVER
from quiver_fast.arrow.amqp.receiver cimport Receiver


cdef class EmptyingReceiver(Receiver):
    """Receive window by window, each with a drain, until the peer gives all of one back.

    A peer that answers no drain has no more when it is silent; `queue_empty` is not true then.
    """

    # The queue was seen to be empty.
    cdef bint emptied
    # Messages taken when that last changed, and when the peer has been silent for too long.
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
            self.silence_end = now + self.patience
        wake = Receiver.turn(self, now)
        if wake == OVER or self.stopping:
            return wake
        return now if self.emptied else min(wake, self.silence_end)

    cdef bint is_over(self, int64_t now) noexcept nogil:
        return self.emptied or now >= self.silence_end or Receiver.is_over(self, now)

    cdef int start_draining(self, int64_t now) except -1 nogil:
        """End at once where the last drain has proven that there is no more."""
        if not self.emptied:
            return Receiver.start_draining(self, now)
        self.stopping = self.was_drained = True
        self.drain_deadline = now
        return 0

    cdef int top_up(self) except -1 nogil:
        """Have the peer send a window of messages, and say when it has none (part 2.6.7)."""
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
        if self.limits.count:
            more = min(more, self.limits.count - self.received)
        return self.connection.give_credit(self.end, <uint32_t>more, True) if more > 0 else 0
