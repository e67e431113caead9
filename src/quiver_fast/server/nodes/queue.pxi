"""A queue: entries in order and consumers in a ring. It knows nothing of the wire.

Available entries are in lanes, first in first out. One lane has the entries for every consumer,
one has streams, and there is one for each set of links that called messages undeliverable. An
acquired entry leaves its lane, and a released one returns to its place. Messages count their
references, because a topic puts one message into many queues.
"""

# Bits of a sequence that count entries. A queue by priority has the priority above them.
cdef enum:
    COUNT_BITS = 48

# The memory of a message besides its bytes, with the allocator's part. Without it a limit would
# not bound the memory of short messages.
cdef size_t OVERHEAD = sizeof(Entry) + sizeof(Message) + sizeof(Chunk) + 32


cdef void wake(Timer *timer, int64_t now) noexcept nogil:
    # The timer is a queue's first member.
    cdef Queue *queue = <Queue *>timer
    queue_dirty(queue)
    # The timer may have rung for something other than an expiry.
    if queue.expiry.count and heap_first(&queue.expiry) * MILLISECOND > now:
        timer_advance(queue.container, timer, heap_first(&queue.expiry) * MILLISECOND)


cdef Queue *queue_new(
        Container *container, const char *address, size_t size) noexcept nogil:
    """Make an empty queue with the container's limit of bytes; NULL without memory."""
    cdef Queue *queue = <Queue *>calloc(1, sizeof(Queue))
    if queue == NULL:
        return NULL
    queue.address = <char *>malloc(size + 1)
    if queue.address == NULL:
        free(queue)
        return NULL
    memcpy(queue.address, address, size)
    queue.address[size] = 0
    queue.address_size = size
    queue.container = container
    queue.timer.ring = wake
    queue.limit = container.limits.queue_bytes
    queue.next_sequence = 1
    list_push(&container.queues, queue, &queue.prev, &queue.next)
    container.traffic.queues += 1
    return queue


cdef void queue_free(Queue *queue) noexcept nogil:
    """Free a queue that no link uses, with the messages in it."""
    cdef size_t all_of_them = SIZE_MAX
    queue_clear(queue, &all_of_them)
    timer_clear(queue.container, &queue.timer)
    heap_free(&queue.expiry)
    list_remove(&queue.container.queues, queue, &queue.prev, &queue.next)
    queue.container.traffic.queues -= 1
    queue_unlabel(queue)
    if queue.filter != NULL:
        queue.container.selectors -= queue.filter.memory
    filter_release(queue.filter)
    free(queue.address)
    free(queue)


cdef bint queue_clear(Queue *queue, size_t *left) noexcept nogil:
    """Drop up to ``left`` available entries, and count it down; return whether none remains."""
    cdef Entry *entry = any_entry(queue)
    while entry != NULL and left[0]:
        queue_acquire(queue, entry)
        entry_drop(entry)
        left[0] -= 1
        entry = any_entry(queue)
    return entry == NULL


cdef Entry *any_entry(const Queue *queue) noexcept nogil:
    cdef const Lane *lane = queue.lanes
    if queue.main.head != NULL:
        return queue.main.head
    while lane != NULL and lane.head == NULL:
        lane = lane.next
    return queue.streaming.head if lane == NULL else lane.head


cdef Entry *entry_new(Queue *queue, Message *message) noexcept nogil:
    cdef Entry *entry = <Entry *>spares_take(sizeof(Entry))
    if entry == NULL:
        return NULL
    entry.message = message
    entry.queue = queue
    entry.sequence = queue.next_sequence
    entry.lane = NULL
    entry.bytes = 0
    entry.expiry = 0
    entry.failures = 0
    entry.acquired = False
    entry.used = False
    entry._indexed = False
    entry.since = <uint32_t>(queue.container.now_ms >> SINCE_SHIFT)
    made(ENTRY)
    return entry


cdef Entry *entry_copy(const Entry *entry) noexcept nogil:
    """Make a browser's copy of an entry: outside the queue, same message; NULL without memory."""
    cdef Entry *copy = entry_new(entry.queue, entry.message)
    if copy != NULL:
        entry.message.hold.users += 1
        copy.queue = NULL
        copy.failures = entry.failures
        copy.used = entry.used
    return copy


