from libc.stdint cimport int64_t

from quiver_fast.queuefile.cyclefile cimport CycleFile

# A place in a file, and the sequence of the entry there.
cdef struct Place:
    size_t at
    int64_t sequence

cdef bint last_entry(const CycleFile *file, Place *last) noexcept nogil
cdef bint find_rest(
    const CycleFile *file, Place damage, Place last, Place *rest) noexcept nogil
