"""Browsers and selective consumers: each goes through a queue in order.

The place of each is the next entry of the main lane. It moves when entries are added there,
returned or removed.
"""

cdef Entry *consumer_browse(Consumer *consumer) noexcept nogil:
    """Return the next entry for a browser or selective consumer; NULL if there is none now."""
    cdef Entry *entry = consumer.place
    cdef Entry *other
    cdef const Lane *lane = consumer.queue.lanes
    while lane != NULL:
        other = lane_after(lane, consumer._seen)
        if other != NULL and (entry == NULL or other.sequence < entry.sequence):
            entry = other
        lane = lane.next
    if entry == NULL:
        return NULL
    consumer._seen = entry.sequence
    if entry == consumer.place:
        consumer.place = entry.next
    return entry


cdef void show_entry(Queue *queue, Entry *entry) noexcept nogil:
    """Move the places that are after an entry that was added or returned."""
    cdef Consumer *consumer
    if entry.lane != &queue.main:
        return
    consumer = queue.browsers
    while consumer != NULL:
        show_to(consumer, entry)
        consumer = consumer.next
    consumer = queue.selective
    while consumer != NULL:
        show_to(consumer, entry)
        consumer = consumer.next_selective


cdef inline void show_to(Consumer *consumer, Entry *entry) noexcept nogil:
    if entry.sequence > consumer._seen and (
            consumer.place == NULL or consumer.place.sequence > entry.sequence):
        consumer.place = entry


cdef void hide_entry(Queue *queue, Entry *entry) noexcept nogil:
    """Move the places that are at an entry which leaves its lane."""
    cdef Consumer *consumer = queue.browsers
    while consumer != NULL:
        if consumer.place == entry:
            consumer.place = entry.next
        consumer = consumer.next
    consumer = queue.selective
    while consumer != NULL:
        if consumer.place == entry:
            consumer.place = entry.next
        consumer = consumer.next_selective
