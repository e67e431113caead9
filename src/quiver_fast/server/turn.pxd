from quiver_fast.loop.reactor cimport Hook
from quiver_fast.server.addresses.addresses cimport Broker

cdef class Turn:
    cdef Broker broker
    cdef Hook hook

    cdef int cut(self) except -1
