"""Trunks: connections between servers, by which each serves the other's consumers.

While an address has consumers here, this server attaches to the address on each known server,
like any consumer. That announces the consumers. The other server sends messages of the address if
it has no consumers of its own. For streams it attaches links on any of the connections between
the two servers. Trunks are not announced as consumers, and streams and topics' messages from a
trunk never leave by another trunk, so nothing goes in circles. A message in a queue leaves by a
trunk only when the last consumer here has left.

    producer ─> server ──[ link of the address: small messages ]──> server ─> consumer
                       ──[ link for a stream, with its route   ]──>
"""

cdef const char *TRUNK_LINK_NAME = b"quiver-trunk-"


cdef void trunk_opened(Peer *peer) noexcept nogil:
    """Begin to exchange addresses when another server has sent its open frame."""
    cdef Container *container = peer.container
    if not peer.trunk:
        if peer.dial != NULL:
            peer_close(peer, b"amqp:not-allowed",
                       b"it is no pyfast server, or its key trunks does not name this server")
        return
    if is_ourselves(peer):
        peer.trunk = False
        peer_close(peer, b"amqp:not-allowed", b"this server is connected to itself")
        return
    list_push(&container.trunks, peer, &peer.prev_trunk, &peer.next_trunk)
    announce_all(container)


cdef bint is_ourselves(Peer *peer) noexcept nogil:
    cdef const char *theirs = pn_connection_remote_container(peer.driver.connection)
    return theirs == NULL or strcmp(
        theirs, pn_connection_get_container(peer.driver.connection)) == 0


cdef void trunk_lost(Peer *peer) noexcept nogil:
    """Let other connections to the same server take over the links of an ended trunk."""
    if peer.trunk:
        list_remove(&peer.container.trunks, peer, &peer.prev_trunk, &peer.next_trunk)
        announce_all(peer.container)
    if peer.dial != NULL:
        peer.dial.lost(peer.dial, peer)


cdef void announce_all(Container *container) noexcept nogil:
    cdef Queue *queue = container.wanted
    while queue != NULL:
        trunks_announce(queue)
        queue = queue.next_wanted


cdef void trunks_announce(Queue *queue) noexcept nogil:
    """Attach to an address on every server if it has consumers here."""
    cdef Peer *peer
    if queue.local_count == 0 or queue.container.closing:
        return
    peer = queue.container.trunks
    while peer != NULL:
        if is_usable(peer) and not is_announced(queue, peer):
            attach_receiver(peer, queue)
        peer = peer.next_trunk


cdef bint is_announced(Queue *queue, Peer *peer) noexcept nogil:
    """Say whether we have a link for the address to the peer's server, on any connection."""
    cdef Inlet *inlet = queue.trunk_inlets
    while inlet != NULL:
        if same_server(inlet.base.peer, peer):
            return True
        inlet = inlet.next_trunk
    return False


cdef void attach_receiver(Peer *peer, Queue *queue) noexcept nogil:
    """Attach to the address on the other server, as a consumer for our consumers.

    The link has its own session if possible, so that a full queue here stops no other address.
    """
    cdef bint own
    cdef pn_session_t *session = NULL if awaits_begin(peer) else session_for(peer, &own)
    cdef char[NAME_MAX] name
    cdef pn_link_t *link
    cdef Inlet *inlet
    if session == NULL:
        return
    write_name(TRUNK_LINK_NAME, peer.container.next_serial + 1, name)
    link = pn_receiver(session, name)
    pn_terminus_set_address(pn_link_source(link), queue.address)
    pn_terminus_set_address(pn_link_target(link), queue.address)
    if queue.multicast:
        pn_data_put_symbol(
            pn_terminus_capabilities(pn_link_source(link)), pn_bytes(5, b"topic"))
    inlet = <Inlet *>link_new(peer, link, INLET, TRUNK_CONSUMER, sizeof(Inlet))
    if inlet == NULL:
        if own:
            session_close(session)
        return
    inlet.base.owns_session = own
    queue.links += 1
    inlet.queue = queue
    list_push(&queue.trunk_inlets, inlet, &inlet.prev_trunk, &inlet.next_trunk)
    pn_link_open(link)
    link_opened(&inlet.base)
    inlet_top_up(inlet)
    peer_dirty(peer)


cdef void trunks_withdraw(Queue *queue) noexcept nogil:
    """Detach from an address on all servers if it has no consumers here any more.

    The other servers get back the messages without an outcome.
    """
    cdef Inlet *inlet
    while queue.local_count == 0 and queue.trunk_inlets != NULL:
        inlet = queue.trunk_inlets
        trunk_detached(inlet)
        inlet.base.refused = True
        pn_link_close(inlet.base.link)
        peer_dirty(inlet.base.peer)


cdef void trunk_detached(Inlet *inlet) noexcept nogil:
    """Remove a detached link from its queue's list."""
    if inlet.base.role == TRUNK_CONSUMER and list_has(
            &inlet.queue.trunk_inlets, inlet, &inlet.prev_trunk):
        list_remove(&inlet.queue.trunk_inlets, inlet, &inlet.prev_trunk, &inlet.next_trunk)


cdef void trunks_top_up(Queue *queue) noexcept nogil:
    """Give other servers credit for the room that our consumers made."""
    cdef Inlet *inlet = queue.trunk_inlets
    while inlet != NULL:
        inlet_top_up(inlet)
        inlet = inlet.next_trunk
