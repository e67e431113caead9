from libc.stdint cimport int64_t

from quiver_fast.queuefile.cyclefile cimport CycleFile

# What a walk through a cycle file found.
cdef struct Extent:
    # Where the next document goes, and the sequence it would have.
    size_t tail
    int64_t sequence
    # The last data document; 0 for none.
    size_t last
    # An end mark stands at the tail.
    bint ended
    # Bytes of the file were changed.
    bint changed

cdef int cycle_repair(
    CycleFile *file, Extent *extent, int64_t trusted, bint from_index) noexcept nogil
cdef int cycle_end(CycleFile *file, size_t tail) noexcept nogil
cdef int fallocate_all(int fd, size_t start, size_t end) noexcept nogil
