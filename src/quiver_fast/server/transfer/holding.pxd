from quiver_fast.server.model.structures cimport Inlet, Peer

cdef void peer_holds(Peer *peer) noexcept nogil
cdef void inlet_holds(Inlet *inlet) noexcept nogil
