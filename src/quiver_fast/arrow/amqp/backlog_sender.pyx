"""A sender that fills a queue first, and then keeps its schedule.

    message 0 … backlog - 1            as fast as can be; SendTime is when it goes
    message backlog, backlog + 1, …    due by the schedule, which begins when the queue is filled
"""

from libc.stdint cimport INT64_MAX, int64_t

from quiver_fast.arrow.amqp.sender cimport Sender
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.arrow.run.pacer cimport Schedule


cdef class BacklogSchedule(Schedule):
    """A schedule that begins with the message after a backlog.

    Args:
        pacer, clock_base: see Schedule.
        backlog: how many messages go before it.
    """

    # Messages before it begins.
    cdef int64_t backlog

    def __init__(self, pacer, clock_base, backlog: int) -> None:
        super().__init__(pacer, clock_base)
        self.backlog = backlog

    cdef int64_t due(self, int64_t now) noexcept nogil:
        return self.backlog + (self.pacer.due(now - self.start) if self.start else 0)

    cdef int64_t send_time(self, int64_t index) noexcept nogil:
        cdef int64_t now
        if index >= self.backlog:
            return Schedule.send_time(self, index)
        now = monotonic_ns()
        if index == self.backlog - 1:
            self.begin(now)
        return now + self.clock_base

    cdef int64_t wake(self, int64_t index) noexcept nogil:
        return self.start + self.pacer.intended(index - self.backlog)


cdef class BacklogSender(Sender):
    """Send a backlog as fast as can be; then the duration and the schedule of the run begin.

    Args:
        backlog: how many messages; 1 or more.
        options: see Sender. There is a schedule, and no count.
    """

    cdef bint is_full

    def __init__(self, connection, writer, limits, *, backlog: int, **options: object) -> None:
        super().__init__(connection, writer, limits, **options)
        self.schedule = BacklogSchedule(self.limits.pacer, self.clock_base, backlog)

    cdef int start_clock(self) noexcept nogil:
        Sender.start_clock(self)
        if self.schedule.start == 0:
            self.deadline = INT64_MAX
        return 0

    cdef bint is_done(self, int64_t now) noexcept nogil:
        if not self.is_full and self.schedule.start:
            self.is_full = True
            self.started = self.schedule.start
            if self.limits.duration_ns:
                self.deadline = self.started + self.limits.duration_ns
        return Sender.is_done(self, now)
