"""Links that the server attaches for streams. Each has one stream at a time.

Peers that offer qd.streaming-links accept such links. A stream waits until the peer has answered
the attach and given credit. Each link has its own session, so an unread stream closes only its
own window. The links share a session if the peer has too few channels, or if the configuration
says so. An idle link is kept for the next stream.
"""

# The most superfluous idle links that are detached at a time.
cdef int POOL_STEP = 10

cdef const char *STREAM_LINK_NAME = b"quiver-stream-"


cdef Outlet *stream_outlet(Outlet *consumer, bint *later) noexcept nogil:
    """Return an idle link to the consumer's peer, or attach a new one; NULL if both fail.

    Args:
        later: set to whether a link may be possible after the peer's answer to our begin.
    """
    cdef Peer *peer = consumer.base.peer
    cdef Outlet *outlet
    if peer.neighbour != NULL:
        peer = least_busy_peer(peer)
    outlet = idle_outlet(peer)
    later[0] = outlet == NULL and awaits_begin(peer)
    if later[0] or outlet == NULL and peer.own_links >= peer.container.limits.links:
        return NULL
    if outlet == NULL:
        outlet = attach_stream_link(peer)
    else:
        pool_remove(outlet)
    if outlet != NULL:
        peer.stream_count += 1
    return outlet


cdef Peer *least_busy_peer(Peer *trunk) noexcept nogil:
    """Return the connection to a trunk's server that has the fewest streams.

    Connections that cannot have a link with its own session come last.
    """
    cdef Peer *best = trunk
    cdef Peer *peer = trunk.neighbour.trunks
    while peer != NULL:
        if is_usable(peer) and is_better(peer, best):
            best = peer
        peer = peer.next_trunk
    return best


cdef bint is_better(Peer *peer, Peer *best) noexcept nogil:
    if has_link(peer) != has_link(best):
        return has_link(peer)
    return peer.stream_count < best.stream_count


cdef bint has_link(Peer *peer) noexcept nogil:
    return peer.idle_first != NULL or has_channel(peer)


cdef Outlet *idle_outlet(Peer *peer) noexcept nogil:
    """Return the pool's first link that can send at once; NULL if a new one is to be attached.

    If many links of the peer are unanswered, unread or without credit, return one of those.
    """
    cdef Outlet *outlet = peer.idle_first
    while outlet != NULL and not can_send(outlet):
        outlet = outlet.next_idle
    if outlet == NULL and (
            peer.idle_count >= POOL_MAX or peer.own_links >= peer.container.limits.links):
        return peer.idle_first
    return outlet


cdef bint can_send(const Outlet *outlet) noexcept nogil:
    # A shared window tells nothing about this link.
    cdef const amqp_link_end_t *end = outlet.base.deliveries.end
    return end != NULL and end.counts.credit > 0 and (
        not outlet.base.owns_session or end.session.counts.remote_incoming_window > 0)


cdef Outlet *attach_stream_link(Peer *peer) noexcept nogil:
    """Attach as a sender whose source and target have no addresses and end with the link."""
    cdef bint own
    cdef pn_session_t *session = session_for(peer, &own)
    cdef char[NAME_MAX] name
    cdef pn_link_t *link
    cdef Outlet *outlet
    if session == NULL:
        return NULL
    write_name(STREAM_LINK_NAME, peer.container.next_serial + 1, name)
    link = pn_sender(session, name)
    pn_terminus_set_expiry_policy(pn_link_source(link), PN_EXPIRE_WITH_LINK)
    outlet = <Outlet *>link_new(peer, link, OUTLET, STREAMS_TO_PEER, sizeof(Outlet))
    if outlet == NULL:
        if own:
            session_close(session)
        return NULL
    outlet.base.owns_session = own
    outlet.consumer.outlet = outlet
    pn_link_open(link)
    link_opened(&outlet.base)
    peer_dirty(peer)
    return outlet


cdef void trim_pool(Peer *peer) noexcept nogil:
    """Detach some idle links of a peer that has more than it is likely to use."""
    cdef Outlet *outlet = peer.idle_first
    cdef Outlet *following
    cdef int count = 0
    while peer.idle_count > POOL_MAX and outlet != NULL and count < POOL_STEP:
        following = outlet.next_idle
        # The outcome of the link's last stream may still come.
        if outlet.base.deliveries.first == NULL:
            pool_remove(outlet)
            # When the peer answers, server.protocol.events frees link and session.
            pn_link_close(outlet.base.link)
            if outlet.base.owns_session:
                session_close(outlet.base.session)
            peer_dirty(peer)
            count += 1
        outlet = following
