from quiver_fast.server.model.structures cimport Queue

cdef void queue_dispatch(Queue *queue) noexcept nogil
