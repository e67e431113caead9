from libc.stdint cimport uint64_t

from quiver_fast.server.model.structures cimport Entry, Lane, Queue

cdef void entry_bar(Entry *entry, uint64_t serial) noexcept nogil
cdef bint lane_barred(const Lane *lane, uint64_t serial) noexcept nogil
cdef void lane_leave(Queue *queue, Lane *lane) noexcept nogil
cdef void lanes_forget(Queue *queue, uint64_t serial) noexcept nogil
