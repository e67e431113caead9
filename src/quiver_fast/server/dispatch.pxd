from quiver_fast.server.structures cimport Queue

cdef void queue_dispatch(Queue *queue) noexcept nogil
