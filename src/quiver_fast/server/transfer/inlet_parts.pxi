"""Incoming messages that come in parts: kept until they are complete, passed on as streams, or
written to the queue's file as they come.
"""

cdef bint receive_more(Inlet *inlet, amqp_delivery_t *delivery) noexcept nogil:
    """Read the current delivery; return whether the link may have more to do."""
    cdef Message *message = inlet.receiving
    cdef size_t pending = delivery.pending
    cdef bint partial = delivery.partial
    cdef size_t size = min(pending, <size_t>STREAM_HIGH) if partial and inlet.streaming else pending
    if message == NULL:
        message = message_in_parts() if partial else message_new(pending)
        if message == NULL:
            return out_of_memory(inlet)
        message.format = delivery.format
        message.origin = inlet.origin
        inlet.receiving = message
        inlet_bind(inlet, NULL)
        message.from_trunk = inlet.base.peer.trunk
    if not read_into(delivery, message, size):
        return out_of_memory(inlet)
    return received(inlet, delivery, message, partial) or size < pending


cdef bint received(
        Inlet *inlet, amqp_delivery_t *delivery, Message *message, bint partial) noexcept nogil:
    """Process the bytes that have come; return whether the link may have more to do."""
    if inlet.base.role == TRUNK_CONSUMER and is_too_large(inlet, message):
        return send_back(inlet, delivery, message)
    if too_large(inlet, message):
        return False
    if message.chain != NULL and partial:
        return keep_arrived(inlet, delivery, message)
    if message.chain == NULL and inlet.base.role == STREAMS_FROM_SERVER and (
            inlet.destination == NULL or not partial):
        return receive_routed(inlet, delivery, message, partial)
    if partial:
        return may_stream(inlet, delivery, message) and stream_start(inlet, delivery, message)
    if message.chain != NULL and must_end_later(inlet, message):
        return False
    take(inlet, delivery, message)
    return True


cdef bint receive_routed(
        Inlet *inlet, amqp_delivery_t *delivery, Message *message, bint partial) noexcept nogil:
    """Continue a stream from another server; return whether the link may have more to do.

    It stays a stream even if its end has come: the sender gets the consumer's outcome.
    """
    cdef Route route
    cdef Absence absence
    cdef HeaderResult result = HEADER_READ
    route.presettled = False
    if inlet.destination == NULL:
        result = message_read_route(message, inlet.base.peer.container.now_ms, &route)
        if result == HEADER_MORE and partial and message.first.next == NULL:
            return False
        if result == HEADER_READ:
            inlet_bind(inlet, named_queue(inlet, route.address, route.size, &absence))
            message_strip_route(message, &route)
    if result != HEADER_READ or inlet.destination == NULL:
        return refuse_stream(
            inlet, delivery, message, b"amqp:precondition-failed",
            b"the message has no route here")
    if stream_start(inlet, delivery, message):
        stream_of(message).presettled |= route.presettled
        return True
    if partial or inlet.base.refused or inlet.blocked_by != NULL or must_end_later(inlet, message):
        return False
    # The queue keeps the message.
    take(inlet, delivery, message)
    return True


cdef bint send_back(Inlet *inlet, amqp_delivery_t *delivery, Message *message) noexcept nogil:
    """Return a message that is too large to the other server, for its own consumers.

    The link stays, because other messages of the address come by it. The rest of this message is
    dropped.
    """
    drop_parts(inlet)
    if message.stream != NULL:
        abort_stream(inlet, message)
        stream_of(message).undecided = 0
    elif not stream_begin(inlet, delivery, message, 0):
        return out_of_memory(inlet)
    stream_decide(stream_of(message), PN_MODIFIED, False, True)
    return True


cdef bint may_stream(
        Inlet *inlet, amqp_delivery_t *delivery, const Message *message) noexcept nogil:
    """Say whether to forward a message before it is complete.

    Yes if its link asks for streams, or if as many bytes have come as a stream may hold. A message
    of a transaction or for the queue's file must be complete first.
    """
    return (inlet.streaming or message.size >= STREAM_SIZE) and (
        delivery.code != TRANSACTIONAL_STATE)


cdef bint stream_start(Inlet *inlet, amqp_delivery_t *delivery, Message *message) noexcept nogil:
    """Begin to forward a message as it arrives; return whether it has begun."""
    cdef HeaderResult header = message_read(
        message, inlet.base.peer.container.now_ms, False)
    cdef Queue *queue = inlet.queue if inlet.queue != NULL else inlet.destination
    cdef Absence absence
    cdef int entries
    if header == HEADER_READ and queue == NULL:
        header = queue_of_stream(inlet, message, &queue, &absence)
    if header == PROPERTIES_MORE or header == HEADER_MORE and message.first.next == NULL:
        return False
    if header == HEADER_MALFORMED or header == HEADER_MORE and queue != NULL:
        return refuse_stream(
            inlet, delivery, message, b"amqp:decode-error", b"this is not an AMQP message")
    if queue == NULL:
        return refuse_stream(inlet, delivery, message, absence.condition, absence.why)
    if is_stored(queue, message) or (
            queue.storable and not message.from_trunk and not can_pass(queue)):
        inlet_bind(inlet, queue)
        return keep_arrived(inlet, delivery, message)
    if queue.kept_subscriptions:
        # Each subscription gets the complete message: its consumer may come later.
        return False
    if not (inlet.streaming or queue.multicast or queue.consumer_count > queue.selective_count):
        # The queue keeps the message for a later consumer.
        return False
    if queue.multicast and must_be_judged(inlet, message, queue):
        return False
    if has_expired(message, queue.container.now_ms):
        return drop_stream(inlet, delivery, message)
    inlet_bind(inlet, queue)
    entries = subscription_count(queue, message) if queue.multicast else 1
    if not stream_begin(inlet, delivery, message, entries):
        return out_of_memory(inlet)
    message.hold.users += 1
    publish(queue, message)
    if entries == 0:
        stream_decide(stream_of(message), PN_RELEASED, False, False)
    return True


