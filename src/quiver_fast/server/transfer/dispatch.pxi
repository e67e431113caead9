"""Dispatch: entries go to consumers in turn, streams to the consumer with the fewest streams."""

# With fewer entries, consumers take turns.
cdef size_t SHARES_FROM = 64
# The most expired entries that are dropped in one turn, so that other queues get theirs.
cdef int EXPIRE_STEP = 4096


cdef void queue_dispatch(Queue *queue) noexcept nogil:
    """Give available entries to consumers in order, as far as credit and room allow."""
    cdef Entry *entry
    # How many looks at a consumer may still take the share.
    cdef size_t looks = 0
    cdef size_t share = 1
    if queue.expiry.count and heap_first(&queue.expiry) <= queue.container.now_ms:
        expire(queue)
    if queue.browsers != NULL:
        serve_browsers(queue)
    if queue.selecting != NULL:
        serve_selective(queue)
    if queue.streams and (queue.sweep or queue.consumer_count == 0):
        sweep(queue)
    queue.sweep = False
    entry = next_entry(queue)
    while entry != NULL:
        if entry.lane != &queue.streaming:
            if looks == 0:
                looks = queue.consumer_count
                share = share_of_each(queue)
            looks -= 1
            serve(queue, entry, share)
        elif entry.message.chain != NULL:
            if not dispatch_arriving(queue, entry):
                # The message is in the file, so its sender does not wait.
                dispatch_messages(queue)
                break
        elif not dispatch_stream(queue, entry):
            break
        entry = next_entry(queue)
    if queue.draining != NULL:
        answer_drains(queue)


cdef inline Entry *next_message(Queue *queue) noexcept nogil:
    """Return the first entry other than a stream that a consumer may take; NULL if there is none.
    """
    cdef Entry *entry = queue.main.head if queue.ready != NULL else NULL
    if queue.lanes != NULL and queue.ready != NULL:
        entry = first_of_lanes(queue, entry)
    return entry


cdef inline Entry *next_entry(Queue *queue) noexcept nogil:
    """Return the first entry that a consumer may take; NULL if there is none.

    Streams overtake messages that wait for credit: they need no credit of that link.
    """
    cdef Entry *entry = next_message(queue)
    cdef Entry *stream = queue.streaming.head
    if stream != NULL and (entry == NULL or stream.sequence < entry.sequence):
        return stream
    return entry


