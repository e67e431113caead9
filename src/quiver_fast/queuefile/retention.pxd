from libc.stdint cimport int64_t, uint64_t

from quiver_fast.queuefile.appender cimport Appender

# Notes about one cycle's file.
cdef class FileNotes:
    # A bit for each removed entry, and the number of set bits.
    cdef bytearray bits
    cdef int64_t removed
    # Number of entries in the file; -1 until they are counted, and always for the newest.
    cdef int64_t entries
    # The oldest cycle with an entry that a removal in this file removes.
    cdef int64_t oldest
    # Bytes of meta-data that entries in other files refer to, and that no entry refers to.
    cdef size_t held
    cdef size_t dead

    cdef bint remove(self, int64_t sequence) except -1

cdef class Retention:
    cdef Appender appender
    # Cycle -> FileNotes.
    cdef dict files
    # The size from which on the newest file is rolled, in bytes.
    cdef size_t roll_size
    cdef size_t roll_at

    cdef int note(self, const uint64_t *indexes, size_t count, int64_t writer) except -1
    cdef int hold(self, int64_t cycle, size_t size) except -1
    cdef int let_go(self, int64_t cycle, size_t size) except -1
    cdef int note_dead(self, int64_t cycle, size_t size) except -1
    cdef FileNotes notes_of(self, int64_t cycle)
    cdef bint large(self) noexcept nogil
