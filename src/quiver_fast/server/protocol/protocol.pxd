from libc.stdint cimport int64_t

import struct

from quiver_fast.loop.reactor cimport Hook, Watch
from quiver_fast.security.security cimport SaslExchange, Security
from quiver_fast.server.addresses.addresses cimport Broker, Delay
from quiver_fast.server.model.structures cimport Dial, Link, Peer

cdef void steal(Link *link) noexcept nogil

cdef void peer_process(Peer *peer) noexcept nogil
cdef void peer_forget_links(Peer *peer) noexcept nogil
cdef void go_on(Link *link, const Delay *delay) noexcept nogil

cdef void take_input(Peer *peer) noexcept nogil

cdef void report_refusal(Peer *peer) noexcept with gil

cdef class Connector:
    cdef Broker broker
    cdef Security security
    cdef SaslExchange exchange
    cdef object target
    cdef list addresses
    cdef size_t attempt
    # The sockets while they connect.
    cdef object race
    # When it gives them up (monotonic ns).
    cdef int64_t given_up
    cdef double delay
    # The last report, to report a state only once.
    cdef str said
    cdef Dial dial

    cdef int ended(self, Peer *peer) except -1

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
