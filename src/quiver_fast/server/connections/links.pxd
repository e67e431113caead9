from libc.stdint cimport uint64_t

from quiver_fast.amqp.data_plane cimport AMQP_ACTIVE, AMQP_OURS, amqp_link_end_t
from quiver_fast.proton.libproton cimport pn_link_t, pn_session_get_context, pn_session_t
from quiver_fast.server.model.roles cimport STREAMS_TO_PEER, TRUNK_CONSUMER, LinkKind, LinkRole
from quiver_fast.server.model.structures cimport Inlet, Link, Peer, Session

cdef inline Session *session_of(pn_session_t *session) noexcept nogil:
    return <Session *>pn_session_get_context(session)

cdef inline bint attached_here(const Link *link) noexcept nogil:
    return link.role == STREAMS_TO_PEER or link.role == TRUNK_CONSUMER

cdef inline bint is_attached(const Link *link) noexcept nogil:
    """Say whether our attach went out, and our detach did not."""
    return link.deliveries.end != NULL and (
        link.deliveries.end.phase[<int>AMQP_OURS] == AMQP_ACTIVE)

cdef inline int credit_of(const Link *link) noexcept nogil:
    """Return the credit of a link that messages come by, with those that were not taken yet."""
    return <int>(link.deliveries.end.counts.credit + link.deliveries.untaken)

cdef Link *link_new(
    Peer *peer, pn_link_t *link, LinkKind kind, LinkRole role, size_t size) noexcept nogil
cdef amqp_link_end_t *link_end(pn_link_t *link) noexcept nogil
cdef void link_opened(Link *link) noexcept nogil
cdef void link_delete(Link *link) noexcept nogil
cdef void link_abandon(Link *link) noexcept nogil
cdef bint awaits_begin(Peer *peer) noexcept nogil
cdef pn_session_t *session_for(Peer *peer, bint *own) noexcept nogil
cdef Session *session_new(Peer *peer, pn_session_t *session, bint begun_here) noexcept nogil
cdef void session_delete(Peer *peer, Session *session) noexcept nogil
cdef void stream_inlet(Inlet *inlet) noexcept nogil
cdef void open_session(Peer *peer, pn_session_t *session) noexcept nogil
cdef void session_opened(Peer *peer, Session *session) noexcept nogil
cdef bint has_handle(const Session *session) noexcept nogil
cdef int stream_window(const Peer *peer) noexcept nogil
cdef void fit_session(Peer *peer, Session *session) noexcept nogil
cdef void widen_session(Inlet *inlet) noexcept nogil
cdef bint has_channel(Peer *peer) noexcept nogil
cdef size_t channels(Peer *peer) noexcept nogil
cdef void write_name(const char *prefix, uint64_t number, char *out) noexcept nogil
cdef bint is_usable(Peer *peer) noexcept nogil
cdef bint same_server(Peer *one, Peer *other) noexcept nogil

# Room for a name of write_name.
cdef enum:
    NAME_MAX = 64
