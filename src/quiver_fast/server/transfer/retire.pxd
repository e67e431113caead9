from quiver_fast.server.model.structures cimport Queue

cdef void queue_left(Queue *queue) noexcept nogil
cdef void queue_retire(Queue *queue) noexcept nogil
