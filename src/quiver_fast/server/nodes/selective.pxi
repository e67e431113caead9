"""Consumers with a selector: each goes through its queue once, independently of others.

A consumer's place in the queue is after all entries that its selector has evaluated, and they
are not evaluated again. When an entry returns to before the place, the selector evaluates it,
and the consumer's heap gets a match, so that it goes first.
"""

cdef size_t FIRST_CAPACITY = 16


cdef void selective_join(Queue *queue, Consumer *consumer) noexcept nogil:
    """Put a consumer into the list of consumers with a selector."""
    queue.selective_count += 1
    list_push(&queue.selective, consumer, &consumer._prev_selective, &consumer.next_selective)


cdef void selective_leave(Queue *queue, Consumer *consumer) noexcept nogil:
    queue.selective_count -= 1
    list_remove(&queue.selective, consumer, &consumer._prev_selective, &consumer.next_selective)
    free(consumer._returned)
    consumer._returned = NULL
    consumer._returned_count = 0
    consumer._returned_capacity = 0


cdef bint wants(const Consumer *consumer, const Message *message) noexcept nogil:
    """Say whether a message matches a consumer's selector."""
    return consumer.filter == NULL or filter_matches(<Filter *>consumer.filter, message)


cdef bint is_unwanted(const Queue *queue, const Message *message) noexcept nogil:
    """Say whether all consumers have selectors, and none matches the message."""
    cdef const Consumer *consumer = queue.selective
    if queue.selective_count == 0 or queue.consumer_count > queue.selective_count:
        return False
    while consumer != NULL:
        if wants(consumer, message):
            return False
        consumer = consumer.next_selective
    return True


cdef void selective_returned(Queue *queue, Entry *entry) noexcept nogil:
    """Note a returned entry for the matching consumers that have passed its place."""
    cdef Consumer *consumer = queue.selective
    while consumer != NULL:
        if entry.sequence <= consumer._seen and wants(consumer, entry.message) and (
                not note_returned(consumer, entry.sequence)):
            # Without memory the consumer goes through the whole queue again.
            consumer.place = queue.main.head
            consumer._seen = 0
        consumer = consumer.next_selective


cdef bint note_returned(Consumer *consumer, uint64_t sequence) noexcept nogil:
    """Put a sequence into the consumer's heap; False without memory."""
    cdef size_t at
    cdef size_t above
    if consumer._returned_count == consumer._returned_capacity and not make_room(consumer):
        return False
    at = consumer._returned_count
    consumer._returned_count += 1
    while at > 0:
        above = (at - 1) // 2
        if consumer._returned[above] <= sequence:
            break
        consumer._returned[at] = consumer._returned[above]
        at = above
    consumer._returned[at] = sequence
    return True


cdef int by_sequence(const void *left, const void *right) noexcept nogil:
    cdef uint64_t one = (<const uint64_t *>left)[0]
    cdef uint64_t other = (<const uint64_t *>right)[0]
    return (one > other) - (one < other)


cdef bint make_room(Consumer *consumer) noexcept nogil:
    """Remove notes of entries that others took, and double notes; then grow if needed.

    After that a full heap has at most as many useless notes as useful ones. So a note costs
    O(log n), and the entries in the queue bound the heap's memory.
    """
    cdef size_t capacity
    cdef uint64_t *grown
    forget_taken(consumer)
    if consumer._returned_count * 2 < consumer._returned_capacity:
        return True
    capacity = max(2 * consumer._returned_capacity, FIRST_CAPACITY)
    grown = <uint64_t *>realloc(consumer._returned, capacity * sizeof(uint64_t))
    if grown == NULL:
        return consumer._returned_count < consumer._returned_capacity
    consumer._returned = grown
    consumer._returned_capacity = capacity
    return True


cdef void forget_taken(Consumer *consumer) noexcept nogil:
    """Keep one note for each available entry, sorted: a sorted array is a heap."""
    cdef uint64_t *notes = consumer._returned
    cdef size_t kept = 0
    cdef size_t i
    if consumer._returned_count:
        qsort(notes, consumer._returned_count, sizeof(uint64_t), by_sequence)
    for i in range(consumer._returned_count):
        if (kept == 0 or notes[kept - 1] != notes[i]) and (
                find_returned(consumer, notes[i]) != NULL):
            notes[kept] = notes[i]
            kept += 1
    consumer._returned_count = kept


cdef uint64_t take_first(Consumer *consumer) noexcept nogil:
    """Take the smallest sequence out of the heap, which is not empty."""
    cdef uint64_t *notes = consumer._returned
    cdef uint64_t first = notes[0]
    cdef uint64_t last
    cdef size_t at = 0
    cdef size_t below = 1
    consumer._returned_count -= 1
    last = notes[consumer._returned_count]
    while below < consumer._returned_count:
        if below + 1 < consumer._returned_count and notes[below + 1] < notes[below]:
            below += 1
        if last <= notes[below]:
            break
        notes[at] = notes[below]
        at = below
        below = 2 * at + 1
    notes[at] = last
    return first


cdef Entry *find_returned(const Consumer *consumer, uint64_t sequence) noexcept nogil:
    """Return a returned entry, if it is still available and the consumer may have it."""
    cdef const Lane *lane = consumer.queue.lanes
    cdef Entry *entry = lane_find(&consumer.queue.main, sequence)
    while entry == NULL and lane != NULL:
        if not lane_barred(lane, consumer.outlet.base.serial):
            entry = lane_find(lane, sequence)
        lane = lane.next
    return entry


cdef Entry *selective_next(Consumer *consumer, int64_t *budget) noexcept nogil:
    """Return the next entry that matches; NULL if there is none, or not within the budget.

    Args:
        budget: the cost that evaluations may still have in this turn (`filter_cost`); their
            cost is subtracted. The consumer is `behind` if it has more entries to look at.
    """
    cdef Entry *entry
    while consumer._returned_count:
        entry = find_returned(consumer, take_first(consumer))
        if entry != NULL:
            return entry
    while budget[0] > 0:
        entry = consumer_browse(consumer)
        if entry == NULL:
            consumer.behind = False
            return NULL
        if entry.lane.barred != NULL and lane_barred(entry.lane, consumer.outlet.base.serial):
            budget[0] -= 1
            continue
        budget[0] -= <int64_t>filter_cost(consumer.filter, entry.message)
        if filter_matches(consumer.filter, entry.message):
            return entry
    consumer.behind = True
    return NULL
