from libc.stdint cimport uint64_t

from quiver_fast.proton.libproton cimport pn_link_t
from quiver_fast.server.structures cimport Link, LinkKind, Peer

cdef Link *link_new(Peer *peer, pn_link_t *link, LinkKind kind, size_t size) noexcept nogil
cdef void link_delete(Link *link) noexcept nogil
cdef void write_name(const char *prefix, uint64_t number, char *out) noexcept nogil
cdef bint is_usable(Peer *peer) noexcept nogil
cdef bint same_server(Peer *one, Peer *other) noexcept nogil

# Room for a name of write_name.
cdef enum:
    NAME_MAX = 64
