from libc.stdint cimport int64_t

from quiver_fast.queuefile.cyclefile cimport CycleFile

cdef size_t page_size(size_t at, int64_t count) noexcept nogil
cdef bint page_missing(const CycleFile *file, int64_t sequence) noexcept nogil
cdef size_t write_page(CycleFile *file, size_t at, int64_t sequence) noexcept nogil
cdef void index_entry(CycleFile *file, int64_t sequence, size_t at) noexcept nogil