cdef size_t share_of_each(const Queue *queue) noexcept nogil:
    """Return how many entries each consumer may take at one look: few looks cost less than many.

    All get an equal share of half of the entries, then of half of the rest, and so on. Where few
    wait, or not every consumer may have each, they take turns.
    """
    if queue.lanes != NULL or queue.streaming.head != NULL or queue.watchers:
        return 1
    if queue.consumer_count == 1:
        return queue.available
    if queue.available < SHARES_FROM:
        return 1
    return max(queue.available // (2 * queue.consumer_count), <size_t>1)


cdef void dispatch_messages(Queue *queue) noexcept nogil:
    """Give complete entries to consumers."""
    cdef Entry *entry = next_message(queue)
    while entry != NULL:
        serve(queue, entry, 1)
        entry = next_message(queue)


cdef Entry *first_of_lanes(Queue *queue, Entry *entry) noexcept nogil:
    """Return the first of ``entry`` and the barred lanes' entries for some ready consumer."""
    cdef Lane *lane = queue.lanes
    while lane != NULL:
        if lane.head != NULL and (entry == NULL or lane.head.sequence < entry.sequence) and (
                first_allowed(queue, lane) != NULL):
            entry = lane.head
        lane = lane.next
    return entry


cdef void sweep(Queue *queue) noexcept nogil:
    """End waiting streams that no consumer can take any more."""
    cdef Entry *entry = queue.streaming.head
    cdef Entry *following
    while entry != NULL:
        following = entry.next
        if entry.message.stream == NULL:
            # The message is in the file.
            pass
        elif entry.message.aborted:
            drop_aborted_entry(queue, entry)
        elif queue.consumer_count == 0 or is_stranded(queue, entry):
            release_stream(queue, entry)
        entry = following


cdef bint is_stranded(const Queue *queue, const Entry *entry) noexcept nogil:
    """Say whether another server sent an entry for consumers that have left."""
    return entry.message.from_trunk and queue.local_count == 0


cdef void serve(Queue *queue, Entry *entry, size_t share) noexcept nogil:
    """Give the next ready consumer that may have an entry this one, and those after it.

    It takes no more than its share, and than it has credit and room for. Expired entries end.
    """
    cdef Consumer *consumer = queue.ready
    if entry.lane.barred != NULL:
        consumer = first_allowed(queue, entry.lane)
    # A consumer that got entries goes last if it stays in the ring.
    if queue.ready == consumer:
        queue.ready = consumer.next_ready
    while True:
        queue_acquire(queue, entry)
        fetch_ahead(queue.main.head)
        if has_expired(entry.message, queue.container.now_ms) and entry.message.stream == NULL:
            entry_done(entry)
        else:
            outlet_send(consumer.outlet, entry)
        share -= 1
        entry = queue.main.head
        if share == 0 or entry == NULL or not consumer.ready:
            return


cdef inline void fetch_ahead(const Entry *entry) noexcept nogil:
    """Fetch the memory of an entry's message and of the next entry before their turn."""
    if entry != NULL:
        prefetch(entry.message)
        prefetch(entry.message + 1)
        prefetch(entry.next)


cdef Consumer *first_allowed(Queue *queue, const Lane *lane) noexcept nogil:
    """Return the first ready consumer that the lane is not barred to."""
    cdef Consumer *first = queue.ready
    cdef Consumer *consumer = first
    while True:
        if not lane_barred(lane, consumer.outlet.base.serial):
            return consumer
        consumer = consumer.next_ready
        if consumer == first:
            return NULL


cdef bint dispatch_stream(Queue *queue, Entry *entry) noexcept nogil:
    """Give a stream to a consumer; return False if it must wait for one.

    To a peer that offers qd.streaming-links, the stream goes by a link of its own, and needs no
    credit of the consumer's link. To other peers it goes by the consumer's link, like any message.
    """
    cdef Consumer *consumer
    cdef Outlet *outlet
    cdef bint later
    if is_stranded(queue, entry) or not is_attended(queue):
        release_stream(queue, entry)
        return True
    if has_expired(entry.message, queue.container.now_ms):
        end_stream(queue, entry, PN_ACCEPTED)
        return True
    if not all_judged(queue, entry):
        return False
    if is_unwanted(queue):
        release_stream(queue, entry)
        return True
    if entry.message.complete:
        # The message was complete before it was forwarded, so it is no stream any more.
        return dispatch_complete(queue, entry)
    consumer = least_busy(queue, queue.local_count == 0)
    if consumer == NULL:
        return False
    outlet = consumer.outlet
    if outlet.base.peer.streaming_links:
        outlet = stream_outlet(consumer.outlet, &later)
        if outlet == NULL and later:
            return False
        if outlet == NULL:
            release_stream(queue, entry)
            return True
    queue_acquire(queue, entry)
    serve_consumer(outlet, consumer.outlet)
    outlet_send(outlet, entry)
    return True


cdef bint is_attended(const Queue *queue) noexcept nogil:
    """Say whether a queue has a consumer whose link we did not refuse."""
    cdef const Consumer *consumer = queue.consumers
    while consumer != NULL and consumer.outlet.base.refused:
        consumer = consumer.next
    return consumer != NULL


cdef bint dispatch_complete(Queue *queue, Entry *entry) noexcept nogil:
    """Give a completed stream to a ready consumer; return False if there is none for it."""
    cdef Consumer *consumer = queue.selective
    if queue.ready != NULL:
        serve(queue, entry, 1)
        return True
    while consumer != NULL and not (consumer.ready and wants(consumer)):
        consumer = consumer.next_selective
    if consumer == NULL:
        return False
    queue_acquire(queue, entry)
    outlet_send(consumer.outlet, entry)
    return True


cdef bint dispatch_arriving(Queue *queue, Entry *entry) noexcept nogil:
    """Give a message that is stored as it arrives to a consumer of this server.

    Return False if it must wait for one. Other servers get the message when it is complete.
    """
    cdef Consumer *consumer
    cdef Outlet *outlet = NULL
    cdef bint later
    if not all_judged(queue, entry):
        return False
    consumer = least_busy(queue, False)
    if consumer == NULL:
        return False
    if consumer.outlet.base.peer.streaming_links:
        outlet = stream_outlet(consumer.outlet, &later)
    elif consumer.ready:
        outlet = consumer.outlet
    if outlet == NULL:
        return False
    queue_acquire(queue, entry)
    serve_consumer(outlet, consumer.outlet)
    outlet_send(outlet, entry)
    return True


cdef Consumer *least_busy(Queue *queue, bint trunks) noexcept nogil:
    """Return the consumer with the fewest streams that can take the entry that was judged, or NULL.

    Args:
        trunks: look at other servers instead of consumers here.
    """
    cdef Consumer *consumer = queue.consumers
    cdef Consumer *best = NULL
    while consumer != NULL:
        if consumer.trunk == trunks and not consumer.outlet.base.refused and (
                consumer.ready or consumer.outlet.base.peer.streaming_links):
            if (best == NULL or consumer.outlet.streams < best.outlet.streams) and (
                    wants(consumer)):
                best = consumer
        consumer = consumer.next
    return best


cdef void drop_aborted_entry(Queue *queue, Entry *entry) noexcept nogil:
    queue_acquire(queue, entry)
    stream_leave(entry.message, entry.message.first)
    entry_done(entry)


cdef void release_stream(Queue *queue, Entry *entry) noexcept nogil:
    """End a stream that no consumer can take. Its sender may send it again."""
    end_stream(queue, entry, PN_RELEASED)


cdef void end_stream(Queue *queue, Entry *entry, uint64_t outcome) noexcept nogil:
    queue_acquire(queue, entry)
    stream_leave(entry.message, entry.message.first)
    apply_outcome(entry, outcome, 0, False, False)


cdef void serve_browsers(Queue *queue) noexcept nogil:
    cdef Consumer *consumer = queue.browsers
    # Consumers with selectors get the rest of the turn.
    cdef int64_t rest = max(queue.container.judging_left, 0) // 2
    queue.container.judging_left -= rest
    while consumer != NULL:
        while outlet_idle(consumer.outlet):
            if not send_copy(consumer):
                break
        consumer = consumer.next
    queue.container.judging_left += rest


cdef void serve_selective(Queue *queue) noexcept nogil:
    """Give matching entries to consumers with selectors, one entry each in turn."""
    cdef Consumer *consumer = queue.selecting
    # The first of a series of consumers without a match.
    cdef Consumer *content = NULL
    cdef Entry *entry
    while consumer != NULL and consumer != content:
        entry = selective_next(consumer)
        if entry != NULL:
            queue.selecting = consumer.next_ready
            send_selected(queue, consumer, entry)
            content = NULL
            consumer = queue.selecting
            continue
        if queue.container.judging_left <= 0:
            # The next consumer goes on in a later turn.
            queue.selecting = consumer.next_ready
            return
        if content == NULL:
            content = consumer
        consumer = consumer.next_ready


cdef void send_selected(Queue *queue, Consumer *consumer, Entry *entry) noexcept nogil:
    queue_acquire(queue, entry)
    if has_expired(entry.message, queue.container.now_ms):
        entry_done(entry)
        return
    outlet_send(consumer.outlet, entry)


cdef bint send_copy(Consumer *browser) noexcept nogil:
    """Send a browser its next copy, whose outcome does not change the queue (part 3.5.3)."""
    cdef Entry *entry
    cdef Entry *copy
    if browser.filter != NULL:
        entry = selective_next(browser)
    else:
        entry = consumer_browse(browser)
    if entry == NULL:
        return False
    # Browsers get no streams, because the bytes of streams are not kept.
    if entry.message.stream != NULL:
        return True
    copy = entry_copy(entry)
    if copy == NULL:
        return False
    outlet_send(browser.outlet, copy)
    return True


cdef void expire(Queue *queue) noexcept nogil:
    """Drop expired entries; further ones are dropped in the next turn."""
    # Each watcher looks at each entry.
    cdef int left = 1 + EXPIRE_STEP // <int>(1 + queue.watchers // 16)
    cdef Entry *entry
    while queue.expiry.count and heap_first(&queue.expiry) <= queue.container.now_ms and left:
        # An entry's first member is its place in the heap.
        entry = <Entry *>queue.expiry.slots[0].place
        queue_acquire(queue, entry)
        entry_done(entry)
        left -= 1
    if queue.expiry.count:
        timer_advance(
            queue.container, &queue.timer, heap_first(&queue.expiry) * 1000000)


cdef void answer_drains(Queue *queue) noexcept nogil:
    """Use up the credit of draining consumers that have got all available messages."""
    cdef Consumer *consumer = queue.draining
    cdef Consumer *following
    cdef amqp_link_end_t *end
    queue.draining = NULL
    while consumer != NULL:
        following = consumer.next_draining
        consumer.draining = False
        end = consumer.outlet.base.deliveries.end
        if end.counts.drain:
            if consumer.outlet._sending != NULL or consumer.outlet.clogged or (
                    end.counts.credit > 0 and (
                        consumer.behind or queue.later and consumer.filter != NULL)):
                consumer_drain(consumer)
            else:
                give_back(consumer.outlet, end)
                consumer_unready(consumer)
        consumer = following


cdef void give_back(Outlet *outlet, amqp_link_end_t *end) noexcept nogil:
    """Use up the credit of a draining consumer, and tell the peer (part 2.6.7)."""
    if outlet.base.refused or not amqp_sender_drained(&end.counts):
        return
    if not amqp_plane_flow(&outlet.base.peer.plane, end.session, end, False):
        outlet.base.peer.deliveries.failed = True
    peer_dirty(outlet.base.peer)
