"""Keeps entries away from links that called them undeliverable-here (part 3.4.5).

Entries that are barred to the same links are in one lane. So dispatch looks only at the first
entry of each lane, however many entries wait in the lane for another consumer.
"""

# The most lanes of a queue. Further entries join the newest lane, which is then barred to the
# links of all its entries.
cdef size_t LANES_MAX = 64


cdef size_t position(const Lane *lane, uint64_t serial) noexcept nogil:
    """Return the position of a serial number in a lane's sorted set, present or not."""
    cdef size_t low = 0
    cdef size_t high = lane._barred_count
    cdef size_t middle
    while low < high:
        middle = (low + high) // 2
        if lane.barred[middle] < serial:
            low = middle + 1
        else:
            high = middle
    return low


cdef bint lane_barred(const Lane *lane, uint64_t serial) noexcept nogil:
    """Say whether the link with this serial number must not get the lane's entries."""
    cdef size_t at = position(lane, serial)
    return at < lane._barred_count and lane.barred[at] == serial


cdef Lane *lane_new(Queue *queue, const Lane *like) noexcept nogil:
    """Make a lane with the set of ``like`` and room for one more link; NULL without memory."""
    cdef Lane *lane = <Lane *>calloc(1, sizeof(Lane))
    if lane == NULL:
        return NULL
    lane.barred = <uint64_t *>malloc((like._barred_count + 1) * sizeof(uint64_t))
    if lane.barred == NULL:
        free(lane)
        return NULL
    if like._barred_count:
        memcpy(lane.barred, like.barred, like._barred_count * sizeof(uint64_t))
    lane._barred_count = like._barred_count
    lane.next = queue.lanes
    queue.lanes = lane
    queue._lane_count += 1
    return lane


cdef void insert(Lane *lane, uint64_t serial) noexcept nogil:
    cdef size_t at = position(lane, serial)
    memmove(lane.barred + at + 1, lane.barred + at,
            (lane._barred_count - at) * sizeof(uint64_t))
    lane.barred[at] = serial
    lane._barred_count += 1


cdef Lane *lane_with(Queue *queue, const Lane *lane, uint64_t serial) noexcept nogil:
    """Return the lane that is barred to the links of ``lane`` and one more; NULL if none is."""
    cdef size_t at = position(lane, serial)
    cdef size_t rest = lane._barred_count - at
    cdef Lane *other = queue.lanes
    while other != NULL:
        if (other._barred_count == lane._barred_count + 1 and other.barred[at] == serial
                and (at == 0 or memcmp(other.barred, lane.barred, at * sizeof(uint64_t)) == 0)
                and (rest == 0 or memcmp(other.barred + at + 1, lane.barred + at,
                                         rest * sizeof(uint64_t)) == 0)):
            return other
        other = other.next
    return NULL


cdef void entry_bar(Entry *entry, uint64_t serial) noexcept nogil:
    """Bar an acquired entry to a link. Without memory the link may get it again."""
    cdef Queue *queue = entry.queue
    cdef Lane *before = entry.lane
    cdef Lane *lane
    if lane_barred(before, serial):
        return
    lane = lane_with(queue, before, serial)
    if lane == NULL and queue._lane_count >= LANES_MAX:
        lane = widest_for(queue, before, serial)
    elif lane == NULL:
        lane = lane_new(queue, before)
        if lane != NULL:
            insert(lane, serial)
    if lane == NULL:
        return
    entry.lane = lane
    lane._entries += 1
    if before.barred != NULL:
        lane_leave(queue, before)


cdef Lane *widest_for(Queue *queue, const Lane *before, uint64_t serial) noexcept nogil:
    """Bar the newest lane to the links of ``before`` and one more; NULL without memory."""
    cdef Lane *lane = queue.lanes
    cdef uint64_t *barred = <uint64_t *>malloc(
        (lane._barred_count + before._barred_count + 2) * sizeof(uint64_t))
    cdef size_t i
    if barred == NULL:
        return NULL
    memcpy(barred, lane.barred, lane._barred_count * sizeof(uint64_t))
    free(lane.barred)
    lane.barred = barred
    if not lane_barred(lane, serial):
        insert(lane, serial)
    for i in range(before._barred_count if before != lane else 0):
        if not lane_barred(lane, before.barred[i]):
            insert(lane, before.barred[i])
    return lane


cdef void lane_leave(Queue *queue, Lane *lane) noexcept nogil:
    """Count one entry less in the lane, and free the lane with its last entry."""
    cdef Lane **place = &queue.lanes
    lane._entries -= 1
    if lane._entries:
        return
    while place[0] != lane:
        place = &place[0].next
    place[0] = lane.next
    queue._lane_count -= 1
    free(lane.barred)
    free(lane)


cdef void lanes_forget(Queue *queue, uint64_t serial) noexcept nogil:
    """Remove an ended link from the sets of all lanes."""
    cdef Lane *lane = queue.lanes
    cdef size_t at
    while lane != NULL:
        if lane_barred(lane, serial):
            at = position(lane, serial)
            lane._barred_count -= 1
            memmove(lane.barred + at, lane.barred + at + 1,
                    (lane._barred_count - at) * sizeof(uint64_t))
        lane = lane.next
