from libc.stdint cimport int64_t

from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Consumer, Entry, Queue

cdef void selective_join(Queue *queue, Consumer *consumer) noexcept nogil
cdef void selective_leave(Queue *queue, Consumer *consumer) noexcept nogil
cdef void selective_returned(Queue *queue, Entry *entry) noexcept nogil
cdef Entry *selective_next(Consumer *consumer, int64_t *budget) noexcept nogil
cdef bint wants(const Consumer *consumer, const Message *message) noexcept nogil
cdef bint is_unwanted(const Queue *queue, const Message *message) noexcept nogil
