from quiver_fast.amqp.data_plane cimport amqp_bytes_t, amqp_delivery_t, amqp_hold_t
from quiver_fast.proton.libproton cimport pn_condition_t
from quiver_fast.server.model.structures cimport Container, Link, Peer

cdef bint peer_read(Peer *peer) noexcept nogil
cdef void peer_feed(Peer *peer, amqp_bytes_t bytes) noexcept nogil
cdef void peer_drain(Peer *peer) noexcept nogil
cdef void peer_lend(Peer *peer) noexcept nogil
cdef void peer_lend_output(Peer *peer) noexcept nogil
cdef void peer_return(Peer *peer) noexcept nogil
cdef bint peer_has_rest(const Peer *peer) noexcept nogil
cdef bint wants_input(const Peer *peer) noexcept nogil
cdef void peer_write(Peer *peer) noexcept nogil
cdef void peer_flush(Peer *peer) noexcept nogil
cdef void peer_borrows(Peer *peer) noexcept nogil
cdef void borrowers_settle(Container *container) noexcept nogil
cdef void peer_keep(Peer *peer, const amqp_hold_t *hold) noexcept nogil
cdef void peer_close(Peer *peer, const char *condition, const char *description) noexcept nogil
cdef void peer_refuse(Peer *peer, const char *condition, const char *description) noexcept nogil
cdef void peer_cut(Peer *peer) noexcept nogil
cdef bint peer_finished(Peer *peer) noexcept nogil
cdef void set_condition(
    pn_condition_t *condition, const char *name, const char *description) noexcept nogil
cdef void link_refuse(Link *link, const char *name, const char *description) noexcept nogil
cdef void delivery_reject(
    amqp_delivery_t *delivery, const char *name, const char *description) noexcept nogil
