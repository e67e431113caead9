"""A long message that is stored as it arrives, and is delivered from the file meanwhile.

The message is in its queue from the first part on, and its consumer reads the written part of the
file. If the consumer detaches before the end, the next consumer gets the message from its
beginning. The queue owns the message when the last part is stored. An abort before that removes
it everywhere.
"""

# Parts are no smaller, except for the first parts of a message and its last one.
cdef size_t PART_LEAST = 512
cdef size_t SMALL_PARTS = 1024


cdef bint passage_write(Inlet *inlet, Queue *queue, Message *message) noexcept nogil:
    """Write the bytes of a link's message, and resume its readers; return False on a failure.

    Without a consumer, wait until there are 64 KiB.
    """
    if message.held == 0 or message.held < STREAM_HIGH and (
            queue.consumer_count == 0 or has_small_parts(message)):
        return True
    if not store_part(queue, message, False):
        return False
    if not chain_of(message).shown:
        show(queue, message)
        chain_of(message).inlet = inlet
    elif queue.selective_count and message.size <= STREAM_HIGH:
        # Now consumers with selectors may find the properties complete.
        queue_dirty(queue)
    pass_on(message)
    return True


cdef bint has_small_parts(const Message *message) noexcept nogil:
    """Say whether the next bytes are too few for one more part.

    A part takes more than 40 bytes of the file, and may take a span in memory.
    """
    cdef const Chain *chain = chain_of(message)
    return message.held < PART_LEAST and chain != NULL and (
        chain.parts > SMALL_PARTS + chain.size // PART_LEAST)


cdef void show(Queue *queue, Message *message) noexcept nogil:
    """Queue an arriving message; without memory it is queued at its end."""
    cdef Entry *entry
    message.hold.users += 1
    entry = queue_append(queue, message)
    if entry == NULL:
        message_release(message)
        return
    chain_of(message).shown = True
    chain_of(message).entry = entry
    queue_dirty(queue)


cdef void pass_on(Message *message) noexcept nogil:
    """Send the written bytes to all readers."""
    cdef Outlet *outlet = <Outlet *>chain_of(message).readers
    cdef Outlet *following
    while outlet != NULL:
        following = outlet.next_reader
        if outlet.delivery != NULL:
            outlet_continue(outlet)
            peer_dirty(outlet.base.peer)
        outlet = following


cdef bint passage_is_over(const Message *message) noexcept nogil:
    """Say whether a message got its outcome before its end, so that only its sender has it."""
    return chain_of(message).shown and chain_of(message).entry == NULL


cdef uint64_t passage_outcome(const Message *message) noexcept nogil:
    """Return the outcome that came before the end. An expired message counts as accepted."""
    return PN_REJECTED if chain_of(message).outcome == PN_REJECTED else PN_ACCEPTED


cdef bint passage_complete(Queue *queue, Message *message) noexcept nogil:
    """Store the last part of a complete message; return False on a failure."""
    cdef Entry *entry
    if not store_part(queue, message, True):
        return False
    if not chain_of(message).shown:
        return True
    entry = <Entry *>chain_of(message).entry
    if entry != NULL and entry.lane == &queue.streaming:
        queue_in_turn(queue, entry)
    pass_on(message)
    return True


cdef void queue_in_turn(Queue *queue, Entry *entry) noexcept nogil:
    """Move a completed message to the end of the queue.

    An acquired message gets its place there too, in case it is released.
    """
    if not entry.acquired:
        lane_remove(entry.lane, entry)
    entry.lane = &queue.main
    entry.sequence = queue.next_sequence
    queue.next_sequence += 1
    put_new(queue, entry)
    if entry.acquired:
        lane_remove(entry.lane, entry)
        return
    if queue.watchers:
        show_new(queue, entry)
    queue_dirty(queue)


cdef void passage_abort(Queue *queue, Message *message) noexcept nogil:
    """Remove a message that will not be complete from its queue and its readers."""
    cdef Outlet *outlet
    cdef Entry *entry
    message.aborted = True
    while chain_of(message).readers != NULL:
        outlet = <Outlet *>chain_of(message).readers
        entry = outlet._sending
        abort_sending(outlet)
        update_readiness(outlet)
        entry_done(entry)
    entry = <Entry *>chain_of(message).entry
    # If a transaction has the entry, it ends with the transaction.
    if entry != NULL and not entry.acquired:
        queue_acquire(queue, entry)
        entry_done(entry)
    store_forget(queue)
