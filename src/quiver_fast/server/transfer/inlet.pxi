"""Incoming messages: from a producer's link into a queue, as far as there is room."""

cdef void inlet_receive(Inlet *inlet) noexcept nogil:
    """Take deliveries from the link until there are no more or there is no room."""
    receive_all(inlet)
    if inlet.blocked_by == NULL:
        inlet_top_up(inlet)
        peer_dirty(inlet.base.peer)
    inlet_holds(inlet)


cdef void inlet_arrived(Inlet *inlet) noexcept nogil:
    """Take new deliveries; the end of the turn does the rest of `inlet_receive`."""
    receive_all(inlet)
    inlet_wake(inlet)


cdef bint take_whole(Inlet *inlet, const amqp_arrival_t *arrival) noexcept nogil:
    """Publish and accept a message that came in one frame, without a record of its delivery.

    The short way for most messages: it does the same as `receive_all`, or returns False.
    """
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


cdef void receive_all(Inlet *inlet) noexcept nogil:
    cdef amqp_delivery_t *delivery
    cdef bint more = True
    while more:
        delivery = inlet.base.deliveries.current
        if delivery == NULL:
            break
        if inlet.base.refused:
            more = ignore(inlet, delivery)
        elif delivery.aborted:
            more = drop_aborted_delivery(inlet, delivery)
        elif inlet_must_wait(inlet):
            return
        elif inlet.receiving != NULL and inlet.receiving.complete:
            # The queue had no file when the message came.
            take(inlet, delivery, inlet.receiving)
        elif inlet.receiving != NULL and inlet.receiving.stream != NULL:
            more = stream_more(inlet, delivery)
        else:
            more = receive_more(inlet, delivery)


cdef bint drop_aborted_delivery(Inlet *inlet, amqp_delivery_t *delivery) noexcept nogil:
    """Forget an aborted delivery: the abort settles it (part 2.7.5)."""
    give_up(inlet)
    amqp_delivery_settle(delivery)
    return True


cdef bint ignore(Inlet *inlet, amqp_delivery_t *delivery) noexcept nogil:
    """Drop the deliveries of a refused link until the peer knows of the refusal.

    They get an outcome, because a settlement without one would count as accepted.
    """
    delivery_lost(&inlet.base, delivery)
    give_up(inlet)
    amqp_delivery_take(delivery, delivery.pending)
    if delivery.partial:
        return False
    amqp_delivery_say(delivery, AMQP_CODE_RELEASED)
    amqp_delivery_settle(delivery)
    return True


cdef void refuse_inlet(Inlet *inlet, const char *condition, const char *why) noexcept nogil:
    """Detach the link with an error, and abort its message: the rest may never come."""
    link_refuse(&inlet.base, condition, why)
    delivery_lost(&inlet.base, inlet.base.deliveries.current)
    give_up(inlet)


cdef void give_up(Inlet *inlet) noexcept nogil:
    """Abort the arriving message, which will never be complete."""
    cdef Message *message = inlet.receiving
    if message == NULL:
        return
    drop_parts(inlet)
    spill_end(inlet)
    judging_ends(inlet)
    inlet.receiving = NULL
    if message.stream != NULL:
        if stream_of(message).inlet != NULL:
            stream_orphan(stream_of(message))
        abort_stream(inlet, message)
    message_release(message)


cdef void abort_stream(Inlet *inlet, Message *message) noexcept nogil:
    """Abort a stream in all outlets that send it and in all queues where it waits."""
    stream_abort(message)
    sweep_streams(inlet.queue if inlet.queue != NULL else inlet.destination)
    memory_freed(inlet.base.peer.container)


cdef void queue_resume(Queue *queue) noexcept nogil:
    """Resume waiting producers once a quarter of the room is free and the file is open."""
    cdef Inlet *inlet = queue.waiting
    if queue.multicast:
        resume_judging(queue)
        return
    if queue.unopened:
        queue.unopened = False
        refuse_waiting(inlet)
    if inlet == NULL or queue.opening or queue.bytes > queue.limit - queue.limit // 4:
        return
    queue.waiting = NULL
    resume(inlet)


cdef void resume_judging(Queue *topic) noexcept nogil:
    """Resume producers whose messages wait for a topic's selectors: first the one under way."""
    cdef Inlet *inlet = topic.judging
    cdef Inlet *earlier
    if inlet != NULL and inlet.blocked_by == topic:
        inlet_go_on(inlet)
    inlet = topic.waiting
    while inlet != NULL and inlet.next_waiting != NULL:
        inlet = inlet.next_waiting
    while inlet != NULL and topic.judging == NULL and topic.container.judging_left > 0:
        # Those that wait again come first in the list.
        earlier = inlet.prev_waiting
        inlet_go_on(inlet)
        inlet = earlier
    if topic.waiting != NULL:
        select_later(topic)


cdef void inlet_go_on(Inlet *inlet) noexcept nogil:
    end_waiting(inlet)
    inlet_receive(inlet)


cdef void resume(Inlet *inlet) noexcept nogil:
    """Resume a list of producers that waited for room."""
    cdef Inlet *following
    while inlet != NULL:
        following = inlet.next_waiting
        inlet.blocked_by = NULL
        inlet_receive(inlet)
        inlet = following


