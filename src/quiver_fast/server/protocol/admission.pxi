"""Makes peers of connected sockets: accepted ones, and the server's own connections."""

# The most reads of one peer in one turn, so that a fast peer does not delay the others.
cdef int READS = 2


cdef Peer *admit(Broker broker, int fd, SaslExchange exchange, bytes hostname) noexcept:
    """Make a peer of a connected socket; close the socket and return NULL on a failure.

    Args:
        exchange: SASL as server or as client, with the security settings.
        hostname: as a client, the host to name in the open frame and to verify in TLS.
    """
    cdef Container *container = &broker.container
    cdef Peer *peer
    if container.peer_count >= container.limits.connections or container.closing:
        close(fd)
        return NULL
    peer = <Peer *>calloc(1, sizeof(Peer))
    if peer == NULL or pn_connection_driver_init(&peer.driver, NULL, NULL) != 0:
        free(peer)
        close(fd)
        return NULL
    made(CONNECTION)
    peer.container = container
    peer.watch.fd = fd
    peer.watch.owner = peer
    peer.watch.ready = on_peer
    peer.events = EPOLLIN
    peer.accepted_at = broker.reactor.now
    amqp_plane_init(
        &peer.plane, container.limits.frame_size, int.from_bytes(os.urandom(8), "big"))
    amqp_timers_init(&peer.timers, container.limits.idle_timeout, broker.reactor.now)
    peer.deliveries.plane = &peer.plane
    peer.deliveries.spares = &container.spares
    peer.timer.ring = peer_ring
    peer_holds(peer)
    timer_set(container, &peer.timer, 0)
    set_up(broker, peer, exchange, hostname)
    list_push(&container.peers, peer, &peer.prev, &peer.next)
    container.peer_count += 1
    container.traffic.connections += 1
    if watch_add(container.epoll, &peer.watch, EPOLLIN) != 0:
        peer_cut(peer)
    peer_dirty(peer)
    return peer


cdef int set_up(Broker broker, Peer *peer, SaslExchange exchange, bytes hostname) noexcept:
    """Set up the engine's connection and transport, TLS and SASL."""
    transport = peer.driver.transport
    connection = peer.driver.connection
    peer.plane.endpoints.takes_refusal = not exchange.server
    if exchange.server:
        pn_transport_set_server(transport)
    pn_transport_set_max_frame(transport, peer.container.limits.frame_size)
    pn_transport_set_idle_timeout(transport, peer.container.limits.idle_timeout)
    pn_transport_set_channel_max(transport, min(<int>peer.container.limits.sessions, 32767))
    pn_connection_set_container(connection, broker.container_id)
    offer_capabilities(connection, True, not exchange.server)
    introduce(connection, __version__.encode(), b"%d" % peer.container.limits.queue_bytes)
    try:
        exchange.security.apply(exchange, transport, &peer.plane, peer.watch.fd, hostname)
    except Exception:
        # The TLS session could not be made: only this connection ends, not the server.
        peer_cut(peer)
        return 0
    peer.tls = exchange.tls
    pn_connection_driver_bind(&peer.driver)
    if not exchange.server:
        pn_connection_set_hostname(connection, hostname)
        pn_connection_open(connection)
    return 0


cdef void on_peer(Watch *watch, uint32_t events) noexcept nogil:
    cdef Peer *peer = <Peer *>watch.owner
    if peer.dead:
        return
    if events & EPOLLOUT:
        peer.full = False
    # While events are left, the next turn reports the socket's input or end again.
    if events & (EPOLLERR | EPOLLHUP) and not (peer.behind or wants_input(peer)):
        peer_cut(peer)
    elif events & ~EPOLLOUT and not peer.behind:
        take_input(peer)
    peer_dirty(peer)


cdef void take_input(Peer *peer) noexcept nogil:
    """Read and process one peer's share of a turn."""
    cdef int left = READS
    cdef bint more = True
    while more and left and not peer.behind:
        more = peer_read(peer)
        peer_process(peer)
        left -= 1
    peer_return(peer)
