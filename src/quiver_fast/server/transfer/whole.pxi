"""The short way for most messages: whole in one frame both ways, accepted and settled.

Each function has the same effect as the long way (inlet.pxi, outlet.pxi), or does nothing and
returns False: then the caller takes the long way. Tests compare both ways.
"""

cdef bint take_whole(Inlet *inlet, const amqp_arrival_t *arrival) noexcept nogil:
    """Publish and accept a message that came in one frame, without a record of its delivery."""
    cdef Message *message
    cdef bint waits
    cdef const uint8_t *start = arrival.payload.start
    cdef size_t size = arrival.payload.size
    if not is_whole(arrival) or not is_open(inlet) or not is_taken(inlet, size):
        return False
    if not has_shape(&inlet._shape, start, size) and not (
            sections_are_plain(start, size, &inlet._shape)):
        return False
    message = message_plain(
        start, size, &inlet._shape.header, inlet.base.peer.container.now_ms)
    if message == NULL:
        return False
    message.origin = inlet.origin
    message.from_trunk = inlet.base.peer.trunk
    if is_stored(inlet.queue, message) and (
            lacks_file(inlet.queue) or not store_append(inlet.queue, message)):
        message_release(message)
        return False
    note_size(inlet, message)
    waits = must_wait(inlet.queue, message)
    if not publish(inlet.queue, message):
        return False
    if not arrival.settled:
        accept(inlet, arrival.delivery_id, waits)
    inlet_wake(inlet)
    return True


cdef inline bint is_whole(const amqp_arrival_t *arrival) noexcept nogil:
    """Say whether a transfer is a whole delivery of AMQP's format outside of transactions."""
    return arrival.first and not (arrival.more or arrival.aborted) and (
        arrival.state.start == NULL and arrival.message_format == 0 and arrival.payload.size > 0)


cdef inline bint is_open(const Inlet *inlet) noexcept nogil:
    """Say whether a client's link to one queue has nothing that waits, so it may take a message."""
    return inlet.base.deliveries.current == NULL and inlet.base.role == CLIENT and (
        inlet.receiving == NULL and inlet.blocked_by == NULL and inlet.destination == NULL
        and inlet.wide and not inlet.base.refused)


cdef inline bint is_taken(const Inlet *inlet, size_t size) noexcept nogil:
    """Say whether the link's queue has room for a message of that size."""
    cdef const Limits *limits = &inlet.base.peer.container.limits
    cdef const Queue *queue = inlet.queue
    return queue != NULL and not queue.multicast and queue.bytes < queue.limit and (
        size <= limits.message_size and size <= limits.queue_bytes)


cdef bint send_whole(Outlet *outlet, Entry *entry) noexcept nogil:
    """Send an acquired entry's message unchanged in one frame. Sent settled, it ends."""
    cdef Message *message = entry.message
    cdef amqp_bytes_t payload
    cdef amqp_delivery_t *delivery
    if not goes_as_it_came(outlet, entry) or not has_room_for(outlet, message.first.size):
        return False
    payload.start = <const uint8_t *>chunk_bytes(message.first)
    payload.size = message.first.size
    delivery = amqp_delivery_send_whole(
        &outlet.base.deliveries, next_tag(&outlet._tag), payload, &message.hold,
        outlet.presettled)
    if delivery == NULL:
        return False
    went_out(&outlet.base.peer.container.traffic, message.size)
    if outlet.presettled:
        amqp_delivery_drop(delivery)
        entry_done(entry)
    else:
        delivery_hold(delivery, entry)
    return True


cdef inline bint goes_as_it_came(const Outlet *outlet, const Entry *entry) noexcept nogil:
    """Say whether a message has AMQP's format, is in one chunk, and needs no new header.

    Nor may it be a stream or use one of our links.
    """
    cdef const Message *message = entry.message
    return message.complete and message.first.next == NULL and message.first.size > 0 and (
        message.stream == NULL and message.chain == NULL and not message.header.has_ttl
        and message.format == 0 and not entry.used and outlet._sending == NULL
        and outlet.base.role == CLIENT)


cdef inline bint has_room_for(const Outlet *outlet, size_t size) noexcept nogil:
    """Say whether ``size`` bytes may be framed, by the rule of `room` in framing.pxi.

    Making the transfer checks whether the peer takes one.
    """
    cdef const Peer *peer = outlet.base.peer
    return not (peer.full or peer.closed or peer.deliveries.failed or outlet.base.refused) and (
        amqp_output_waiting(&peer.plane.output) + size <= OUTGOING_MAX)


cdef bint end_accepted(Outlet *outlet, amqp_delivery_t *delivery) noexcept nogil:
    """End a delivery that the consumer accepted and settled after it was sent completely."""
    cdef Entry *entry = entry_of(delivery)
    if entry == NULL or outlet.delivery == delivery or entry.message.stream != NULL:
        return False
    delivery_let_go(delivery)
    entry_done(entry)
    amqp_delivery_drop(delivery)
    peer_dirty(outlet.base.peer)
    return True
