"""Outgoing messages: transfers to a consumer, and the outcomes that come back."""

cdef bint outlet_idle(Outlet *outlet) noexcept nogil:
    """Say whether the outlet can take one more message now."""
    if outlet._sending != NULL or outlet.base.refused or credit(outlet) == 0:
        return False
    if room(outlet) > 0:
        return True
    clog(outlet)
    return False


cdef void update_readiness(Outlet *outlet) noexcept nogil:
    """Put the consumer into its queue's ring if it can take a message, else remove it."""
    cdef Queue *queue = outlet.consumer.queue
    if queue == NULL or outlet.consumer.browser:
        return
    if not outlet_idle(outlet) or outlet.consumer.trunk and queue.local_count:
        consumer_unready(&outlet.consumer)
    elif not outlet.consumer.ready:
        consumer_ready(&outlet.consumer)
        if queue.available:
            queue_dirty(queue)


cdef void clog(Outlet *outlet) noexcept nogil:
    """Let the outlet wait until its peer's output has drained."""
    if not outlet.clogged:
        outlet.clogged = True
        list_push(&outlet.base.peer.clogged, outlet,
                  &outlet._prev_clogged, &outlet._next_clogged)


cdef void outlet_send(Outlet *outlet, Entry *entry) noexcept nogil:
    """Send an entry that was acquired for this outlet, whole or in parts."""
    if outlet.base.peer.plane.output.buffer == NULL:
        peer_lend_output(outlet.base.peer)
    if not exceeds(outlet, entry.message.size) and send_whole(outlet, entry):
        if not may_send(outlet):
            update_readiness(outlet)
        peer_dirty(outlet.base.peer)
        return
    send_in_parts(outlet, entry)


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


cdef void refuse_size(Outlet *outlet) noexcept nogil:
    """Detach a consumer whose link refuses the message's size (part 2.7.3)."""
    if outlet._consumer_link != NULL:
        # A new link for streams to the same consumer would refuse the message as well.
        refuse_outlet(outlet._consumer_link)
    refuse_outlet(outlet)
    outlet_refused(outlet)


cdef void refuse_outlet(Outlet *outlet) noexcept nogil:
    link_refuse(&outlet.base, b"amqp:link:message-size-exceeded",
                b"the next message is larger than this link's max-message-size")
    update_readiness(outlet)


cdef void outlet_refused(Outlet *outlet) noexcept nogil:
    """Take the current message from an outlet whose link we detach: its peer may never answer.

    A message of which nothing was sent is available to others.
    """
    cdef Entry *entry = outlet._sending
    cdef bint begun = outlet.delivery != NULL
    cdef bint used
    if entry != NULL:
        used = entry.used
        if not begun and entry.message.stream != NULL:
            message_join(entry.message)
        abort_sending(outlet)
        if begun or entry.message.stream == NULL:
            apply_outcome(entry, PN_RELEASED, 0, False, False)
        else:
            queue_restore(entry)
            entry.used = used
            queue_dirty(entry.queue)
    update_readiness(outlet)
    if outlet.base.role == STREAMS_TO_PEER:
        pool_remove(outlet)


cdef inline bint may_send(const Outlet *outlet) noexcept nogil:
    """Say whether an outlet that has just sent a message can take one more now."""
    return amqp_delivery_may_begin(&outlet.base.deliveries) and (
        amqp_output_waiting(&outlet.base.peer.plane.output) < OUTGOING_MAX)


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


cdef void outlet_flow(Outlet *outlet) noexcept nogil:
    """Use the consumer's new credit (part 2.6.7)."""
    cdef Queue *queue = outlet.consumer.queue
    if outlet._sending != NULL and outlet.delivery == NULL and credit(outlet) > 0:
        # A stream waited for credit on the link that we attached for it.
        outlet_continue(outlet)
    if queue != NULL:
        update_readiness(outlet)
        if outlet.base.deliveries.end != NULL and outlet.base.deliveries.end.counts.drain:
            consumer_drain(&outlet.consumer)
        if outlet.consumer.browser or queue.draining != NULL:
            queue_dirty(queue)


cdef void outlets_drained(Peer *peer) noexcept nogil:
    """Resume the outlets that waited for this peer's output to drain."""
    cdef Outlet *outlet = peer.clogged
    cdef Outlet *following
    peer.clogged = NULL
    while outlet != NULL:
        following = outlet._next_clogged
        outlet.clogged = False
        if room(outlet) == 0:
            clog(outlet)
        else:
            if outlet._sending != NULL:
                # Also one whose message has not begun: it waited for room for all of it.
                peer_dirty(peer)
            if outlet.delivery != NULL:
                outlet_continue(outlet)
            outlet_flow(outlet)
        outlet = following


cdef bint outlet_updated(Outlet *outlet, amqp_delivery_t *delivery) noexcept nogil:
    """Handle the consumer's outcome of a delivery (part 3.4).

    Return whether the delivery is still there. Then it has the outcome only if this came before
    the message's end, and is needed after it.
    """
    cdef Entry *entry = entry_of(delivery)
    cdef uint64_t state
    cdef bint settled = delivery.settled_by_peer
    cdef bint early = outlet.delivery == delivery
    if settled:
        default_outcome(outlet, delivery)
    state = delivery.code
    if entry == NULL and settled:
        forget_delivery(delivery)
        amqp_delivery_settle(delivery)
        return False
    if not settled and early and state > PN_RECEIVED and not outlet.base.peer.trunk:
        # The outcome is not final. Another server's outcome is: it settles only at the end of
        # the message.
        return True
    if entry == NULL or not settled and state <= PN_RECEIVED:
        forget_state(delivery)
        return True
    if early:
        # The outcome came before the end of the message: do not send the rest.
        if entry.message.chain != NULL:
            chain_of(entry.message).outcome = state
        end_sending(outlet)
        update_readiness(outlet)
    peer_dirty(outlet.base.peer)
    if state == TRANSACTIONAL_STATE:
        return enlist(outlet, entry, delivery, early)
    take_outcome(outlet, entry, delivery, early)
    return False


