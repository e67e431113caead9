cimport cython
from libc.stdint cimport int64_t, uint64_t

from quiver_fast.arrow.run.control cimport Control
from quiver_fast.arrow.run.delays cimport Delays
from quiver_fast.arrow.run.pacer cimport Pacer, Schedule, SteppedPacer
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.records.writer cimport RecordWriter

cdef enum:
    # What `turn` of an endpoint returns at the end of the run.
    OVER = -2

cdef class Limits:
    cdef readonly int64_t count
    cdef readonly int64_t duration_ns
    # When messages are due; None for as fast as can be.
    cdef readonly Pacer pacer  # type: Pacer | None
    # Of messages at random distances: the rates, seed and stream; else None.
    cdef SteppedPacer steps
    cdef object arrivals
    cdef readonly int64_t run_start_ms
    # Nanoseconds from the monotonic clock to the run's wall clock.
    cdef readonly int64_t clock_base
    cdef readonly Control control
    # Warnings for the user at the end of the run.
    cdef readonly list[str] warnings
    # Of all messages of the process; None for as fast as can be.
    cdef readonly Delays delays  # type: Delays | None
    # A lost connection does not end the run, also at its end.
    cdef readonly bint reconnects

    cdef Pacer arrivals_at(self, int64_t number, int64_t ends)


@cython.final
cdef class Course:
    cdef Limits limits
    cdef Control control
    # Of a sender; None for as fast as can be.
    cdef Schedule schedule
    cdef int64_t time_divisor
    cdef int64_t clock_base
    # SendTimes of this run are from `run_start` to `run_start` + `run_span`.
    cdef int64_t run_start
    cdef uint64_t run_span
    # `run_start` as it was given; a wall clock that is set back moves `run_start`.
    cdef int64_t given_start
    # Messages that may share one reading of the clock.
    cdef int clock_block
    cdef bint stopping
    # When the run was over and draining began (monotonic ns); 0 before.
    cdef int64_t stopped_at
    # Number of the signal that ended the run early, or 0.
    cdef readonly int interrupted
    # When the clock of the run started, and the end of its duration; before that 0 and INT64_MAX.
    cdef int64_t started
    cdef int64_t deadline
    # When to read the control socket next.
    cdef int64_t next_read
    cdef int64_t next_flush
    # How long draining may take, and until when.
    cdef int64_t patience
    cdef int64_t drain_deadline

    cdef inline int64_t wall_time(self) noexcept nogil:
        # In the run's unit. Steps of the system's wall clock do not change it.
        return (monotonic_ns() + self.clock_base) // self.time_divisor

    cdef inline bint is_timely(self, int64_t send_time) noexcept nogil:
        # One comparison: not before the start, and not in a finer unit than ours.
        return <uint64_t>send_time - <uint64_t>self.run_start <= self.run_span

    cdef int follow_schedule(self) except -1
    cdef int64_t send_time(self, int64_t index) noexcept nogil
    cdef bint is_timely_by_wall(self, int64_t send_time) noexcept nogil
    cdef bint is_older(self, int64_t send_time) noexcept nogil
    cdef int prepare_clock(self) noexcept nogil
    cdef int start_clock(self) noexcept nogil
    cdef int begin_at(self, int64_t start) noexcept nogil
    cdef int join_clock(self, int64_t start) noexcept nogil
    cdef bint near_the_end(self, int64_t now) noexcept nogil
    cdef bint is_over(self, int64_t now, int64_t transferred) noexcept nogil
    cdef int start_draining(self, int64_t now) noexcept nogil
    cdef bint notice(self, int64_t now, RecordWriter writer) except? -1 nogil
    cdef bint notice_signals(self, int64_t now) noexcept nogil


cdef int64_t flush_and_report(RecordWriter writer, Control control) except -1 nogil
