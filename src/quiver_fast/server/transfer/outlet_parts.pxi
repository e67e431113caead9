"""Outgoing messages that go in parts: their changed headers, pieces, and files."""

cdef enum:
    # Bytes of a long message to frame at once.
    PIECE = 65024
    # The most bytes of a frame besides its message, with those that a header may grow by.
    FRAME_HEAD = 128


cdef void send_in_parts(Outlet *outlet, Entry *entry) noexcept nogil:
    outlet._sending = entry
    outlet.chunk = entry.message.first
    outlet.offset = 0
    if not entry.message.complete:
        join_readers(entry.message, outlet)
    outlet._lead_size = outlet._lead_sent = 0
    if outlet.base.role != STREAMS_TO_PEER or credit(outlet) > 0:
        outlet_continue(outlet)
    peer_dirty(outlet.base.peer)


cdef void outlet_continue(Outlet *outlet) noexcept nogil:
    """Send more of the current message, as far as there is room and there are bytes."""
    cdef Message *message = outlet._sending.message
    cdef bint streaming = message.stream != NULL
    if exceeds(outlet, message.size):
        refuse_size(outlet)
        return
    if outlet.delivery == NULL and (
            not fits(outlet, message) or not start_delivery(outlet, outlet._sending)):
        clog(outlet)
        # The room is used up, so this consumer gets no second message.
        update_readiness(outlet)
        return
    # The last entry would free the message, which is used after that.
    message.hold.users += 1
    if message.chain != NULL:
        send_chain(outlet, message)
    else:
        send_chunks(outlet, message, streaming)
        if streaming:
            stream_sent(outlet, message)
    message_release(message)
    update_readiness(outlet)


cdef void send_chunks(Outlet *outlet, Message *message, bint streaming) noexcept nogil:
    """Send the bytes of a message that are in memory."""
    cdef Chunk *chunk = outlet.chunk
    cdef size_t left
    cdef size_t size
    cdef size_t space
    cdef bint last
    # A stream frees its chunks before its end.
    cdef amqp_hold_t *hold = NULL if message.stream != NULL else &message.hold
    while True:
        left = chunk.size - outlet.offset
        if left == 0 and chunk.next != NULL:
            outlet.chunk = chunk.next
            outlet.offset = 0
            if streaming:
                chunk.readers -= 1
            chunk = outlet.chunk
            continue
        if left == 0 and not message.complete:
            return
        space = room(outlet)
        if space == 0:
            clog(outlet)
            return
        size = min(left, min(space, PIECE))
        last = message.complete and chunk.next == NULL and size == left
        outlet.offset += send_piece(
            outlet, chunk_bytes(chunk) + outlet.offset, size, hold, last)
        if last and not outlet.delivery.partial:
            outlet_sent(outlet)
            return


cdef void drop_sent(Outlet *outlet, Message *message) noexcept nogil:
    """Free the bytes of a stream whose only reader has sent them all."""
    if message.held and outlet._sending != NULL and message.readers == 1 and (
            outlet.chunk == message.first == message.last and outlet.offset == outlet.chunk.size):
        message_empty(message)
        outlet.chunk = message.first
        outlet.offset = 0


cdef void send_chain(Outlet *outlet, const Message *message) noexcept nogil:
    """Send more of a message from the queue's file, as far as there is room."""
    cdef size_t size
    if outlet._reader == NULL:
        outlet._reader = chain_open(message)
    while True:
        if outlet._reader == NULL or not chain_read(outlet._reader, message) or (
                chain_was_cut(outlet._reader)):
            send_no_more(outlet)
            return
        if outlet._reader.left == 0:
            # More of an arriving message is sent when it is written.
            if message.complete:
                end_chain(outlet)
            return
        # Skip the header section, which was rewritten and sent.
        size = min(outlet.offset, outlet._reader.left)
        outlet.offset -= size
        outlet._reader.at += size
        outlet._reader.left -= size
        size = min(outlet._reader.left, min(room(outlet), PIECE))
        if size == 0 and outlet._reader.left:
            clog(outlet)
            return
        size = send_piece(outlet, outlet._reader.at, size, NULL, False)
        outlet._reader.at += size
        outlet._reader.left -= size


