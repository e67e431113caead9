"""The course of a run, in whichever protocol: stop conditions, clock, flushing, signals."""

from libc.stdint cimport INT64_MAX, int64_t

from quiver_fast.engine.interrupt cimport pending_count, pending_signal
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.records.formats import UNITS_PER_SECOND

cdef int64_t SECOND = 1000000000
# A live wrapper polls the records every two seconds; half a second keeps it current.
cdef int64_t FLUSH_PERIOD = SECOND // 2
# Both ends of a run count its duration from the attach, a network apart.
cdef int64_t END_TOLERANCE = SECOND
# After a signal: how long to wait for what is still on its way.
cdef int64_t SIGNAL_TIMEOUT = SECOND
# In a burst 16 messages take about 5 us, which changes no digit of a millisecond.
cdef int CLOCK_BLOCK = 16


cdef class Limits:
    """When a run ends, and how fast it goes.

    Args:
        count: messages to transfer; 0 for no limit.
        duration: seconds to run, from the attach; 0 for no limit.
        rate: messages per second of the open-loop schedule; 0 for as fast as can be.
    """

    def __init__(self, *, count: int = 0, duration: float = 0, rate: int = 0) -> None:
        self.count = count
        self.duration_ns = <int64_t>(duration * SECOND)
        self.rate = rate


cdef class Course:
    """When a run goes on and when it ends.

    Args:
        writer: where the records go.
        limits: when to stop.
        time_unit: ``ms``, ``us`` or ``ns``, of send times and of the records.
    """

    def __init__(self, writer: RecordWriter, limits: Limits, time_unit: str) -> None:
        self.writer = writer
        self.limits = limits
        self.time_divisor = SECOND // UNITS_PER_SECOND[time_unit]
        self.clock_block = CLOCK_BLOCK if time_unit == "ms" else 1
        self.drain_deadline = INT64_MAX

    cdef int start_clock(self) noexcept nogil:
        self.started = monotonic_ns()
        self.deadline = INT64_MAX
        if self.limits.duration_ns:
            self.deadline = self.started + self.limits.duration_ns
        self.next_flush = self.started + FLUSH_PERIOD
        return 0

    cdef bint time_is_over(self, int64_t now) noexcept nogil:
        return now >= self.deadline

    cdef bint near_the_end(self, int64_t now) noexcept nogil:
        """Say whether a peer with the same duration may rightly have ended already."""
        return self.limits.duration_ns != 0 and now >= self.deadline - END_TOLERANCE

    cdef int start_draining(self, int64_t now) noexcept nogil:
        """Begin to end the run; each end says what it waits for."""
        self.stopping = True
        return 0

    cdef int notice_signals(self, int64_t now) noexcept nogil:
        """Begin to end at a signal; at the second end at once."""
        if pending_count() == 0:
            return 0
        if self.interrupted == 0:
            self.interrupted = pending_signal()
            self.start_draining(now)
            self.drain_deadline = now + SIGNAL_TIMEOUT
        elif pending_count() > 1:
            self.drain_deadline = now
        return 0

    cdef int flush_records(self, int64_t now) except -1 nogil:
        if now >= self.next_flush:
            self.tell_progress()
            self.writer.flush()
            self.next_flush = now + FLUSH_PERIOD
        return 0

    cdef int tell_progress(self) except -1 nogil:
        """Record how far messages are that take longer than a flush."""
        return 0
