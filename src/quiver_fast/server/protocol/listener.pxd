from libc.stdint cimport int64_t

from quiver_fast.loop.reactor cimport Hook, Watch
from quiver_fast.server.addresses.broker cimport Broker

# A listening descriptor, and a pause for when the process has no descriptors left.
cdef struct Acceptor:
    Watch watch
    Hook hook
    int epoll
    # When to accept again (monotonic ns); INT64_MAX while nothing keeps us from it.
    int64_t resume_at

cdef class Listener:
    cdef Broker broker
    cdef Acceptor acceptor
    cdef object sock
