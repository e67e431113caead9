"""A queue: entries in order, consumers in a ring, and nothing of the wire.

Available entries are in one list, first in first out. What a consumer acquires
leaves the list, and comes back to its own place when it is released. Messages are
shared by count of references, because a topic puts one message into many queues.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from quiver_fast.server.balance cimport ENTRY, freed, made
from quiver_fast.server.message cimport STREAM_HIGH, Chunk, Message, message_release
from quiver_fast.server.structures cimport Consumer, Container, Entry, Queue

# Entries that were freed, for the next ones: each message takes one.
cdef Entry *spare = NULL
cdef size_t spare_count = 0
cdef size_t SPARE_MAX = 65536
# What a message costs besides its bytes, allocator included: a limit that left it out
# would not bound the memory of short ones.
cdef size_t OVERHEAD = sizeof(Entry) + sizeof(Message) + sizeof(Chunk) + 32


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
    queue.limit = container.limits.queue_bytes
    queue.next_sequence = 1
    queue.next = container.queues
    if queue.next != NULL:
        queue.next.prev = queue
    container.queues = queue
    return queue


cdef void queue_free(Queue *queue) noexcept nogil:
    """Free a queue that no link uses, with the messages in it."""
    queue_clear(queue)
    if queue.prev != NULL:
        queue.prev.next = queue.next
    else:
        queue.container.queues = queue.next
    if queue.next != NULL:
        queue.next.prev = queue.prev
    free(queue.address)
    free(queue)


cdef void queue_clear(Queue *queue) noexcept nogil:
    """Drop what is available."""
    cdef Entry *entry = queue.head
    while entry != NULL:
        queue_acquire(queue, entry)
        entry_drop(entry)
        entry = queue.head


cdef Entry *entry_new(Queue *queue, Message *message) noexcept nogil:
    global spare, spare_count
    cdef Entry *entry = spare
    if entry != NULL:
        spare = entry.next
        spare_count -= 1
    else:
        entry = <Entry *>malloc(sizeof(Entry))
        if entry == NULL:
            return NULL
    entry.message = message
    entry.queue = queue
    entry.sequence = queue.next_sequence
    entry.bytes = 0
    entry.failures = 0
    entry.acquired = False
    entry.used = False
    entry.barred = NULL
    made(ENTRY)
    return entry


cdef Entry *entry_copy(const Entry *entry) noexcept nogil:
    """Make an entry of no queue that shares the message, for a browser; NULL without memory."""
    cdef Entry *copy = entry_new(entry.queue, entry.message)
    if copy != NULL:
        entry.message.refs += 1
        copy.queue = NULL
        copy.failures = entry.failures
        copy.used = entry.used
    return copy


cdef Entry *queue_append(Queue *queue, Message *message) noexcept nogil:
    """Put a message last; takes over one reference to it. NULL without memory."""
    cdef Entry *entry = entry_new(queue, message)
    if entry == NULL:
        return NULL
    queue.next_sequence += 1
    entry.prev = queue.tail
    entry.next = NULL
    if queue.tail == NULL:
        queue.head = entry
    else:
        queue.tail.next = entry
    queue.tail = entry
    queue.available += 1
    queue.depth += 1
    queue.streams += message.stream != NULL
    # A stream's bytes pass through: what counts is how many it may hold. A chain's are in
    # the file.
    entry.bytes = OVERHEAD + (
        message.held if message.complete else max(message.held, <size_t>STREAM_HIGH))
    queue.bytes += entry.bytes
    note_expiry(queue, message)
    if queue.browser_count:
        show_to_browsers(queue, entry)
    return entry


cdef inline void note_expiry(Queue *queue, const Message *message) noexcept nogil:
    if message.expires and (queue.next_expiry == 0 or message.expires < queue.next_expiry):
        queue.next_expiry = message.expires


cdef void queue_acquire(Queue *queue, Entry *entry) noexcept nogil:
    """Take an available entry out of the list."""
    if queue.browser_count:
        step_browsers_off(queue, entry)
    if entry.prev == NULL:
        queue.head = entry.next
    else:
        entry.prev.next = entry.next
    if entry.next == NULL:
        queue.tail = entry.prev
    else:
        entry.next.prev = entry.prev
    if queue.restored == entry:
        queue.restored = entry.prev
    queue.available -= 1
    queue.streams -= entry.message.stream != NULL
    entry.acquired = True


cdef void queue_restore(Entry *entry) noexcept nogil:
    """Make an acquired entry available again, in its old place."""
    cdef Queue *queue = entry.queue
    cdef Entry *after = queue.head
    cdef Entry *before = NULL
    # What is released is nearly always older than all that is available, or follows what
    # was released before it.
    if queue.restored != NULL and queue.restored.sequence < entry.sequence:
        before = queue.restored
        after = before.next
    while after != NULL and after.sequence < entry.sequence:
        before = after
        after = after.next
    entry.prev = before
    entry.next = after
    if before == NULL:
        queue.head = entry
    else:
        before.next = entry
    if after == NULL:
        queue.tail = entry
    else:
        after.prev = entry
    entry.acquired = False
    entry.used = True
    queue.restored = entry
    queue.available += 1
    note_expiry(queue, entry.message)
    if queue.browser_count:
        show_to_browsers(queue, entry)


cdef void entry_drop(Entry *entry) noexcept nogil:
    """End an acquired entry or a copy: its message is done with here."""
    global spare, spare_count
    cdef Queue *queue = entry.queue
    if queue != NULL:
        queue.depth -= 1
        queue.bytes -= entry.bytes
    freed(ENTRY)
    message_release(entry.message)
    free(entry.barred)
    if spare_count >= SPARE_MAX:
        free(entry)
        return
    entry.next = spare
    spare = entry
    spare_count += 1


cdef bint entry_bar(Entry *entry, uint64_t serial) noexcept nogil:
    """Keep an entry from a link (modified: undeliverable-here, part 3.4.5).

    Returns False without memory.
    """
    cdef size_t count = 0
    cdef uint64_t *grown
    if entry.barred != NULL:
        while entry.barred[count] != 0:
            count += 1
    grown = <uint64_t *>realloc(entry.barred, (count + 2) * sizeof(uint64_t))
    if grown == NULL:
        return False
    grown[count] = serial
    grown[count + 1] = 0
    entry.barred = grown
    return True


cdef bint entry_barred(const Entry *entry, uint64_t serial) noexcept nogil:
    """Say whether the link with this serial number must not get the entry."""
    cdef const uint64_t *barred = entry.barred
    while barred[0] != 0:
        if barred[0] == serial:
            return True
        barred += 1
    return False


cdef void consumer_join(Queue *queue, Consumer *consumer) noexcept nogil:
    """Add a consumer, not yet ready; a browser begins at the first available entry."""
    consumer.queue = queue
    consumer.next = queue.consumers
    queue.consumers = consumer
    if consumer.browser:
        queue.browser_count += 1
        consumer.place = queue.head
        consumer.seen = 0
        return
    queue.consumer_count += 1
    if not consumer.trunk:
        join_locally(queue)


cdef void join_locally(Queue *queue) noexcept nogil:
    """Count a consumer of this server's own, and let other servers wait behind it."""
    cdef Consumer *consumer = queue.consumers
    queue.local_count += 1
    if queue.topic != NULL:
        queue.topic.local_count += 1
    while queue.local_count == 1 and consumer != NULL:
        if consumer.trunk:
            consumer_unready(consumer)
        consumer = consumer.next


