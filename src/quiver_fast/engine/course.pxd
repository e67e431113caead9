from libc.stdint cimport int64_t

from quiver_fast.records.writer cimport RecordWriter

cdef class Limits:
    cdef readonly int64_t count
    cdef readonly int64_t duration_ns
    cdef readonly int64_t rate


cdef class Course:
    cdef RecordWriter writer
    cdef Limits limits
    cdef int64_t time_divisor
    # Messages that may share one reading of the clock.
    cdef int clock_block
    cdef readonly bint stopping
    # Number of the signal that ended the run early, or 0.
    cdef readonly int interrupted
    cdef int64_t started
    cdef int64_t deadline
    cdef int64_t next_flush
    # When to stop waiting for what is still on its way.
    cdef int64_t drain_deadline

    cdef int start_clock(self) noexcept nogil
    cdef bint time_is_over(self, int64_t now) noexcept nogil
    cdef bint near_the_end(self, int64_t now) noexcept nogil
    cdef int start_draining(self, int64_t now) noexcept nogil
    cdef int notice_signals(self, int64_t now) noexcept nogil
    cdef int flush_records(self, int64_t now) except -1 nogil
    cdef int tell_progress(self) except -1 nogil
