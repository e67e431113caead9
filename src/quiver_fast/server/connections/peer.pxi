"""The bytes of one connection: between its socket, the data plane and the engine."""

# A peer whose socket is full is not read while so many bytes of output wait for it. Deliveries are
# no more than OUTGOING_MAX of these bytes, so they alone never keep dispositions and credit from
# being read. The rest answers frames of the peer, and is no longer than those frames in the
# ordinary case. So two servers that fill each other's sockets do not both stop: before the second
# one owes so many bytes it has read more than so many of the first one's, whose output has room
# then. With a lower limit the kernel might not report that room.
cdef size_t WAITING_MAX = 1 << 20


cdef ssize_t read_tls(void *tls, void *buffer, size_t size) noexcept nogil:
    """Read for the data plane (`amqp_source_t`)."""
    return tls_read(<tls_t *>tls, buffer, size)


cdef ssize_t write_within_tls(void *tls, const iovec *parts, int count) noexcept nogil:
    """Write for the data plane, for which 0 means that the socket is full."""
    cdef ssize_t n = tls_write(<tls_t *>tls, parts, count)
    return 0 if n == TLS_AGAIN else n


cdef bint peer_read(Peer *peer) noexcept nogil:
    """Read once from the socket; return whether more may be there."""
    cdef ssize_t n
    if peer.cut or peer.deaf or not wants_input(peer):
        return False
    peer_lend(peer)
    if peer.tls != NULL:
        n = amqp_plane_fill(&peer.plane, read_tls, peer.tls)
    else:
        n = amqp_plane_fill(&peer.plane, amqp_receive, &peer.watch.fd)
    if n == AMQP_INPUT_AGAIN:
        return False
    if n <= 0:
        peer_cut(peer)
        return False
    peer.timers.heard = peer.container.now_ms * MILLISECOND
    return peer.plane.input.to == peer.plane.input.capacity


cdef void peer_lend(Peer *peer) noexcept nogil:
    """Lend a connection the buffers that the last one gave back.

    So an idle connection needs no buffers.
    """
    cdef Container *container = peer.container
    if peer.plane.input.buffer == NULL:
        peer.plane.input = container.input
        memset(&container.input, 0, sizeof(container.input))
    peer_lend_output(peer)


cdef void peer_lend_output(Peer *peer) noexcept nogil:
    """Lend a connection without an output buffer one that another connection gave back."""
    amqp_output_take_buffer(&peer.plane.output, &peer.container.outputs)


cdef void peer_return(Peer *peer) noexcept nogil:
    """Take empty buffers back from a connection, and count the memory of the others.

    The server keeps several output buffers, because growing one costs more than filling it.
    """
    cdef Container *container = peer.container
    if peer.plane.input.start == peer.plane.input.to:
        peer.plane.input.start = peer.plane.input.to = 0
        free(container.input.buffer)
        container.input = peer.plane.input
        memset(&peer.plane.input, 0, sizeof(peer.plane.input))
    amqp_output_give_buffer(&peer.plane.output, &container.outputs)
    peer_count(peer)


cdef void peer_count(Peer *peer) noexcept nogil:
    """Count the bytes that wait in both directions, and those of the peer's open and links."""
    hold(&peer.holder, &peer.counted,
         peer.plane.input.capacity + waiting(peer) + peer.plane.endpoints.held)


cdef inline size_t waiting(const Peer *peer) noexcept nogil:
    """Return how many bytes of output the socket has not taken."""
    return amqp_output_waiting(&peer.plane.output) + (
        tls_waiting(peer.tls) if peer.tls != NULL else 0)


cdef void peer_feed(Peer *peer, amqp_bytes_t bytes) noexcept nogil:
    """Pass frames to the engine, after queueing our answers to earlier frames."""
    cdef pn_rwbytes_t space
    cdef size_t size
    amqp_deliveries_tell(&peer.deliveries)
    while bytes.size:
        # A buffer that is full with a part of a frame grows.
        space = pn_connection_driver_read_buffer(&peer.driver)
        if space.size == 0:
            break
        size = min(space.size, bytes.size)
        memcpy(space.start, bytes.start, size)
        pn_connection_driver_read_done(&peer.driver, size)
        bytes.start += size
        bytes.size -= size
    if pn_connection_driver_read_closed(&peer.driver):
        peer.deaf = True
        refuse_garbage(peer)