cdef Entry *queue_append(Queue *queue, Message *message) noexcept nogil:
    """Put a message last, and take over one reference to it; NULL without memory."""
    cdef Entry *entry = entry_new(queue, message)
    if entry == NULL:
        return NULL
    queue.next_sequence += 1
    # Incomplete messages have a lane of their own: they need no credit of a consumer's link.
    entry.lane = &queue.main if message.complete else &queue.streaming
    put_new(queue, entry)
    queue.available += 1
    queue.depth += 1
    queue.streams += message.stream != NULL
    # A stream counts as the most bytes that it may hold. The bytes of a chain are in the file.
    entry.bytes = OVERHEAD + (
        message.held if message.complete else max(message.held, <size_t>STREAM_HIGH))
    queue.bytes += entry.bytes
    queue.container.traffic.depth += 1
    queue.container.traffic.bytes += entry.bytes
    if message.expires:
        note_expiry(queue, entry)
    if queue.watchers:
        show_new(queue, entry)
    return entry


cdef void put_new(Queue *queue, Entry *entry) noexcept nogil:
    """Put an entry with the latest sequence into its lane."""
    if queue.by_priority:
        put_by_priority(queue, entry)
    else:
        lane_append(entry.lane, entry)


cdef void show_new(Queue *queue, Entry *entry) noexcept nogil:
    """Show a new entry to browsers and selective consumers."""
    show_entry(queue, entry)
    if queue.by_priority:
        selective_returned(queue, entry)


cdef void put_by_priority(Queue *queue, Entry *entry) noexcept nogil:
    """Put a new entry before entries of lower priority; the sequence contains the priority."""
    cdef uint64_t priority = DEFAULT_PRIORITY
    if entry.message.header.has_priority:
        priority = entry.message.header.priority
    entry.sequence |= (255 - priority) << COUNT_BITS
    lane_return(entry.lane, entry)


cdef void note_expiry(Queue *queue, Entry *entry) noexcept nogil:
    """Drop an available entry when it expires.

    Without memory for the timer, dispatch drops the entry later. A stream has no timer.
    """
    if entry.message.stream == NULL:
        heap_put(&queue.expiry, entry.message.expires, &entry.expiry)
        timer_advance(queue.container, &queue.timer, heap_first(&queue.expiry) * MILLISECOND)


cdef void queue_acquire(Queue *queue, Entry *entry) noexcept nogil:
    """Take an available entry out of its lane."""
    if queue.watchers:
        hide_entry(queue, entry)
    lane_remove(entry.lane, entry)
    if entry.expiry:
        heap_take(&queue.expiry, &entry.expiry)
    queue.available -= 1
    queue.streams -= entry.message.stream != NULL
    entry.acquired = True


cdef void queue_restore(Entry *entry) noexcept nogil:
    """Make an acquired entry available again, in its old place."""
    cdef Queue *queue = entry.queue
    lane_return(entry.lane, entry)
    entry.acquired = False
    entry.used = True
    queue.available += 1
    queue.streams += entry.message.stream != NULL
    if entry.message.expires:
        note_expiry(queue, entry)
    if queue.watchers:
        show_entry(queue, entry)
        selective_returned(queue, entry)


cdef void entry_drop(Entry *entry) noexcept nogil:
    """End an acquired entry or a copy, and release its message."""
    cdef Queue *queue = entry.queue
    if queue != NULL:
        queue.depth -= 1
        queue.bytes -= entry.bytes
        queue.container.traffic.depth -= 1
        queue.container.traffic.bytes -= entry.bytes
        if entry.lane.barred != NULL:
            lane_leave(queue, entry.lane)
    if entry.message.chain != NULL:
        chain_left(entry)
    freed(ENTRY)
    message_release(entry.message)
    spares_give(entry, sizeof(Entry))


cdef void chain_left(const Entry *entry) noexcept nogil:
    """Wake the sender of a message that is still arriving when its entry has ended.

    The sender must get the outcome now, because its next fragment may never come.
    """
    cdef Chain *chain = chain_of(entry.message)
    if chain.entry != entry:
        return
    chain.entry = NULL
    if chain.inlet != NULL and not entry.message.complete and not entry.message.aborted:
        inlet_wake(<Inlet *>chain.inlet)


