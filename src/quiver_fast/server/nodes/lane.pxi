"""A lane: available entries in the order of their sequence.

A new entry goes last. A returned entry goes to its old place. To find it, the lane has an index,
a treap by sequence: the place is after the last indexed entry with a smaller sequence. The index
has all returned entries. It also has the entry before each gap, where a consumer with a selector
or expiry took an entry from the middle.
"""

cdef inline uint64_t priority(const Entry *entry) noexcept nogil:
    """Hash the sequence to a priority, so that the treap is balanced."""
    cdef uint64_t x = entry.sequence * <uint64_t>0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    return x ^ (x >> 27)


cdef void split(Entry *node, uint64_t sequence, Entry **below, Entry **above) noexcept nogil:
    while node != NULL:
        if node.sequence < sequence:
            below[0] = node
            below = &node._right
            node = node._right
        else:
            above[0] = node
            above = &node.left
            node = node.left
    below[0] = NULL
    above[0] = NULL


cdef void index_add(Lane *lane, Entry *entry) noexcept nogil:
    cdef Entry **place = &lane._root
    cdef uint64_t rank = priority(entry)
    while place[0] != NULL and priority(place[0]) >= rank:
        place = &place[0].left if entry.sequence < place[0].sequence else &place[0]._right
    split(place[0], entry.sequence, &entry.left, &entry._right)
    place[0] = entry
    entry._indexed = True


cdef void index_remove(Lane *lane, Entry *entry) noexcept nogil:
    cdef Entry **place = &lane._root
    cdef Entry *below = entry.left
    cdef Entry *above = entry._right
    while place[0] != entry:
        place = &place[0].left if entry.sequence < place[0].sequence else &place[0]._right
    while below != NULL and above != NULL:
        if priority(below) > priority(above):
            place[0] = below
            place = &below._right
            below = below._right
        else:
            place[0] = above
            place = &above.left
            above = above.left
    place[0] = below if below != NULL else above
    entry._indexed = False


cdef Entry *index_before(const Lane *lane, uint64_t sequence) noexcept nogil:
    """Return the last indexed entry with a smaller sequence; NULL for none."""
    cdef Entry *node = lane._root
    cdef Entry *found = NULL
    while node != NULL:
        if node.sequence < sequence:
            found = node
            node = node._right
        else:
            node = node.left
    return found


cdef void link_after(Lane *lane, Entry *before, Entry *entry) noexcept nogil:
    entry.prev = before
    entry.next = lane.head if before == NULL else before.next
    if before == NULL:
        lane.head = entry
    else:
        before.next = entry
    if entry.next == NULL:
        lane.tail = entry
    else:
        entry.next.prev = entry


cdef void lane_append(Lane *lane, Entry *entry) noexcept nogil:
    """Put a new entry last."""
    entry.prev = lane.tail
    entry.next = NULL
    if lane.tail == NULL:
        lane.head = entry
    else:
        lane.tail.next = entry
    lane.tail = entry


cdef void lane_return(Lane *lane, Entry *entry) noexcept nogil:
    """Put an entry back in its place."""
    cdef Entry *before = NULL
    # Entries that are released together come back in reverse order.
    if lane.head != NULL and lane.head.sequence < entry.sequence:
        before = index_before(lane, entry.sequence)
    link_after(lane, before, entry)
    index_add(lane, entry)


cdef inline void lane_remove(Lane *lane, Entry *entry) noexcept nogil:
    """Take an entry out."""
    if entry.prev == NULL:
        lane.head = entry.next
    else:
        entry.prev.next = entry.next
        if not entry.prev._indexed:
            index_add(lane, entry.prev)
    if entry.next == NULL:
        lane.tail = entry.prev
    else:
        entry.next.prev = entry.prev
    if entry._indexed:
        index_remove(lane, entry)


cdef Entry *lane_after(const Lane *lane, uint64_t sequence) noexcept nogil:
    """Return the first entry with a larger sequence in a lane of returned entries, or NULL."""
    cdef Entry *before = index_before(lane, sequence + 1)
    return lane.head if before == NULL else before.next


cdef Entry *lane_find(const Lane *lane, uint64_t sequence) noexcept nogil:
    """Return the returned entry with this sequence in the lane; NULL if there is none."""
    cdef Entry *entry = index_before(lane, sequence + 1)
    return entry if entry != NULL and entry.sequence == sequence else NULL
