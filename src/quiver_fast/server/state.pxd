from quiver_fast.server.message cimport Message
from quiver_fast.server.structures cimport Entry, Queue

cdef int restore_whole(Queue *queue, Message *message, dict states) except -1
cdef void note_failure(const Entry *entry) noexcept nogil
