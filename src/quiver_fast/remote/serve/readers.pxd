# The open files that all tailers of a queue share.

from libc.stdint cimport int64_t

from quiver_fast.queuefile.tailer cimport Step

cdef enum:
    # The most files of one queue that are open for reading.
    MAX_READERS = 4
    FAILURE_SIZE = 256

# The position of a tailer in the files.
cdef struct Cursor:
    bint counted        # as a user of the open files
    int64_t cycle
    int64_t index       # of the document at `at`
    size_t at           # 0: it has not read yet

cdef class Readers:
    cdef object directory
    cdef int shift
    # queuefile.tailer.Tailer, the last used first.
    cdef void *readers[MAX_READERS]
    cdef int count
    # Number of cursors that have read and are not released.
    cdef int cursors
    cdef char failure[FAILURE_SIZE]

    # Entries stay valid until the next call; `failure` has the reason of a failed step.
    cdef Step read(self, Cursor *cursor, int64_t index, const char **start, size_t *size,
                   int64_t *found) noexcept nogil
    cdef void release(self, Cursor *cursor) noexcept nogil

    cdef void *reader_in(self, int64_t cycle) noexcept nogil
    cdef bint add_reader(self) noexcept nogil
    cdef void fail(self, const char *reason) noexcept nogil
    cdef void keep(self, int most) noexcept nogil
