from libc.stdint cimport int64_t, uint64_t

cdef struct SizePart:
    uint64_t least
    # How many sizes it has.
    uint64_t span
    # Its messages in each block, and those that the present block has left.
    int64_t share
    int64_t left


cdef class Sizes:
    # Of all parts.
    cdef readonly uint64_t largest
    cdef SizePart *parts
    cdef int count
    cdef int64_t left
    cdef uint64_t state

    cdef uint64_t below(self, uint64_t limit) noexcept nogil
    cdef uint64_t next(self) noexcept nogil
