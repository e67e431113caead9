from libc.stdint cimport int64_t, uint8_t

from quiver_fast.amqp.data_plane cimport amqp_arrival_t

cdef class Backlog:
    cdef uint8_t *memory
    cdef size_t capacity
    # The bytes that were put and not taken.
    cdef size_t begin
    cdef size_t end
    cdef readonly int64_t frames
    # Those that begin a message.
    cdef readonly int64_t messages

    cdef int put(self, const amqp_arrival_t *arrival) except -1 nogil
    cdef int make_room(self, size_t size) except -1 nogil
    cdef int take(self, amqp_arrival_t *arrival) noexcept nogil
