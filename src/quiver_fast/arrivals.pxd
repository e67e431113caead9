from libc.stdint cimport int64_t, uint64_t


cdef struct Cursor:
    # A message, and its position.
    int64_t index
    int64_t position


cdef class Arrivals:
    cdef uint64_t base
    # The position of the first message.
    cdef int64_t first
    # The last message that was asked for, and the first one after the last position.
    cdef Cursor asked
    cdef Cursor next

    cdef int64_t gap(self, int64_t index) noexcept nogil
    cdef int64_t position_of(self, int64_t index) noexcept nogil
    cdef int64_t count(self, int64_t position) noexcept nogil