cdef void peer_drain(Peer *peer) noexcept nogil:
    """Append the engine's output to ours, after our own answers.

    Not while a begin of the peer is unanswered: the engine would forget that session's attaches.
    """
    cdef pn_bytes_t data
    cdef amqp_bytes_t bytes
    amqp_deliveries_tell(&peer.deliveries)
    while not peer.deliveries.failed and peer.beginning == NULL:
        data = pn_connection_driver_write_buffer(&peer.driver)
        if data.size == 0:
            return
        bytes.start = <const unsigned char *>data.start
        bytes.size = data.size
        if not amqp_plane_drain(&peer.plane, bytes):
            peer.deliveries.failed = True
        elif peer.plane.unfit and not peer.closed:
            end_unfit(peer)
        pn_connection_driver_write_done(&peer.driver, data.size)


cdef void end_unfit(Peer *peer) noexcept nogil:
    """End a connection to whose peer we cannot say something (part 2.8.15)."""
    if peer.opened:
        peer_close(peer, b"amqp:frame-size-too-small",
                   b"a frame would be larger than your max-frame-size")
    else:
        # No close may come before an open.
        peer.deliveries.failed = True


cdef bint peer_has_rest(const Peer *peer) noexcept nogil:
    """Say whether TLS has decrypted bytes that no event of the socket will report."""
    return peer.tls != NULL and not peer.cut and wants_input(peer) and tls_has_input(peer.tls)


cdef void refuse_garbage(Peer *peer) noexcept nogil:
    """Give the reason of an error if the engine gave none.

    The engine stops without an error at a frame that it cannot dispatch.
    """
    if not (pn_condition_is_set(pn_transport_condition(peer.driver.transport))
            or pn_connection_state(peer.driver.connection) & PN_REMOTE_CLOSED):
        peer_refuse(peer, b"amqp:decode-error", b"not a frame of AMQP")


cdef void peer_cut(Peer *peer) noexcept nogil:
    """Treat the connection as closed in both directions."""
    peer.cut = True
    amqp_output_clear(&peer.plane.output)
    pn_connection_driver_read_close(&peer.driver)
    pn_connection_driver_write_close(&peer.driver)


cdef void peer_write(Peer *peer) noexcept nogil:
    """Write all output, or watch the socket if it is full.

    Write nothing while the socket is full, nor after the connection was cut.
    """
    cdef uint32_t events = 0
    peer_flush(peer)
    if peer.cut:
        return
    if peer.full:
        events |= EPOLLOUT
    if wants_input(peer):
        events |= EPOLLIN
    if events != peer.events:
        peer.events = events
        watch_change(peer.container.epoll, &peer.watch, events)


cdef void peer_flush(Peer *peer) noexcept nogil:
    """Write, if the socket is not full.

    A full socket does not keep the engine's answers from the output, whose bytes are limited.
    """
    if peer.cut:
        return
    peer_lend(peer)
    peer_drain(peer)
    if peer.deliveries.failed:
        peer_cut(peer)
    elif not peer.full:
        write_some(peer)


cdef void peer_borrows(Peer *peer) noexcept nogil:
    """Note that the peer's output refers to bytes of the input that is being read."""
    if not peer._borrows:
        peer._borrows = True
        peer._next_borrower = peer.container.borrowers
        peer.container.borrowers = peer


cdef void borrowers_settle(Container *container) noexcept nogil:
    """Write the lent bytes of an input, and copy the rest, before the input is read into again."""
    cdef Peer *peer
    while container.borrowers != NULL:
        peer = container.borrowers
        container.borrowers = peer._next_borrower
        peer._borrows = False
        peer_flush(peer)
        peer_keep(peer, AMQP_LENT)


cdef void peer_keep(Peer *peer, const amqp_hold_t *hold) noexcept nogil:
    """Copy the bytes that the output has by reference from ``hold``."""
    if not amqp_output_keep(&peer.plane.output, hold):
        peer.deliveries.failed = True


cdef bint wants_input(const Peer *peer) noexcept nogil:
    return not (peer.behind or peer.holder.slowed or peer.plane.held) and (
        not peer.full or waiting(peer) < WAITING_MAX)


cdef void write_some(Peer *peer) noexcept nogil:
    """Write until there is no more, or the socket is full."""
    cdef int state
    if amqp_output_waiting(&peer.plane.output):
        peer.timers.spoken = peer.container.now_ms * MILLISECOND
    if peer.tls != NULL:
        write_tls(peer)
        return
    state = amqp_output_write(&peer.plane.output, amqp_send, &peer.watch.fd)
    if state < 0:
        peer_cut(peer)
    peer.full = state == 0


