from libc.stdint cimport int64_t, uint64_t

from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.queuefile.tailer cimport Tailer

# The marks of a transaction's beginning and end.
cpdef enum Mark:
    MARK_NONE
    MARK_BEGIN
    MARK_COMMIT
    MARK_ROLLBACK

cdef class LiveEntries:
    cdef Tailer tailer
    cdef object directory
    cdef readonly dict[int, bytearray] removed
    cdef readonly dict[int, int] oldest
    cdef readonly Mark owed
    # The first index of the transaction that is being read; -1 outside of one.
    cdef int64_t open_from
    # The last entry that was read; and the number of entries of files that were read, by cycle.
    cdef int64_t last
    cdef dict counts
    # The notes that name no entry before them.
    cdef int64_t damaged
    # The removals of the transaction, and its id and queue.
    cdef list tentative
    cdef object prepared
    # The documents of states, in order.
    cdef object noted
    cdef readonly dict[int, tuple[int, int]] states

    cdef bint is_removed(self, int64_t index) except -1
    cdef bint next(self, const char **start, size_t *size, int64_t *index) except -1
    cdef bint next_meta(
        self, const char **start, size_t *size, int64_t *index, bint *meta) except -1
    cdef int note_count(self) except -1
    cdef int64_t sequence_of(self, uint64_t index) noexcept
    cdef bint names_entries(self, uint64_t first, uint64_t last, int64_t cycle) except -1
    cdef int mark(self, int64_t cycle, int64_t first, int64_t last) except -1
    cdef int take_state(self, const char *start, int64_t cycle) except -1
    cdef int take_note(self, const char *start, size_t size, int64_t index) except -1
    cdef int take_ranges(self, const char *start, size_t size, int64_t cycle) except -1

cdef int write_removals(Appender appender, const uint64_t *indexes, size_t count) noexcept nogil
cdef bint hold_file(Appender appender, int64_t entries) noexcept nogil
cdef void let_file_go(Appender appender) noexcept nogil
cdef int write_mark(Appender appender, Mark mark) noexcept nogil
cdef int write_prepared(
    Appender appender, uint64_t id, const char *home, size_t size) noexcept nogil
cdef int write_decision(Appender appender, uint64_t id) noexcept nogil
cdef int write_state(
    Appender appender, uint64_t index, uint64_t end, uint64_t failures) noexcept nogil
cdef int set_bits(bytearray bits, int64_t first, int64_t last) except -1
