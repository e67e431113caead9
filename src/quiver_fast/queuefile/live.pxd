from libc.stdint cimport int64_t, uint64_t

from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.queuefile.tailer cimport Tailer

cdef class LiveEntries:
    cdef Tailer tailer
    cdef object directory
    # Bit maps of removed sequences, by cycle.
    cdef dict removed
    # The first index of a transaction that was begun and not ended; -1 for none.
    cdef readonly int64_t torn_from
    cdef readonly int64_t torn_to

    cdef bint next(self, const char **start, size_t *size, int64_t *index) except -1
    cdef int take_note(self, const char *start, size_t size, int64_t index) except -1

cdef int write_removals(Appender appender, const uint64_t *indexes, size_t count) noexcept nogil
cdef int write_mark(Appender appender, bint begin) noexcept nogil
