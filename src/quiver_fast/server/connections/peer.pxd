from quiver_fast.proton.libproton cimport pn_condition_t, pn_delivery_t
from quiver_fast.server.model.structures cimport Container, Link, Peer

cdef bint peer_read(Peer *peer) noexcept nogil
cdef int peer_clear_socket(const Peer *peer) noexcept nogil
cdef bint peer_has_rest(const Peer *peer) noexcept nogil
cdef bint wants_input(const Peer *peer) noexcept nogil
cdef void peer_write(Peer *peer) noexcept nogil
cdef void peer_flush(Peer *peer) noexcept nogil
cdef void peer_close(Peer *peer, const char *condition, const char *description) noexcept nogil
cdef void peer_refuse(Peer *peer, const char *condition, const char *description) noexcept nogil
cdef void peer_cut(Peer *peer) noexcept nogil
cdef bint peer_finished(Peer *peer) noexcept nogil
cdef void set_condition(
    pn_condition_t *condition, const char *name, const char *description) noexcept nogil
cdef void link_refuse(Link *link, const char *name, const char *description) noexcept nogil
cdef void delivery_reject(
    pn_delivery_t *delivery, const char *name, const char *description) noexcept nogil
