from quiver_fast.server.structures cimport Link

cdef void coordinator_receive(Link *link) noexcept nogil
cdef void coordinator_detached(Link *link) noexcept nogil
