from libc.stdint cimport int64_t

from quiver_fast.engine.connection cimport Connection
from quiver_fast.engine.transaction cimport Coordinator
from quiver_fast.proton.libproton cimport pn_condition_t, pn_link_t, pn_session_t
from quiver_fast.records.writer cimport RecordWriter

cdef class Limits:
    cdef readonly int64_t count
    cdef readonly int64_t duration_ns
    cdef readonly int64_t rate


cdef class Endpoint:
    cdef Connection connection
    cdef RecordWriter writer
    cdef Limits limits
    # Transactions of this many messages; 0 and None when there are none.
    cdef int64_t batch_size
    cdef Coordinator coordinator
    cdef int64_t time_divisor
    # Messages that may share one reading of the clock.
    cdef int clock_block
    cdef pn_session_t *session
    cdef pn_link_t *link
    cdef bint is_sender
    cdef readonly str address
    cdef readonly str name
    cdef readonly bint stopping
    # Number of the signal that ended the run early, or 0.
    cdef readonly int interrupted
    cdef int64_t started
    cdef int64_t deadline
    cdef int64_t next_flush
    # When to stop waiting for what is still on its way.
    cdef int64_t drain_deadline

    cdef int open_session(self, int64_t deadline) except -1
    cdef int await_session(self, int64_t deadline) except -1
    cdef int attach_actively(self, int64_t deadline) except -1
    cdef int attach_passively(self, int64_t deadline) except -1
    cdef int answer(self, pn_link_t *link) except -1
    cdef int refuse(self, pn_link_t *link, const char *name, const char *why) noexcept
    cdef bint usable(self) noexcept nogil
    cdef int start_clock(self) noexcept nogil
    cdef bint closed_by_peer(self) except? -1 nogil
    cdef int fail_with(self, pn_condition_t *condition, str what) except -1
    cdef bint time_is_over(self, int64_t now) noexcept nogil
    cdef bint near_the_end(self, int64_t now) noexcept nogil
    cdef int start_draining(self, int64_t now) noexcept nogil
    cdef int notice_signals(self, int64_t now) noexcept nogil
    cdef int flush_records(self, int64_t now) except -1 nogil
