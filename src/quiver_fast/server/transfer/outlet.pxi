"""Outgoing messages: transfers to a consumer, and the outcomes that come back."""

cdef enum:
    # Framed bytes of a connection that are not written: more are not added for a consumer.
    OUTGOING_MAX = 131072

# The most waiting output for a stream of ours, whose bytes also count in the stream's memory.
cdef size_t STREAM_OUTGOING_MAX = 32768

# The digits of a tag.
cdef enum:
    FIRST_DIGIT = 0x30
    LAST_DIGIT = 0x39


cdef inline uint32_t credit(const Outlet *outlet) noexcept nogil:
    cdef const amqp_link_end_t *end = outlet.base.deliveries.end
    return end.counts.credit if end != NULL else 0


cdef inline bint exceeds(const Outlet *outlet, uint64_t size) noexcept nogil:
    """Say whether a message, as far as it has come, is more than a link takes (part 2.7.3).

    Another server sends such a message back.
    """
    cdef const amqp_link_end_t *end = outlet.base.deliveries.end
    return end != NULL and end.max_message_size[<int>AMQP_THEIRS] != 0 and (
        size > end.max_message_size[<int>AMQP_THEIRS] and not outlet.base.peer.trunk)


cdef size_t room(Outlet *outlet) noexcept nogil:
    """Return how many more bytes may be framed for the outlet."""
    cdef size_t limit = (
        STREAM_OUTGOING_MAX if outlet.base.role == STREAMS_TO_PEER else OUTGOING_MAX)
    cdef size_t held = amqp_output_waiting(&outlet.base.peer.plane.output)
    if outlet.base.peer.full or held >= limit or not may_transfer(outlet):
        return 0
    return limit - held


cdef inline bint may_transfer(Outlet *outlet) noexcept nogil:
    """Say whether the peer takes a transfer (parts 2.5.6, 2.6.7)."""
    cdef const Peer *peer = outlet.base.peer
    if outlet.base.refused or peer.deliveries.failed or peer.closed:
        return False
    if outlet.delivery != NULL:
        return amqp_delivery_may_go(outlet.delivery)
    return amqp_delivery_may_begin(&outlet.base.deliveries)


cdef amqp_bytes_t next_tag(Tag *tag) noexcept nogil:
    """Return the tag of the next delivery; it is valid until the next call."""
    cdef size_t place = 0
    # The first digit is the lowest one.
    while place < tag.size and tag._digits[place] == LAST_DIGIT:
        tag._digits[place] = FIRST_DIGIT
        place += 1
    if place < tag.size:
        tag._digits[place] += 1
    else:
        tag._digits[place] = FIRST_DIGIT + (place > 0)
        tag.size += 1
    return tag_bytes(tag)


cdef inline amqp_bytes_t tag_bytes(const Tag *tag) noexcept nogil:
    cdef amqp_bytes_t bytes
    bytes.start = <const uint8_t *>tag._digits
    bytes.size = tag.size
    return bytes


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


cdef bint send_whole(Outlet *outlet, Entry *entry) noexcept nogil:
    """Send an acquired entry's message unchanged in one frame. Sent settled, it ends.

    The short way for most messages: it does the same as `send_in_parts`, or returns False.
    """
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
    """Say whether ``size`` bytes may be framed, by the rule of `room`.

    Making the transfer checks whether the peer takes one.
    """
    cdef const Peer *peer = outlet.base.peer
    return not (peer.full or peer.closed or peer.deliveries.failed or outlet.base.refused) and (
        amqp_output_waiting(&peer.plane.output) + size <= OUTGOING_MAX)


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


cdef bint end_accepted(Outlet *outlet, amqp_delivery_t *delivery) noexcept nogil:
    """End a delivery that the consumer accepted and settled after it was sent completely.

    The short way of `outlet_updated`: it does the same, or returns False.
    """
    cdef Entry *entry = entry_of(delivery)
    if entry == NULL or outlet.delivery == delivery or entry.message.stream != NULL:
        return False
    delivery_let_go(delivery)
    entry_done(entry)
    amqp_delivery_drop(delivery)
    peer_dirty(outlet.base.peer)
    return True


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
