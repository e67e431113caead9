"""Names of links. Two containers have at most one link of a name and direction (part 2.6.1).

A client may connect again before this server notices that its connection is lost. The new link
gets the name, and the lost link ends.
"""

# The address of the Link by our container, the peer's container, role, and name.
cdef dict holders = {}


cdef tuple key_of(Peer *peer, const amqp_link_end_t *end):
    """Return the key of a link's name; a peer without a container id shares no names."""
    cdef const char *container = pn_connection_remote_container(peer.driver.connection)
    named = container != NULL and container[0] != 0
    return (
        <size_t>peer.container, <bytes>container if named else <size_t>peer, <int>end.role,
        (<const char *>end.name)[:end.name_size])


cdef Link *name_holder(Peer *peer, const amqp_link_end_t *end) except? NULL:
    """Return the link that holds the name of an attach; NULL if none does."""
    return <Link *><size_t>holders.get(key_of(peer, end), 0)


cdef Link *name_take(Link *link) except? NULL:
    """Give an attached link its name; return the link that held the name before, or NULL."""
    cdef Link *before = name_holder(link.peer, link.deliveries.end)
    holders[key_of(link.peer, link.deliveries.end)] = <size_t>link
    link._named = True
    return before


cdef void name_leave(Link *link) noexcept nogil:
    """Free the name of an ending link, unless another link holds it now."""
    if not link._named:
        return
    link._named = False
    with gil:
        key = key_of(link.peer, link.deliveries.end)
        if holders.get(key) == <size_t>link:
            del holders[key]
