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

# The address of the Neighbour by our container and its container id.
cdef dict neighbours = {}
# The queues to which we have a link on a neighbour: the addresses of both.
cdef set announced = set()


cdef void trunk_opened(Peer *peer) noexcept nogil:
    """Begin to exchange addresses when another server has sent its open frame."""
    if not peer.trunk:
        if peer.dial != NULL:
            peer_close(peer, b"amqp:not-allowed",
                       b"it is no pyfast server, or its key trunks does not name this server")
        return
    if is_ourselves(peer):
        peer.trunk = False
        peer_close(peer, b"amqp:not-allowed", b"this server is connected to itself")
        return
    peer.neighbour = neighbour_of(peer)
    if peer.neighbour == NULL:
        peer_close(peer, b"amqp:resource-limit-exceeded", b"the server is out of memory")
        return
    list_push(&peer.neighbour.trunks, peer, &peer.prev_trunk, &peer.next_trunk)
    announce_to(peer)


cdef bint is_ourselves(Peer *peer) noexcept nogil:
    cdef const char *theirs = pn_connection_remote_container(peer.driver.connection)
    return theirs == NULL or strcmp(
        theirs, pn_connection_get_container(peer.driver.connection)) == 0


cdef Neighbour *neighbour_of(Peer *peer) noexcept with gil:
    """Return the record of a trunk's server, made for its first trunk; NULL without memory."""
    cdef Container *container = peer.container
    key = <size_t>container, <bytes>pn_connection_remote_container(peer.driver.connection)
    cdef Neighbour *found = <Neighbour *><size_t>neighbours.get(key, 0)
    if found == NULL:
        found = <Neighbour *>calloc(1, sizeof(Neighbour))
        if found != NULL:
            neighbours[key] = <size_t>found
            list_push(&container.neighbours, found, &found.prev, &found.next)
            container.neighbour_count += 1
    return found


cdef void trunk_lost(Peer *peer) noexcept nogil:
    """Let other connections to the same server take over the links of an ended trunk."""
    cdef Neighbour *neighbour = peer.neighbour
    cdef Peer *other
    if neighbour != NULL:
        list_remove(&neighbour.trunks, peer, &peer.prev_trunk, &peer.next_trunk)
        other = neighbour.trunks
        while other != NULL and not announce_to(other):
            other = other.next_trunk
        if neighbour.trunks == NULL:
            forget_neighbour(peer)
    if peer.dial != NULL:
        peer.dial.lost(peer.dial, peer)


cdef void forget_neighbour(Peer *peer) noexcept with gil:
    """Free the record of a server after its last trunk."""
    cdef Container *container = peer.container
    cdef Neighbour *neighbour = peer.neighbour
    name = <bytes>pn_connection_remote_container(peer.driver.connection)
    neighbours.pop((<size_t>container, name), None)
    list_remove(&container.neighbours, neighbour, &neighbour.prev, &neighbour.next)
    container.neighbour_count -= 1
    free(neighbour)


cdef bint announce_to(Peer *peer) noexcept nogil:
    """Attach to every address that has consumers here; say whether its server knows them all."""
    cdef Queue *queue = peer.container.wanted
    cdef bint known = True
    while queue != NULL:
        known &= announce(queue, peer)
        queue = queue.next_wanted
    return known


cdef void trunks_announce(Queue *queue) noexcept nogil:
    """Attach to an address on every server if it has consumers here.

    Most times a consumer joins others, and all servers know the address.
    """
    cdef Neighbour *neighbour = queue.container.neighbours
    cdef Peer *peer
    if queue.local_count == 0 or queue.trunk_inlet_count == queue.container.neighbour_count:
        return
    while neighbour != NULL:
        peer = neighbour.trunks
        while peer != NULL and not announce(queue, peer):
            peer = peer.next_trunk
        neighbour = neighbour.next


cdef bint announce(Queue *queue, Peer *peer) noexcept nogil:
    """Attach to an address on a server once; say whether we have a link there."""
    return is_announced(queue, peer.neighbour) or (
        is_usable(peer) and not queue.container.closing and attach_receiver(peer, queue))


cdef bint is_announced(Queue *queue, Neighbour *neighbour) noexcept with gil:
    """Say whether we have a link for the address to the server, on any connection."""
    return (<size_t>queue, <size_t>neighbour) in announced


cdef bint attach_receiver(Peer *peer, Queue *queue) noexcept nogil:
    """Attach to the address on the other server, as a consumer for our consumers.

    The link has its own session if possible, so that a full queue here stops no other address.
    Return False if there is neither a session nor memory.
    """
    cdef bint own
    cdef pn_session_t *session = NULL if awaits_begin(peer) else session_for(peer, &own)
    cdef char[NAME_MAX] name
    cdef pn_link_t *link
    cdef Inlet *inlet
    if session == NULL:
        return False
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
        return False
    inlet.base.owns_session = own
    queue.links += 1
    inlet.queue = queue
    list_push(&queue.trunk_inlets, inlet, &inlet.prev_trunk, &inlet.next_trunk)
    queue.trunk_inlet_count += 1
    with gil:
        announced.add((<size_t>queue, <size_t>peer.neighbour))
    pn_link_open(link)
    link_opened(&inlet.base)
    inlet_top_up(inlet)
    peer_dirty(peer)
    return True


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
        inlet.queue.trunk_inlet_count -= 1
        with gil:
            announced.discard((<size_t>inlet.queue, <size_t>inlet.base.peer.neighbour))


cdef void trunks_top_up(Queue *queue) noexcept nogil:
    """Give other servers credit for the room that our consumers made."""
    cdef Inlet *inlet = queue.trunk_inlets
    while inlet != NULL:
        inlet_top_up(inlet)
        inlet = inlet.next_trunk