cdef void end_chain(Outlet *outlet) noexcept nogil:
    """End a delivery whose bytes were all sent, by an empty last frame."""
    if room(outlet) > 0:
        send_piece(outlet, NULL, 0, NULL, True)
    if outlet.delivery.partial:
        clog(outlet)
    else:
        outlet_sent(outlet)


cdef void send_no_more(Outlet *outlet) noexcept nogil:
    """Drop an unreadable message until the next start; if no file opens, refuse the link."""
    cdef Entry *entry = outlet._sending
    cdef bint unopened = outlet._reader == NULL or outlet._reader.unopened
    abort_sending(outlet)
    if unopened:
        link_refuse(&outlet.base, b"amqp:internal-error", b"the queue's file cannot be opened")
        return_entry(entry)
    else:
        entry_drop(entry)


cdef void stream_sent(Outlet *outlet, Message *message) noexcept nogil:
    """Drop the bytes that all entries have sent, and wake the sender if few are left."""
    cdef Stream *stream = stream_of(message)
    message_trim(message)
    drop_sent(outlet, message)
    if stream.inlet != NULL and message.held < STREAM_LOW and not message.complete:
        inlet_wake(stream.inlet)


cdef void outlet_sent(Outlet *outlet) noexcept nogil:
    """End the delivery of a message that is framed completely."""
    cdef Entry *entry = outlet._sending
    cdef amqp_delivery_t *delivery = outlet.delivery
    cdef bint settled = is_settled(outlet)
    went_out(&outlet.base.peer.container.traffic, entry.message.size)
    end_sending(outlet)
    if settled:
        delivery_let_go(delivery)
        amqp_delivery_settle(delivery)
        apply_outcome(entry, PN_ACCEPTED, 0, False, False)
    elif delivery.code > PN_RECEIVED:
        outlet_updated(outlet, delivery)


cdef void join_readers(Message *message, Outlet *outlet) noexcept nogil:
    """Register the outlet for more bytes of a message and for its end."""
    if message.stream != NULL:
        reader_join(&stream_of(message).readers, outlet)
    else:
        reader_join(<Outlet **>&chain_of(message).readers, outlet)


cdef void leave_chain(Outlet *outlet) noexcept nogil:
    reader_leave(<Outlet **>&chain_of(outlet._sending.message).readers, outlet)
    chain_close(outlet._reader)
    outlet._reader = NULL


cdef void end_sending(Outlet *outlet) noexcept nogil:
    """Finish the outlet's current message, sent or not."""
    cdef Message *message = outlet._sending.message
    if message.stream != NULL:
        reader_leave(&stream_of(message).readers, outlet)
        stream_leave(message, outlet.chunk)
    elif message.chain != NULL:
        leave_chain(outlet)
    if outlet._consumer_link != NULL:
        outlet._consumer_link.streams -= 1
        leave_consumer(outlet)
    if message.size > OUTGOING_MAX:
        # Copy the waiting bytes: else a peer that does not read would hold the whole message.
        peer_keep(outlet.base.peer, &message.hold)
    outlet._sending = NULL
    outlet.delivery = NULL
    if outlet.base.role == STREAMS_TO_PEER:
        outlet.base.peer.stream_count -= 1
        pool_add(outlet)


cdef void abort_sending(Outlet *outlet) noexcept nogil:
    """Abort the current message, so that it never looks complete to the consumer."""
    cdef amqp_delivery_t *delivery = outlet.delivery
    end_sending(outlet)
    if delivery != NULL:
        delivery_let_go(delivery)
        amqp_delivery_abort(delivery)
    peer_dirty(outlet.base.peer)