cdef void write_tls(Peer *peer) noexcept nogil:
    """Write within TLS; bytes that the socket does not take yet wait in TLS's buffer."""
    cdef int state = -1
    if tls_flush(peer.tls) != TLS_FAILED:
        state = amqp_output_write(&peer.plane.output, write_within_tls, peer.tls)
    if state >= 0 and pn_connection_driver_write_closed(&peer.driver):
        state = -1 if tls_close(peer.tls) == TLS_FAILED else state
    if state < 0:
        peer_cut(peer)
        return
    peer.full = (tls_events(peer.tls) & POLLOUT) != 0


cdef bint peer_finished(Peer *peer) noexcept nogil:
    """Say whether this connection has ended in both directions."""
    if peer.full and not peer.cut:
        # Our output or TLS may still hold the engine's last bytes.
        return False
    return peer.cut or pn_connection_driver_finished(&peer.driver)


cdef void set_condition(
        pn_condition_t *condition, const char *name, const char *description) noexcept nogil:
    pn_condition_set_name(condition, name)
    pn_condition_set_description(condition, description)


cdef void peer_close(
        Peer *peer, const char *condition, const char *description) noexcept nogil:
    """Close the connection with a close frame, and an error unless ``condition`` is NULL."""
    if pn_connection_state(peer.driver.connection) & PN_LOCAL_CLOSED:
        return
    if not pn_connection_state(peer.driver.connection) & PN_LOCAL_ACTIVE:
        # A close must follow an open (part 2.4.3).
        pn_connection_open(peer.driver.connection)
    if condition != NULL:
        set_condition(
            pn_connection_condition(peer.driver.connection), condition, description)
    pn_connection_close(peer.driver.connection)
    peer.closed = True
    peer_dirty(peer)


cdef void peer_refuse(
        Peer *peer, const char *condition, const char *description) noexcept nogil:
    """End a connection whose peer violated the protocol; unlike `peer_close`, at any stage.

    Before the peer's open frame, the engine writes a close only for an error of its own. So this
    function sets such an error and ends the input.
    """
    set_condition(pn_transport_condition(peer.driver.transport), condition, description)
    pn_transport_close_tail(peer.driver.transport)
    peer.deaf = True
    peer_dirty(peer)


cdef void delivery_say(
        amqp_delivery_t *delivery, uint64_t outcome, bint failed,
        bint undeliverable) noexcept nogil:
    """Say what became of a delivery; a state that is no outcome of part 3.4 counts as accepted.

    Reason and annotations of the peer's own outcome do not go back to it: it knows them, and they
    may be as long as a frame.
    """
    if outcome == PN_MODIFIED:
        amqp_delivery_say_modified(delivery, failed, undeliverable)
    elif outcome == PN_REJECTED or outcome == PN_RELEASED:
        amqp_delivery_say(delivery, <amqp_code>outcome)
    else:
        amqp_delivery_say(delivery, AMQP_CODE_ACCEPTED)


cdef void delivery_reject(
        Link *link, amqp_delivery_t *delivery, const char *name,
        const char *description) noexcept nogil:
    """Reject a delivery with a reason (part 3.4.3), in a transaction as its outcome (part 4.4.1).

    The sender of a settled delivery does not hear of that, so the transaction must fail.
    """
    cdef Transaction *transaction = NULL
    if delivery.code == TRANSACTIONAL_STATE:
        transaction = read_state(link.peer, delivery.peer_state).transaction
        if transaction == NULL:
            refuse_transaction(link)
            return
        transaction.incomplete |= delivery.settled_by_peer
    amqp_delivery_say_rejected(
        delivery, NULL if transaction == NULL else &transaction.id, name, description)
    amqp_delivery_settle(delivery)


cdef void refuse_transaction(Link *link) noexcept nogil:
    """Detach a link that names no transaction of its connection (part 4.4.4.1)."""
    link_refuse(link, b"amqp:transaction:unknown-id",
                b"there is no such transaction on this connection")


cdef void delivery_lost(Link *link, const amqp_delivery_t *delivery) noexcept nogil:
    """Let a delivery's transaction fail, because its link ends before it is taken."""
    if delivery != NULL and delivery.code == TRANSACTIONAL_STATE:
        state_lost(link.peer, delivery.peer_state)


cdef void link_refuse(Link *link, const char *name, const char *description) noexcept nogil:
    """Detach a link with an error (part 2.6.4)."""
    if not link.refused:
        link.refused = True
        set_condition(pn_link_condition(link.link), name, description)
        pn_link_close(link.link)
    peer_dirty(link.peer)
