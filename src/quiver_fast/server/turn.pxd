from quiver_fast.server.broker cimport Broker
from quiver_fast.server.reactor cimport Hook

cdef class Turn:
    cdef Broker broker
    cdef Hook hook

    cdef int cut(self) except -1
