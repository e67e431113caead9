"""An AMQP connection as a holder of memory, which may be slowed down or closed."""

cdef void slow(Holder *holder) noexcept nogil:
    # Writing to the peer also updates its watch on input.
    peer_dirty(<Peer *>holder.owner)


cdef void refuse_holder(Holder *holder) noexcept nogil:
    cdef Peer *peer = <Peer *>holder.owner
    peer_close(peer, b"amqp:resource-limit-exceeded", OVER_LIMIT)
    # The peer may never answer, so its memory is freed now.
    peer_flush(peer)
    peer_cut(peer)
    declare_dead(peer)


cdef void peer_holds(Peer *peer) noexcept nogil:
    """Begin to count a connection's memory."""
    peer.holder.owner = peer
    peer.holder.slow = slow
    peer.holder.refuse = refuse_holder


# The memory of an incoming delivery, besides its unread bytes.
cdef size_t RECORD = sizeof(amqp_delivery_t) + AMQP_LEAST_CHUNK


cdef size_t waiting_memory(const Inlet *inlet) noexcept nogil:
    """Return the memory of a link's deliveries that are not taken, without their unread bytes."""
    cdef const Message *message = inlet.receiving
    cdef size_t memory = inlet.base.deliveries.untaken * RECORD
    if message != NULL:
        memory += message_memory(message)
        if message.chain != NULL:
            memory += chain_of(message).capacity * sizeof(Span)
    return memory


cdef void inlet_holds(Inlet *inlet) noexcept nogil:
    """Count the bytes of a link or of its session that are in no queue yet."""
    cdef Holder *holder = &inlet.base.peer.holder
    cdef Session *session = session_of(inlet.base.session)
    hold(holder, &inlet.counted, waiting_memory(inlet))
    hold(holder, &session.counted, session.deliveries.unread)
    fit_session(inlet.base.peer, session)


cdef void inlet_lets_go(Inlet *inlet) noexcept nogil:
    """Count nothing for a link that ends, with its deliveries."""
    inlet_holds(inlet)
    hold(&inlet.base.peer.holder, &inlet.counted, 0)
