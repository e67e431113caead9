from quiver_fast.amqp.data_plane cimport amqp_delivery_t
from quiver_fast.server.model.structures cimport Container, Link

cdef bint accept_later(Link *link, amqp_delivery_t *delivery) noexcept nogil
cdef void forget_pending(Link *link) noexcept nogil
cdef void settle_pending(Container *container, bint good) noexcept nogil