cdef inline bint is_too_large(const Inlet *inlet, const Message *message) noexcept nogil:
    """Say whether a message is larger than the limit, or too large for any queue."""
    cdef const Limits *limits = &inlet.base.peer.container.limits
    return message.size > limits.message_size or message.held > limits.queue_bytes


cdef bint too_large(Inlet *inlet, const Message *message) noexcept nogil:
    """Refuse a message that is larger than the limit, and its link with it."""
    if not is_too_large(inlet, message):
        return False
    refuse_inlet(
        inlet, b"amqp:link:message-size-exceeded",
        b"the message is larger than this server accepts")
    return True


cdef bint out_of_memory(Inlet *inlet) noexcept nogil:
    refuse_inlet(inlet, b"amqp:resource-limit-exceeded", b"the server is out of memory")
    return False


cdef void take(Inlet *inlet, amqp_delivery_t *delivery, Message *message) noexcept nogil:
    """Publish a complete message, and give its outcome."""
    cdef Queue *queue
    cdef bint waits
    message.complete = True
    message_fit(message)
    inlet.receiving = NULL
    note_size(inlet, message)
    if not inlet.wide and message.size < inlet.base.peer.container.limits.frame_size:
        widen_session(inlet)
    # The beginning of a chain is in the file, and its header was read before.
    if message.chain == NULL and message_read(
            message, inlet.base.peer.container.now_ms, True) != HEADER_READ:
        delivery_reject(
            &inlet.base, delivery, b"amqp:decode-error", b"this is not an AMQP message")
        message_release(message)
        return
    queue = inlet.queue if inlet.queue != NULL else inlet.destination
    if queue == NULL:
        queue = queue_of_message(inlet, delivery, message)
    if queue == NULL:
        message_release(message)
        return
    if delivery.code == TRANSACTIONAL_STATE:
        take_in_transaction(inlet, delivery, message, queue)
        return
    if message.chain != NULL:
        take_chain(inlet, delivery, message, queue)
        return
    if is_stored(queue, message) and lacks_file(queue):
        wait_for_file(inlet, message, queue)
        return
    if queue.multicast and must_be_judged(inlet, message, queue):
        inlet.receiving = message
        return
    if is_stored(queue, message) and not store_append(queue, message):
        message_release(message)
        refuse_for_now(queue, delivery)
        return
    waits = must_wait(queue, message)
    if not publish(queue, message):
        if queue.multicast:
            refuse_for_now(queue, delivery)
        else:
            delivery_reject(
                &inlet.base, delivery, b"amqp:resource-limit-exceeded",
                b"the server is out of memory")
        return
    accept_record(inlet, delivery, waits)


cdef void accept_record(Inlet *inlet, amqp_delivery_t *delivery, bint waits) noexcept nogil:
    """Accept a message whose delivery has a record, and free the record."""
    if not delivery.settled_by_peer:
        accept(inlet, delivery.id, waits)
    amqp_delivery_drop(delivery)


cdef inline void accept(Inlet *inlet, uint32_t id, bint waits) noexcept nogil:
    """Accept a message at once, or when it is on disk."""
    if not waits or not accept_later(&inlet.base, id):
        # Without memory for the waiter, nobody would answer after the sync.
        amqp_deliveries_settle(
            &inlet.base.peer.deliveries, inlet.base.deliveries.end, id, id,
            AMQP_CODE_MODIFIED if waits else AMQP_CODE_ACCEPTED)


cdef void take_in_transaction(
        Inlet *inlet, amqp_delivery_t *delivery, Message *message, Queue *queue) noexcept nogil:
    """Keep a message for its transaction's commit, with a transactional outcome (part 4.4.1)."""
    cdef StateInTransaction state = read_state(inlet.base.peer, delivery.peer_state)
    cdef Limits *limits = &inlet.base.peer.container.limits
    if state.transaction != NULL and state.transaction.bytes >= limits.queue_bytes:
        message_release(message)
        state.transaction.incomplete = True
        link_refuse(&inlet.base, b"amqp:resource-limit-exceeded",
                    b"the transaction is larger than a queue may be")
        return
    if state.transaction == NULL:
        message_release(message)
        refuse_transaction(&inlet.base)
        return
    if not enlist_message(state.transaction, message, queue):
        message_release(message)
        out_of_memory(inlet)
        return
    if is_stored(queue, message) and queue.store == NULL:
        # The commit waits for the file.
        want_store(queue)
    if not delivery.settled_by_peer:
        answer_in_transaction(state.transaction, delivery, AMQP_CODE_ACCEPTED)
    amqp_delivery_settle(delivery)


cdef void inlet_detached(Inlet *inlet) noexcept nogil:
    """Abort an incomplete message, and remove the link from every list."""
    cdef Inlet **place
    cdef const amqp_delivery_t *delivery = inlet.base.deliveries.current
    while delivery != NULL:
        delivery_lost(&inlet.base, delivery)
        delivery = delivery.next
    give_up(inlet)
    inlet_lets_go(inlet)
    inlet_bind(inlet, NULL)
    forget_pending(&inlet.base)
    while inlet.streams != NULL:
        stream_orphan(inlet.streams)
    if inlet.awake:
        place = &inlet.base.peer.container.awake
        while place[0] != inlet:
            place = &place[0].next_awake
        place[0] = inlet.next_awake
    end_waiting(inlet)
