from libc.stdint cimport int64_t

from quiver_fast.server.model.structures cimport Peer, Timer

cdef void declare_dead(Peer *peer) noexcept nogil
cdef void peer_ring(Timer *timer, int64_t now) noexcept nogil
