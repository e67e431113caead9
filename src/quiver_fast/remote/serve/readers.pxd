# The open files that all tailers of a queue share.

from libc.stdint cimport int64_t

from quiver_fast.queuefile.tailer cimport Step

cdef enum:
    # Files of one queue that are open for reading at a time.
    MAX_READERS = 4
    FAILURE_SIZE = 256

# Where a tailer stands in the files.
cdef struct Cursor:
    bint counted        # among those that keep the files open
    int64_t cycle
    int64_t index       # that the document at `at` has
    size_t at           # 0: it has not read yet

cdef class Readers:
    cdef object directory
    cdef int shift
    # queuefile.tailer.Tailer, the one used last first.
    cdef void *readers[MAX_READERS]
    cdef int count
    # Cursors that have read and were not released.
    cdef int cursors
    cdef char failure[FAILURE_SIZE]

    # What is read stays valid until the next call; `failure` says why a step failed.
    cdef Step read(self, Cursor *cursor, int64_t index, const char **start, size_t *size,
                   int64_t *found) noexcept nogil
    cdef void release(self, Cursor *cursor) noexcept nogil

    cdef void *reader_in(self, int64_t cycle) noexcept nogil
    cdef bint add_reader(self) noexcept nogil
    cdef void fail(self, const char *reason) noexcept nogil
    cdef void keep(self, int most) noexcept nogil