cdef void forget_state(amqp_delivery_t *delivery) noexcept nogil:
    """Forget a state of the peer's that has had its effect."""
    delivery.code = AMQP_CODE_NONE
    delivery.peer_state.start = NULL
    delivery.peer_state.size = 0


cdef void take_outcome(
        Outlet *outlet, Entry *entry, amqp_delivery_t *delivery, bint early) noexcept nogil:
    """Apply an outcome; if it came early, abort the delivery."""
    cdef amqp_state_t said
    said.delivery_failed = said.undeliverable_here = False
    if delivery.code != PN_ACCEPTED:
        amqp_read_state(delivery.peer_state, &said)
        outcome_said(entry, delivery)
    delivery_let_go(delivery)
    apply_outcome(entry, delivery.code, outlet.base.serial, said.delivery_failed,
                  said.undeliverable_here)
    if early:
        amqp_delivery_abort(delivery)
        return
    if not delivery.settled_by_peer:
        delivery_say(delivery, delivery.code, said.delivery_failed, said.undeliverable_here)
    amqp_delivery_settle(delivery)


cdef bint enlist(
        Outlet *outlet, Entry *entry, amqp_delivery_t *delivery, bint early) noexcept nogil:
    """Put an outcome into its transaction; an unknown transaction is an error.

    Return whether the delivery is still there, with no state.
    """
    cdef StateInTransaction state = read_state(outlet.base.peer, delivery.peer_state)
    cdef bint ends = early or delivery.settled_by_peer
    # Merged now and not at the commit, which has to be short.
    cdef Message *after = NULL
    cdef bint enlisted = False
    if state.transaction != NULL:
        after = changed(entry, state.annotations)
        enlisted = enlist_outcome(
            &state, outlet.base.serial, entry, after, NULL if ends else delivery)
    if not enlisted:
        if after != NULL:
            message_release(after)
        if state.transaction == NULL:
            refuse_transaction(&outlet.base)
        else:
            link_refuse(&outlet.base, b"amqp:resource-limit-exceeded",
                        b"the server is out of memory")
        update_readiness(outlet)
        pool_remove(outlet)
    forget_state(delivery)
    if early:
        delivery_let_go(delivery)
        amqp_delivery_abort(delivery)
        if not enlisted:
            # The message was not sent to its end: the end of the link must not find the delivery.
            return_entry(entry)
        return False
    if enlisted and ends:
        delivery_let_go(delivery)
        amqp_delivery_settle(delivery)
        return False
    return True


cdef void outlet_detached(Outlet *outlet) noexcept nogil:
    """Release all messages of an outlet whose link, session or connection has ended.

    Messages that were sent get the default outcome of the link's source, if it has one.
    """
    cdef amqp_delivery_t *delivery
    cdef amqp_delivery_t *following
    cdef Entry *entry
    cdef Entry *latest = NULL
    if outlet._sending != NULL:
        entry = outlet._sending
        abort_sending(outlet)
        apply_outcome(entry, PN_RELEASED, 0, False, False)
    delivery = outlet.base.deliveries.first
    while delivery != NULL:
        following = delivery.next
        entry = entry_of(delivery)
        forget_delivery(delivery)
        if entry != NULL:
            latest = let_go(outlet, delivery, entry, latest)
        if is_attached(&outlet.base):
            # The message will not come by this link again.
            amqp_delivery_settle(delivery)
        else:
            amqp_delivery_drop(delivery)
        delivery = following
    release_all(latest)
    forget_consumer(outlet)
    unclog(outlet)
    free(outlet._lead)
    outlet._lead = NULL
    if outlet.base.role == STREAMS_TO_PEER:
        pool_remove(outlet)
    if outlet.consumer.queue != NULL:
        leave_queue(outlet)


cdef Entry *let_go(
        Outlet *outlet, amqp_delivery_t *delivery, Entry *entry, Entry *latest) noexcept nogil:
    """Apply the default outcome of an ended link, or add the entry to the list to release."""
    cdef amqp_state_t said
    delivery_let_go(delivery)
    if default_outcome(outlet, delivery) and amqp_read_state(delivery.peer_state, &said) == 0:
        outcome_said(entry, delivery)
        apply_outcome(entry, delivery.code, outlet.base.serial, said.delivery_failed,
                      said.undeliverable_here)
        return latest
    entry.next = latest
    return entry


cdef void leave_queue(Outlet *outlet) noexcept nogil:
    """Remove the outlet's consumer from its queue; its messages go to other consumers."""
    cdef Queue *queue = outlet.consumer.queue
    cdef Consumer *consumer
    consumer_leave(&outlet.consumer)
    consumer = queue.consumers
    while queue.local_count == 0 and consumer != NULL:
        if consumer.trunk:
            update_readiness(consumer.outlet)
        consumer = consumer.next
    if queue.available:
        queue.sweep = True
        queue_dirty(queue)


cdef void release_all(Entry *entry) noexcept nogil:
    """Release entries without an outcome, the latest first, so that each goes to the front."""
    cdef Entry *earlier
    while entry != NULL:
        earlier = entry.next
        return_entry(entry)
        entry = earlier


cdef void unclog(Outlet *outlet) noexcept nogil:
    if not outlet.clogged:
        return
    outlet.clogged = False
    list_remove(&outlet.base.peer.clogged, outlet, &outlet._prev_clogged, &outlet._next_clogged)
