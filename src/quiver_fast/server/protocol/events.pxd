from quiver_fast.server.addresses.broker cimport Delay
from quiver_fast.server.model.structures cimport Link, Peer

cdef void peer_process(Peer *peer) noexcept nogil
cdef void peer_forget_links(Peer *peer) noexcept nogil
cdef void go_on(Link *link, const Delay *delay) noexcept nogil
