"""The record of a link: made at attach, found through the engine's context, freed at detach."""

from libc.stdint cimport uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport strcmp

from quiver_fast.proton.libproton cimport (
    PN_LOCAL_ACTIVE, PN_REMOTE_ACTIVE, pn_connection_remote_container, pn_connection_state,
    pn_decref, pn_incref, pn_link_free, pn_link_session, pn_link_set_context, pn_link_t,
)
from quiver_fast.server.structures cimport Link, LinkKind, Peer


cdef Link *link_new(Peer *peer, pn_link_t *link, LinkKind kind, size_t size) noexcept nogil:
    """Make what a link's context points to, in the list of its peer; NULL without memory.

    Args:
        size: of the kind's struct, which begins with a Link.
    """
    cdef Link *made = <Link *>calloc(1, size)
    if made == NULL:
        return NULL
    peer.container.next_serial += 1
    made.kind = kind
    made.link = link
    made.session = pn_link_session(link)
    made.peer = peer
    made.serial = peer.container.next_serial
    made.next = peer.links
    if peer.links != NULL:
        peer.links.prev = made
    peer.links = made
    peer.link_count += 1
    # Without a reference of ours each delivery moves the counts of link, session and
    # connection between zero and one.
    pn_incref(link)
    pn_link_set_context(link, made)
    return made


cdef void link_delete(Link *link) noexcept nogil:
    """Free a link's record and our hold on the engine's link, which was closed."""
    cdef Peer *peer = link.peer
    cdef pn_link_t *engine_link = link.link
    if link.prev != NULL:
        link.prev.next = link.next
    else:
        peer.links = link.next
    if link.next != NULL:
        link.next.prev = link.prev
    peer.link_count -= 1
    free(link)
    pn_link_set_context(engine_link, NULL)
    pn_link_free(engine_link)
    pn_decref(engine_link)


cdef void write_name(const char *prefix, uint64_t number, char *out) noexcept nogil:
    """Write the name of a link that this server attaches, unique by its number."""
    snprintf(out, NAME_MAX, b"%s%llu", prefix, <unsigned long long>number)


cdef bint is_usable(Peer *peer) noexcept nogil:
    """Say whether the connection is open both ways, so that links can be attached."""
    return not (peer.dead or peer.cut) and (
        pn_connection_state(peer.driver.connection) == (PN_LOCAL_ACTIVE | PN_REMOTE_ACTIVE))


cdef bint same_server(Peer *one, Peer *other) noexcept nogil:
    """Say whether two trunk connections lead to the same server."""
    return one.trunk and other.trunk and strcmp(
        pn_connection_remote_container(one.driver.connection),
        pn_connection_remote_container(other.driver.connection)) == 0
