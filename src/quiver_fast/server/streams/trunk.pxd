from quiver_fast.server.model.structures cimport Container, Inlet, Peer, Queue

cdef void trunk_opened(Peer *peer) noexcept nogil
cdef void trunk_lost(Peer *peer) noexcept nogil
cdef void trunk_detached(Inlet *inlet) noexcept nogil
cdef void announce_all(Container *container) noexcept nogil
cdef void trunks_announce(Queue *queue) noexcept nogil
cdef void trunks_withdraw(Queue *queue) noexcept nogil
cdef void trunks_top_up(Queue *queue) noexcept nogil
