from quiver_fast.server.model.structures cimport Link, Queue

cdef void coordinator_receive(Link *link) noexcept nogil
cdef void coordinator_detached(Link *link) noexcept nogil
cdef void coordinators_resume(Queue *queue) noexcept nogil
