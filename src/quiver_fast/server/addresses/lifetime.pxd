from libc.stdint cimport uint8_t

from quiver_fast.proton.libproton cimport pn_terminus_t
from quiver_fast.server.model.structures cimport Inlet, Queue

# Lifetime policies by the last byte of their descriptors, parts 3.5.10 to 3.5.13.
cdef enum:
    DELETE_ON_CLOSE = 0x2B
    DELETE_ON_NO_LINKS = 0x2C
    DELETE_ON_NO_MESSAGES = 0x2D
    DELETE_ON_NO_LINKS_OR_MESSAGES = 0x2E

cdef int read_lifetime(pn_terminus_t *terminus) noexcept nogil
cdef void set_lifetime(Queue *queue, int lifetime, pn_terminus_t *ours) noexcept nogil
cdef void maker_left(Queue *queue) noexcept nogil
cdef void node_delete(Queue *queue) noexcept nogil
cdef void node_join(Inlet *inlet) noexcept nogil
cdef void node_leave(Inlet *inlet) noexcept nogil
