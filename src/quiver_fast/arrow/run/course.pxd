from libc.stdint cimport int64_t, uint64_t

from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.records.writer cimport RecordWriter
from quiver_fast.arrow.run.control cimport Control
from quiver_fast.arrow.run.pacer cimport Pacer, Schedule

cdef enum:
    # What `turn` returns of an end that has nothing more to do.
    OVER = -2

cdef class Limits:
    cdef readonly int64_t count
    cdef readonly int64_t duration_ns
    # When messages are due; None for as fast as can be.
    cdef readonly Pacer pacer
    cdef readonly int64_t run_start_ms
    # Added to the monotonic clock it gives the run's wall clock, in nanoseconds.
    cdef readonly int64_t clock_base
    cdef readonly Control control
    # What a user is told at the end of the run.
    cdef readonly list warnings


cdef class Course:
    cdef RecordWriter writer
    cdef Limits limits
    cdef Control control
    # Of a sender; None for as fast as can be.
    cdef Schedule schedule
    cdef int64_t time_divisor
    cdef int64_t clock_base
    # SendTimes of this run are at least `run_start`, and not further from it than `run_span`.
    cdef int64_t run_start
    cdef uint64_t run_span
    # The start that was given, before a wall clock that was set back moved it.
    cdef int64_t given_start
    # Messages that may share one reading of the clock.
    cdef int clock_block
    cdef readonly bint stopping
    # When the run was over (monotonic ns), before what was on its way; 0 before that.
    cdef int64_t stopped_at
    # Number of the signal that ended the run early, or 0.
    cdef readonly int interrupted
    # When the clock of the run began, and when its duration is over; 0 and never before that.
    cdef int64_t started
    cdef int64_t deadline
    # When to look next at what the wrapper says, if nothing wakes us before.
    cdef int64_t next_read
    cdef int64_t next_flush
    # How long to wait for what is still on its way, and until when.
    cdef int64_t patience
    cdef int64_t drain_deadline

    cdef inline int64_t wall_time(self) noexcept nogil:
        # In the run's unit. The system's wall clock may be set meanwhile.
        return (monotonic_ns() + self.clock_base) // self.time_divisor

    cdef inline bint is_timely(self, int64_t send_time) noexcept nogil:
        # One comparison: not before the start, and not in a finer unit than ours.
        return <uint64_t>send_time - <uint64_t>self.run_start <= self.run_span

    cdef int loop(self) except -1 nogil
    cdef int take_input(self) except -1 nogil
    cdef int64_t turn(self, int64_t now) except? -1 nogil
    cdef int await_input(self, int64_t wake) except -1 nogil
    cdef int64_t send_time(self, int64_t index) noexcept nogil
    cdef bint is_timely_by_wall(self, int64_t send_time) noexcept nogil
    cdef bint is_older(self, int64_t send_time) noexcept nogil
    cdef int prepare_clock(self) noexcept nogil
    cdef int start_clock(self) noexcept nogil
    cdef int join_clock(self, int64_t start) noexcept nogil
    cdef bint time_is_over(self, int64_t now) noexcept nogil
    cdef bint near_the_end(self, int64_t now) noexcept nogil
    cdef bint is_over(self, int64_t now, int64_t transferred) noexcept nogil
    cdef int start_draining(self, int64_t now) except -1 nogil
    cdef int notice(self, int64_t now) except -1 nogil
    cdef int notice_signals(self, int64_t now) except -1 nogil
    cdef int notice_wrapper(self, int64_t now) noexcept nogil
    cdef int flush_records(self, int64_t now) except -1 nogil
    cdef int record_progress(self) except -1 nogil


cdef int64_t next_flush_after(int64_t now) noexcept nogil
cdef int64_t flush_and_report(RecordWriter writer, Control control) except -1 nogil
