from libc.stdint cimport uint64_t

from quiver_fast.server.model.structures cimport Entry, Lane

cdef void lane_append(Lane *lane, Entry *entry) noexcept nogil
cdef void lane_return(Lane *lane, Entry *entry) noexcept nogil
cdef void lane_remove(Lane *lane, Entry *entry) noexcept nogil
cdef Entry *lane_after(const Lane *lane, uint64_t sequence) noexcept nogil
cdef Entry *lane_find(const Lane *lane, uint64_t sequence) noexcept nogil
