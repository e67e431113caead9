"""Names of links. Two containers have one link of a name and direction at a time (part 2.6.1).

So a client that comes again before this server noticed that its connection is lost gets its
link, and the lost one ends.
"""

# Address of the Link, by container of ours, container of the peer, role, and name.
cdef dict holders = {}


cdef tuple key_of(Peer *peer, const amqp_link_end_t *end):
    """Return what names a link; a peer without a container id shares its names with nobody."""
    cdef const char *container = pn_connection_remote_container(peer.driver.connection)
    named = container != NULL and container[0] != 0
    return (
        <size_t>peer.container, <bytes>container if named else <size_t>peer, <int>end.role,
        (<const char *>end.name)[:end.name_size])


cdef Link *name_holder(Peer *peer, const amqp_link_end_t *end) except? NULL:
    """Return the link that has the name of an attach; NULL for none."""
    return <Link *><size_t>holders.get(key_of(peer, end), 0)


cdef Link *name_take(Link *link) except? NULL:
    """Have a link that was attached hold its name; return the one that held it before, or NULL."""
    cdef Link *before = name_holder(link.peer, link.deliveries.end)
    holders[key_of(link.peer, link.deliveries.end)] = <size_t>link
    link.named = True
    return before


cdef void name_leave(Link *link) noexcept nogil:
    """Free the name of a link that is about to be freed, unless another link holds it now."""
    if not link.named:
        return
    with gil:
        key = key_of(link.peer, link.deliveries.end)
        if holders.get(key) == <size_t>link:
            del holders[key]
