from quiver_fast.amqp.data_plane cimport amqp_link_end_t
from quiver_fast.server.model.structures cimport Link, Peer

cdef Link *name_holder(Peer *peer, const amqp_link_end_t *end) except? NULL
cdef Link *name_take(Link *link) except? NULL
cdef void name_leave(Link *link) noexcept nogil
