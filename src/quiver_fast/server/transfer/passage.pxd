from libc.stdint cimport uint64_t

from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Inlet, Queue

cdef bint passage_write(Inlet *inlet, Queue *queue, Message *message) noexcept nogil
cdef bint passage_is_over(const Message *message) noexcept nogil
cdef bint passage_complete(Queue *queue, Message *message) noexcept nogil
cdef void passage_abort(Queue *queue, Message *message) noexcept nogil
cdef uint64_t passage_outcome(const Message *message) noexcept nogil
