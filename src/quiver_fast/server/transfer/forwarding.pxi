"""A stream's bytes from its sender to its readers, and the links that serve a consumer."""

cdef Outlet *sole_reader(const Message *message) noexcept nogil:
    """Return the only outlet that sends a stream; NULL if there are several or none yet."""
    cdef Outlet *outlet = stream_of(message).readers
    if message.readers != 1 or outlet == NULL or outlet.delivery == NULL:
        return NULL
    return outlet


cdef size_t stream_pass(Outlet *outlet, amqp_delivery_t *arriving) noexcept nogil:
    """Forward a stream's bytes to its only reader; return how many it took.

    The server holds none of them: other bytes stay in the window of the sender's session.
    Bytes that are still in the sender's input are lent to the reader's output.
    """
    cdef amqp_hold_t *hold = AMQP_LENT if amqp_delivery_is_fresh(arriving) else NULL
    cdef size_t passed = 0
    drop_sent(outlet, outlet._sending.message)
    if outlet._sending.message.held == 0 and room(outlet) > 0:
        passed = send_piece(outlet, arriving.at, min(arriving.run, OUTGOING_MAX), hold, False)
        amqp_delivery_take(arriving, passed)
        if hold != NULL:
            peer_borrows(outlet.base.peer)
        peer_dirty(outlet.base.peer)
    if passed == 0:
        clog(outlet)
    return passed


cdef void stream_advance(Message *message) noexcept nogil:
    """Send the bytes of a stream that have come to all its readers."""
    cdef Outlet *outlet = stream_of(message).readers
    cdef Outlet *following
    while outlet != NULL:
        following = outlet.next_reader
        if outlet.delivery != NULL:
            outlet_continue(outlet)
            peer_dirty(outlet.base.peer)
        outlet = following


cdef void stream_abort(Message *message) noexcept nogil:
    """Abort a stream at once for all its readers: its sender has left (part 2.7.5)."""
    cdef Stream *stream = stream_of(message)
    cdef Outlet *outlet
    cdef Entry *entry
    message.aborted = True
    while stream.readers != NULL:
        outlet = stream.readers
        entry = outlet._sending
        abort_sending(outlet)
        update_readiness(outlet)
        queue_dirty(entry.queue)
        entry_done(entry)


cdef void serve_consumer(Outlet *outlet, Outlet *consumer) noexcept nogil:
    """Note the consumer of a stream, on its own link or on one of ours."""
    consumer.streams += 1
    outlet._consumer_link = consumer
    list_push(&consumer._served, outlet, &outlet._prev_served, &outlet._next_served)


cdef void leave_consumer(Outlet *outlet) noexcept nogil:
    list_remove(&outlet._consumer_link._served, outlet, &outlet._prev_served, &outlet._next_served)
    outlet._consumer_link = NULL


cdef void forget_consumer(Outlet *consumer) noexcept nogil:
    """Detach the streams on our links from the consumer's own link, which has ended."""
    while consumer._served != NULL:
        leave_consumer(consumer._served)


cdef void inlets_awake(Container *container) noexcept nogil:
    """Continue the streams whose readers have made room."""
    cdef Inlet *inlet
    while container.awake != NULL:
        inlet = container.awake
        container.awake = inlet.next_awake
        inlet.awake = False
        inlet_receive(inlet)
