from quiver_fast.server.model.structures cimport Peer

cdef bint claim_container(Peer *peer) noexcept nogil
cdef void refuse_container(Peer *peer) noexcept nogil
cdef void leave_container(Peer *peer) noexcept nogil
