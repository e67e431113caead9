"""Consumers with a selector: each goes through its queue once, independently of others.

A consumer's place in the queue is after all entries that its selector has evaluated, and they
are not evaluated again. When an entry returns to before the place, the consumer's heap notes it,
and it is evaluated first.

The evaluations of one turn of the loop have a limit (`judging_left`). Queues with more to evaluate
wait in order for the next turns, so that other connections get theirs.
"""

cdef size_t FIRST_CAPACITY = 16
# The most notes of a consumer: so many, or this share of the queue's entries.
cdef size_t NOTES_MAX = 4096
cdef size_t NOTES_SHARE = 16
# The cost of looking for a noted entry, in steps of a selector.
cdef int64_t LOOKING = 8


cdef void select_later(Queue *queue) noexcept nogil:
    """Let a queue go on with its selectors in a later turn."""
    cdef Container *container = queue.container
    if queue.later:
        return
    queue.later = True
    queue._next_later = NULL
    if container.last_later == NULL:
        container.first_later = queue
    else:
        container.last_later._next_later = queue
    container.last_later = queue
    container.later_count += 1


cdef Queue *take_later(Container *container) noexcept nogil:
    """Return the queue that waits longest, out of the list; NULL if none waits."""
    cdef Queue *queue = container.first_later
    if queue != NULL:
        later_forget(queue)
    return queue


cdef void later_forget(Queue *queue) noexcept nogil:
    """Take a queue out of the list of those that wait, if it is there."""
    cdef Container *container = queue.container
    cdef Queue *before = NULL
    cdef Queue *each = container.first_later
    if not queue.later:
        return
    queue.later = False
    container.later_count -= 1
    while each != queue:
        before = each
        each = each._next_later
    if before == NULL:
        container.first_later = queue._next_later
    else:
        before._next_later = queue._next_later
    if container.last_later == queue:
        container.last_later = before


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


cdef bint all_judged(Queue *queue, const Entry *entry) noexcept nogil:
    """Ask all selectors for an incomplete entry; False if the rest has to wait for the next turn.

    The answers hold until the entry has more properties.
    """
    cdef Consumer *consumer = queue.selective
    while consumer != NULL:
        if consumer._judged != entry.sequence or (
                not consumer._known and consumer._judged_size != entry.message.size):
            if queue.container.judging_left <= 0:
                select_later(queue)
                return False
            judge(consumer, entry)
        consumer = consumer.next_selective
    return True


cdef void judge(Consumer *consumer, const Entry *entry) noexcept nogil:
    consumer._fits = filter_matches(consumer.filter, entry.message)
    consumer._judged = entry.sequence
    consumer._judged_size = entry.message.size
    consumer._known = consumer.filter.known
    consumer.queue.container.judging_left -= consumer.filter.cost


cdef bint wants(const Consumer *consumer) noexcept nogil:
    """Say whether the entry that was judged last matches a consumer's selector."""
    return consumer.filter == NULL or consumer._fits


cdef bint is_unwanted(const Queue *queue) noexcept nogil:
    """Say whether all consumers have selectors, and none matches the entry that was judged last."""
    cdef const Consumer *consumer = queue.selective
    if queue.selective_count == 0 or queue.consumer_count > queue.selective_count:
        return False
    while consumer != NULL:
        if wants(consumer):
            return False
        consumer = consumer.next_selective
    return True


cdef void selective_returned(Queue *queue, Entry *entry) noexcept nogil:
    """Note a returned entry for the consumers that have passed its place."""
    cdef Consumer *consumer = queue.selective
    while consumer != NULL:
        if entry.sequence <= consumer._seen and not note_returned(consumer, entry.sequence):
            # With too many notes the consumer goes through the whole queue again.
            consumer.place = queue.main.head
            consumer._seen = 0
            consumer._returned_count = 0
        consumer = consumer.next_selective


cdef bint note_returned(Consumer *consumer, uint64_t sequence) noexcept nogil:
    """Put a sequence into the consumer's heap; False if there is no room."""
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
    O(log n). The notes of all consumers of a queue have to be few beside its entries.
    """
    cdef size_t capacity
    cdef uint64_t *grown
    forget_taken(consumer)
    if consumer._returned_count * 2 < consumer._returned_capacity:
        return True
    capacity = max(2 * consumer._returned_capacity, FIRST_CAPACITY)
    if capacity > max(NOTES_MAX, consumer.queue.available // NOTES_SHARE):
        return consumer._returned_count < consumer._returned_capacity
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


cdef Entry *selective_next(Consumer *consumer) noexcept nogil:
    """Return the next entry that matches; NULL if there is none, or not in this turn.

    The consumer is `behind` if it has more entries to look at.
    """
    cdef Container *container = consumer.queue.container
    cdef Entry *entry
    while container.judging_left > 0:
        entry = next_candidate(consumer)
        if entry == NULL and consumer._returned_count == 0:
            consumer.behind = False
            return NULL
        if entry == NULL or entry.lane.barred != NULL and (
                lane_barred(entry.lane, consumer.outlet.base.serial)):
            continue
        if filter_matches(consumer.filter, entry.message):
            container.judging_left -= consumer.filter.cost
            return entry
        container.judging_left -= consumer.filter.cost
    consumer.behind = True
    select_later(consumer.queue)
    return NULL


cdef Entry *next_candidate(Consumer *consumer) noexcept nogil:
    """Return the next entry to evaluate; NULL if a noted one has gone, or if there is none."""
    cdef Queue *queue = consumer.queue
    queue.container.judging_left -= 1 + queue._lane_count
    if consumer._returned_count == 0:
        return consumer_browse(consumer)
    queue.container.judging_left -= LOOKING
    return find_returned(consumer, take_first(consumer))
