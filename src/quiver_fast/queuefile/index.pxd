from libc.stdint cimport int64_t

from quiver_fast.queuefile.cyclefile cimport CycleFile

cdef size_t page_size(size_t at, int64_t count) noexcept nogil
cdef bint page_missing(const CycleFile *file, int64_t sequence) noexcept nogil
cdef size_t write_page(CycleFile *file, size_t at, int64_t sequence) noexcept nogil
cdef bint index_entry(CycleFile *file, int64_t sequence, size_t at) noexcept nogil
cdef bint link_page(CycleFile *file, size_t at, int64_t sequence) noexcept nogil
cdef bint trim_index(CycleFile *file, size_t tail, int64_t sequence) noexcept nogil
cdef bint set_long(CycleFile *file, size_t at, int64_t value) noexcept nogil