cdef bint drop_stream(Inlet *inlet, amqp_delivery_t *delivery, Message *message) noexcept nogil:
    """Accept an expired message, and drop it, as a queue would (part 3.2.4)."""
    if not stream_begin(inlet, delivery, message, 0):
        return out_of_memory(inlet)
    stream_decide(stream_of(message), PN_ACCEPTED, False, False)
    return True


cdef bint keep_arrived(Inlet *inlet, amqp_delivery_t *delivery, Message *message) noexcept nogil:
    """Write a long message's bytes to the queue's file; return whether there may be more to do.

    The message is accepted when it is complete, but consumers get it while it arrives.
    """
    cdef bint over = message.chain != NULL and passage_is_over(message)
    cdef uint64_t outcome = passage_outcome(message) if over else PN_MODIFIED
    if lacks_file(inlet.destination):
        wait_for_file(inlet, message, inlet.destination)
        return False
    if not over and passage_write(inlet, inlet.destination, message):
        return False
    drop_parts(inlet)  # a consumer gave an outcome, or the disk is full
    if not over and is_scarce(inlet.destination):
        return refuse_stream(inlet, delivery, message, SCARCE, NO_DESCRIPTORS)
    if not stream_begin(inlet, delivery, message, 0):
        return out_of_memory(inlet)
    stream_decide(stream_of(message), outcome, not over, False)
    return True


cdef void drop_parts(Inlet *inlet) noexcept nogil:
    """Remove a message that will not be complete from its queue and its readers."""
    if inlet.receiving.chain != NULL:
        chain_of(inlet.receiving).inlet = NULL
        if inlet.destination != NULL:
            passage_abort(inlet.destination, inlet.receiving)


cdef bint refuse_stream(
        Inlet *inlet, amqp_delivery_t *delivery, Message *message, const char *condition,
        const char *why) noexcept nogil:
    """Reject an arriving message; read and drop its rest."""
    if not stream_begin(inlet, delivery, message, 0):
        return out_of_memory(inlet)
    amqp_delivery_say_rejected(delivery, NULL, condition, why)
    stream_decide(stream_of(message), PN_REJECTED, False, False)
    return True


cdef bint stream_more(Inlet *inlet, amqp_delivery_t *delivery) noexcept nogil:
    """Continue a stream as far as its readers leave room; return whether it has ended."""
    cdef Message *message = inlet.receiving
    cdef bint partial = delivery.partial
    cdef size_t pending = delivery.pending
    cdef Outlet *reader
    cdef size_t passed
    while pending or has_spilled(inlet):
        if message.readers == 0:
            spill_forget(inlet)
            amqp_delivery_take(delivery, pending)
            pending = 0
            continue
        reader = NULL if has_spilled(inlet) else sole_reader(message)
        if reader != NULL and exceeds(reader, message.size + pending):
            refuse_size(reader)
            continue
        if reader != NULL:
            passed = stream_pass(reader, delivery)
            if passed == 0:
                return keep_unread(inlet, delivery)
            message.size += passed
        elif message.held >= STREAM_HIGH:
            return keep_unread(inlet, delivery)
        elif has_spilled(inlet):
            if not spill_back(inlet, message, STREAM_HIGH - message.held):
                return lose(inlet)
        elif not read_into(delivery, message, min(pending, <size_t>STREAM_HIGH - message.held)):
            return out_of_memory(inlet)
        if message.size > inlet.base.peer.container.limits.message_size and not message.aborted:
            if inlet.base.role == TRUNK_CONSUMER:
                return send_back(inlet, delivery, message)
            return not too_large(inlet, message)
        if reader == NULL:
            stream_advance(message)
        pending = delivery.pending
    if partial:
        return False
    message.complete = True
    inlet.receiving = NULL
    spill_end(inlet)
    amqp_delivery_advance(delivery)
    stream_advance(message)
    stream_received(stream_of(message))
    message_release(message)
    return True


cdef bint keep_unread(Inlet *inlet, amqp_delivery_t *delivery) noexcept nogil:
    """Wait until readers have made room; keep only few bytes of the stream in memory."""
    return False if spill(inlet, delivery) else lose(inlet)


cdef bint lose(Inlet *inlet) noexcept nogil:
    refuse_inlet(inlet, b"amqp:internal-error", b"the unread bytes of a stream are lost")
    return False


cdef void take_chain(
        Inlet *inlet, amqp_delivery_t *delivery, Message *message, Queue *queue) noexcept nogil:
    """Take a complete message that was stored as it arrived."""
    cdef bint shown = chain_of(message).shown
    cdef bint waits
    if passage_is_over(message):
        amqp_delivery_say(delivery, <amqp_code>passage_outcome(message))
        amqp_delivery_settle(delivery)
        passage_abort(queue, message)
        message_release(message)
        return
    if not passage_complete(queue, message):
        passage_abort(queue, message)
        message_release(message)
        refuse_for_now(queue, delivery)
        return
    waits = must_wait(queue, message)
    if shown:
        message_release(message)
    elif not publish(queue, message):
        delivery_reject(
            &inlet.base, delivery, b"amqp:resource-limit-exceeded", b"the server is out of memory")
        return
    accept_record(inlet, delivery, waits)
