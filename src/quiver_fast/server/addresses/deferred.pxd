from quiver_fast.server.addresses.broker cimport Broker, Delay
from quiver_fast.server.model.structures cimport Link

cdef class Deferred:
    # NULL when it is gone.
    cdef Link *link
    cdef Delay delay

cdef Deferred defer(Broker broker, Link *link)
cdef void deferred_ended(Link *link, bint closed) noexcept nogil
cdef void deferred_left(Link *link) noexcept nogil
cdef int go_on(Broker broker, Deferred deferred, bytes why) except -1