cdef bint fits(Outlet *outlet, const Message *message) noexcept nogil:
    """Say whether a message may begin: there is room, and for all of it if a frame takes it."""
    cdef size_t most = outlet.base.peer.plane.endpoints.opened[<int>AMQP_THEIRS].max_frame_size
    cdef size_t left = room(outlet)
    if not message.complete or message.stream != NULL or message.size + FRAME_HEAD > most:
        return left > 0
    return left > 0 and left >= min(message.size + FRAME_HEAD, <size_t>OUTGOING_MAX)


cdef bint start_delivery(Outlet *outlet, Entry *entry) noexcept nogil:
    """Begin a delivery, with a rewritten header if a field changed here.

    False without memory.
    """
    cdef Message *message = entry.message
    cdef bint routed = outlet.base.role == STREAMS_TO_PEER and outlet.base.peer.trunk
    if (routed or has_changed(entry)) and not write_lead(outlet, entry, routed):
        return False
    outlet.delivery = amqp_delivery_begin(&outlet.base.deliveries)
    if outlet.delivery == NULL:
        return False
    outlet.delivery.format = message.format
    delivery_hold(outlet.delivery, entry)
    next_tag(&outlet._tag)
    return True


cdef inline bint has_changed(const Entry *entry) noexcept nogil:
    """Say whether the header of a message has to be rewritten (part 3.2.1).

    A message of another format than AMQP's gets no header, and a malformed one stays.
    """
    cdef const Message *message = entry.message
    return (entry.used or message.header.has_ttl) and (
        message.format == 0 or message.header.size > 0) and not message.header.opaque


cdef bint write_lead(Outlet *outlet, Entry *entry, bint routed) noexcept nogil:
    """Write the present header, followed by the route of a stream to another server."""
    cdef Message *message = entry.message
    cdef size_t size = message.header.size
    cdef char *lead = <char *>realloc(
        outlet._lead, HEADER_MAX + size + (ROUTE_MAX + entry.queue.address_size if routed else 0))
    if lead == NULL:
        return False
    outlet._lead = lead
    outlet._lead_sent = 0
    outlet.offset = size
    if has_changed(entry):
        size = encode_header(
            message, entry.failures, not entry.used, outlet.base.peer.container.now_ms, lead)
    else:
        memcpy(lead, chunk_bytes(message.first), size)
    if routed:
        size += encode_route(
            entry.queue.address_size, stream_of(message).presettled, lead + size)
        memcpy(lead + size, entry.queue.address, entry.queue.address_size)
        size += entry.queue.address_size
    outlet._lead_size = size
    return True


cdef size_t send_piece(
        Outlet *outlet, const void *start, size_t size, amqp_hold_t *hold,
        bint last) noexcept nogil:
    """Frame the message's lead and its next bytes; return how many of these were framed.

    Args:
        hold: keeps the bytes, so that the output can refer to them; NULL to copy them.
    """
    cdef amqp_parts_t parts
    cdef size_t lead = outlet._lead_size - outlet._lead_sent
    cdef size_t sent
    parts.lead.start = <const uint8_t *>outlet._lead + outlet._lead_sent
    parts.lead.size = lead
    parts.rest.start = <const uint8_t *>start
    parts.rest.size = size
    parts.hold = hold
    sent = amqp_delivery_send(
        outlet.delivery, tag_bytes(&outlet._tag), &parts, last, is_settled(outlet))
    outlet._lead_sent += min(sent, lead)
    return sent - min(sent, lead)


cdef bint is_settled(const Outlet *outlet) noexcept nogil:
    """Say whether the consumer gets its messages, or this stream, settled."""
    cdef const Message *message = outlet._sending.message
    return outlet.presettled or message.stream != NULL and stream_of(message).presettled and (
        pn_link_remote_snd_settle_mode(outlet.base.link) != PN_SND_UNSETTLED)