cdef void consumer_leave(Consumer *consumer) noexcept nogil:
    cdef Queue *queue = consumer.queue
    cdef Consumer **place = &queue.consumers
    consumer_unready(consumer)
    while place[0] != consumer:
        place = &place[0].next
    place[0] = consumer.next
    if consumer.browser:
        queue.browser_count -= 1
    else:
        queue.consumer_count -= 1
        if not consumer.trunk:
            queue.local_count -= 1
            if queue.topic != NULL:
                queue.topic.local_count -= 1
    consumer.queue = NULL


cdef void consumer_ready(Consumer *consumer) noexcept nogil:
    """Put a consumer into the ring, last in turn."""
    cdef Queue *queue = consumer.queue
    cdef Consumer *first = queue.ready
    if consumer.ready:
        return
    consumer.ready = True
    if first == NULL:
        consumer.next_ready = consumer
        consumer.prev_ready = consumer
        queue.ready = consumer
        return
    consumer.next_ready = first
    consumer.prev_ready = first.prev_ready
    first.prev_ready.next_ready = consumer
    first.prev_ready = consumer


cdef void consumer_unready(Consumer *consumer) noexcept nogil:
    """Take a consumer out of the ring: no credit, no room, or gone."""
    cdef Queue *queue = consumer.queue
    if not consumer.ready:
        return
    consumer.ready = False
    if consumer.next_ready == consumer:
        queue.ready = NULL
        return
    consumer.prev_ready.next_ready = consumer.next_ready
    consumer.next_ready.prev_ready = consumer.prev_ready
    if queue.ready == consumer:
        queue.ready = consumer.next_ready


cdef Entry *consumer_browse(Consumer *consumer) noexcept nogil:
    """Return the browser's next entry and step on; NULL at the end for now."""
    cdef Entry *entry = consumer.place
    if entry == NULL:
        return NULL
    consumer.seen = entry.sequence
    consumer.place = entry.next
    return entry


cdef void show_to_browsers(Queue *queue, Entry *entry) noexcept nogil:
    """Let browsers see an entry that came, or came back, at or before their place."""
    cdef Consumer *consumer = queue.consumers
    while consumer != NULL:
        if consumer.browser and entry.sequence > consumer.seen and (
                consumer.place == NULL or consumer.place.sequence > entry.sequence):
            consumer.place = entry
        consumer = consumer.next


cdef void step_browsers_off(Queue *queue, Entry *entry) noexcept nogil:
    """Move browsers that stand on an entry that leaves the list."""
    cdef Consumer *consumer = queue.consumers
    while consumer != NULL:
        if consumer.browser and consumer.place == entry:
            consumer.place = entry.next
        consumer = consumer.next
