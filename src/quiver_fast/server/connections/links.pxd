from libc.stdint cimport uint64_t

from quiver_fast.proton.libproton cimport pn_link_t, pn_session_get_context, pn_session_t
from quiver_fast.server.model.structures cimport Inlet, Link, LinkKind, Peer, Session

cdef inline Session *session_of(pn_session_t *session) noexcept nogil:
    return <Session *>pn_session_get_context(session)

cdef Link *link_new(Peer *peer, pn_link_t *link, LinkKind kind, size_t size) noexcept nogil
cdef void link_delete(Link *link) noexcept nogil
cdef void link_abandon(Link *link) noexcept nogil
cdef bint awaits_begin(Peer *peer) noexcept nogil
cdef pn_session_t *session_for(Peer *peer, bint *own) noexcept nogil
cdef Session *session_new(Peer *peer, pn_session_t *session, bint own) noexcept nogil
cdef void session_delete(Peer *peer, Session *session) noexcept nogil
cdef void stream_inlet(Inlet *inlet) noexcept nogil
cdef void open_session(const Peer *peer, pn_session_t *session) noexcept nogil
cdef int stream_window(const Peer *peer) noexcept nogil
cdef void fit_session(const Session *session) noexcept nogil
cdef void widen_session(Inlet *inlet) noexcept nogil
cdef bint has_channel(Peer *peer) noexcept nogil
cdef size_t channels(Peer *peer) noexcept nogil
cdef void write_name(const char *prefix, uint64_t number, char *out) noexcept nogil
cdef bint is_usable(Peer *peer) noexcept nogil
cdef bint same_server(Peer *one, Peer *other) noexcept nogil

# Room for a name of write_name.
cdef enum:
    NAME_MAX = 64
