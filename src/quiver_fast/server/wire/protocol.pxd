from quiver_fast.server.model.structures cimport Peer

cdef void peer_process(Peer *peer) noexcept nogil
cdef void peer_forget_links(Peer *peer) noexcept nogil
