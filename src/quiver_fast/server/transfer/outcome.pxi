"""The outcome of an acquired entry: it ends, or is available again with its annotations."""

cdef void entry_done(Entry *entry) noexcept nogil:
    """End an acquired entry or a copy, and resume producers that wait for room."""
    cdef Queue *queue = entry.queue
    if queue != NULL and entry.message.index >= 0:
        store_remove(queue, entry.message)
    entry_drop(entry)
    if queue != NULL and (queue.waiting != NULL or queue.links == 0 or queue.orphaned):
        queue_dirty(queue)


cdef void return_entry(Entry *entry) noexcept nogil:
    """Make an entry available again. A browser's copy just ends.

    A stream cannot be sent again, because its bytes are not kept: its sender gets *modified*.
    """
    if entry.queue == NULL:
        entry_drop(entry)
        return
    if entry.message.stream != NULL:
        stream_decide(stream_of(entry.message), PN_MODIFIED, True, False)
        entry_done(entry)
        return
    if entry.message.aborted:
        # The sender aborted the message while a transaction had the entry.
        entry_done(entry)
        return
    queue_restore(entry)
    queue_dirty(entry.queue)


cdef void apply_outcome(
        Entry *entry, uint64_t outcome, uint64_t serial, bint failed,
        bint undeliverable) noexcept nogil:
    """Apply an outcome to an acquired entry; a settlement without one means accepted.

    ``serial`` is the serial number of the consumer's link. A stream's sender gets the outcome.
    """
    if entry.message.stream != NULL and entry.queue != NULL:
        stream_decide(stream_of(entry.message), outcome, failed, undeliverable)
        entry_done(entry)
        return
    if outcome == PN_MODIFIED:
        if failed:
            entry.failures += 1
            if entry.queue != NULL and entry.message.index >= 0:
                note_failure(entry)
        if undeliverable and entry.queue != NULL:
            entry_bar(entry, serial)
    if outcome == PN_MODIFIED or outcome == PN_RELEASED:
        return_entry(entry)
    else:
        entry_done(entry)


cdef void outcome_said(Entry *entry, const amqp_delivery_t *delivery) noexcept nogil:
    """Forward the reason of a stream's rejection; keep annotations of *modified* (part 3.4.5).

    Browsers' copies do not change, nor messages that are only in the queue's file, nor messages of
    another format than AMQP's.
    """
    cdef amqp_state_t state
    cdef Message *after
    if entry.message.stream != NULL:
        if delivery.code == PN_REJECTED:
            stream_reason(entry.message, delivery.peer_state)
        return
    if delivery.code != PN_MODIFIED or amqp_read_state(delivery.peer_state, &state) != 0:
        return
    after = changed(entry, state.annotations)
    if after != NULL:
        replace(entry, after)


cdef bint default_outcome(Outlet *outlet, amqp_delivery_t *delivery) noexcept nogil:
    """Give a delivery without an outcome the default outcome of its source (part 3.5.3).

    Return whether there is one.
    """
    cdef amqp_state_t state
    cdef amqp_bytes_t outcome
    if outlet.base.deliveries.end == NULL or delivery.code > PN_RECEIVED:
        return False
    outcome = outlet.base.deliveries.end.default_outcome
    if outcome.start == NULL or amqp_read_state(outcome, &state) != 0:
        return False
    delivery.code = state.code
    delivery.peer_state = outcome
    return True


cdef void work_said(const Work *work) noexcept nogil:
    """Like `outcome_said`, for an outcome of a committed transaction."""
    if work.changed != NULL:
        work.changed.hold.users += 1
        replace(work.entry, work.changed)


cdef bint can_change(const Entry *entry) noexcept nogil:
    return entry.queue != NULL and entry.message.stream == NULL and (
        entry.message.chain == NULL and entry.message.format == 0
        and not entry.message.header.opaque)


cdef Message *changed(const Entry *entry, amqp_bytes_t annotations) noexcept nogil:
    """Return an acquired entry's message with annotations of *modified*, for its next delivery.

    NULL if the message stays as it is: it would be larger than a message may be here, its queue
    has no room for the annotations, they are malformed or too many, or there is no memory.
    """
    cdef const Queue *queue = entry.queue
    cdef Message *after
    if annotations.start == NULL or not can_change(entry):
        return NULL
    after = message_annotated(entry.message, annotations)
    if after != NULL and after.held > entry.message.held and (
            after.held > queue.container.limits.message_size
            or queue.bytes + after.held - entry.message.held > queue.limit + queue.limit // 8):
        message_release(after)
        return NULL
    return after


cdef void replace(Entry *entry, Message *after) noexcept nogil:
    """Give an entry a message of its own, because other entries may share the present one.

    Take over one reference.
    """
    cdef Message *before = entry.message
    message_read_header(after, 0)
    after.complete = True
    after.from_trunk = before.from_trunk
    after.origin = before.origin
    after.expires = before.expires
    after.index = before.index
    entry.queue.bytes += after.held - before.held
    entry.queue.container.traffic.bytes += after.held - before.held
    entry.bytes += after.held - before.held
    entry.message = after
    message_release(before)
