from libc.stdint cimport int64_t

from quiver_fast.server.message cimport Message
from quiver_fast.server.structures cimport Entry, Queue

cdef bint is_raw(const char *start, size_t size) noexcept nogil
cdef int restore_message(
    Queue *queue, const char *start, size_t size, int64_t index, dict states) except -1
cdef int restore_whole(Queue *queue, Message *message, dict states) except -1
cdef void note_failure(const Entry *entry) noexcept nogil
