from quiver_fast.amqp.data_plane cimport amqp_link_end_t
from quiver_fast.proton.libproton cimport pn_link_t
from quiver_fast.server.model.structures cimport Link, Peer

cdef void attach(Peer *peer, pn_link_t *link) noexcept nogil
cdef void displace(Peer *peer, amqp_link_end_t *end) noexcept nogil
cdef void refuse_late(Peer *peer, pn_link_t *link, const char *why) noexcept nogil
cdef bint closed_by_peer(Link *link) noexcept nogil
cdef void steal(Link *link) noexcept nogil
cdef void detach(Link *link, bint closed) noexcept nogil
cdef void detach_later(Link *link) noexcept nogil