cdef void consumer_join(Queue *queue, Consumer *consumer) noexcept nogil:
    """Add a consumer, which is not ready yet. A browser begins at the first available entry."""
    consumer.queue = queue
    list_push(list_of(consumer), consumer, &consumer.prev, &consumer.next)
    if consumer.browser or consumer.filter != NULL:
        queue.watchers += 1
        consumer.place = queue.main.head
        consumer._seen = 0
    if consumer.browser:
        return
    queue.consumer_count += 1
    if consumer.filter != NULL:
        selective_join(queue, consumer)
    if not consumer.trunk:
        join_locally(queue)


cdef inline Consumer **list_of(Consumer *consumer) noexcept nogil:
    """Return the list of the queue that has the consumer."""
    return &consumer.queue.browsers if consumer.browser else &consumer.queue.consumers


cdef void join_locally(Queue *queue) noexcept nogil:
    """Count a consumer of this server, which has precedence over other servers."""
    cdef Consumer *consumer = queue.consumers
    count_local(queue, 1)
    while queue.local_count == 1 and consumer != NULL:
        if consumer.trunk:
            consumer_unready(consumer)
        consumer = consumer.next


cdef void count_local(Queue *queue, int by) noexcept nogil:
    """Count consumers of a queue, or of a topic by its subscription."""
    if queue.topic != NULL:
        queue.local_count += by
        add_consumers(queue.topic, by)
    else:
        add_consumers(queue, by)


cdef void add_consumers(Queue *node, int by) noexcept nogil:
    """Count the consumers of an address here; the address is listed while it has any."""
    node.local_count += by
    if by > 0 and node.local_count == 1:
        list_push(&node.container.wanted, node, &node._prev_wanted, &node.next_wanted)
    elif node.local_count == 0:
        list_remove(&node.container.wanted, node, &node._prev_wanted, &node.next_wanted)


cdef void consumer_leave(Consumer *consumer) noexcept nogil:
    cdef Queue *queue = consumer.queue
    consumer_unready(consumer)
    if consumer.draining:
        stop_draining(consumer)
    list_remove(list_of(consumer), consumer, &consumer.prev, &consumer.next)
    if consumer.browser or consumer.filter != NULL:
        queue.watchers -= 1
    if not consumer.browser:
        if consumer.filter != NULL:
            selective_leave(queue, consumer)
        lanes_forget(queue, consumer.outlet.base.serial)
        queue.consumer_count -= 1
        if not consumer.trunk:
            count_local(queue, -1)
    filter_release(consumer.filter)
    consumer.filter = NULL
    consumer.queue = NULL


cdef void consumer_drain(Consumer *consumer) noexcept nogil:
    """Note that a consumer drains its credit (part 2.6.7)."""
    if not consumer.draining:
        consumer.draining = True
        list_push(&consumer.queue.draining, consumer,
                  &consumer._prev_draining, &consumer.next_draining)


cdef void stop_draining(Consumer *consumer) noexcept nogil:
    list_remove(&consumer.queue.draining, consumer,
                &consumer._prev_draining, &consumer.next_draining)
    consumer.draining = False


cdef inline Consumer **ring_of(Consumer *consumer) noexcept nogil:
    """Return the ring that a consumer is in while it is ready."""
    return &consumer.queue.ready if consumer.filter == NULL else &consumer.queue.selecting


cdef void consumer_ready(Consumer *consumer) noexcept nogil:
    """Put a consumer last into the ring."""
    cdef Consumer **ring = ring_of(consumer)
    cdef Consumer *first = ring[0]
    if consumer.ready:
        return
    consumer.ready = True
    if first == NULL:
        consumer.next_ready = consumer
        consumer._prev_ready = consumer
        ring[0] = consumer
        return
    consumer.next_ready = first
    consumer._prev_ready = first._prev_ready
    first._prev_ready.next_ready = consumer
    first._prev_ready = consumer


cdef void consumer_unready(Consumer *consumer) noexcept nogil:
    """Take a consumer out of the ring: it has no credit or no room, or it detached."""
    cdef Consumer **ring = ring_of(consumer)
    if not consumer.ready:
        return
    consumer.ready = False
    if consumer.next_ready == consumer:
        ring[0] = NULL
        return
    consumer._prev_ready.next_ready = consumer.next_ready
    consumer.next_ready._prev_ready = consumer._prev_ready
    if ring[0] == consumer:
        ring[0] = consumer.next_ready
