"""Notes in the container: work for the end of the turn, memory to give back, readings."""

cdef enum:
    # How long freed memory is kept for reuse, in ms.
    TRIM = 500
    # The most queues that metrics name.
    LABELS = 500
    # Entry.since is the time in ms shifted so far: 16 ms, which 32 bits hold for two years.
    SINCE_SHIFT = 4


cdef inline void queue_dirty(Queue *queue) noexcept nogil:
    """Mark the queue for dispatch at the end of the turn."""
    if not queue.dirty:
        queue.dirty = True
        queue.next_dirty = queue.container.dirty_queues
        queue.container.dirty_queues = queue


cdef inline void peer_dirty(Peer *peer) noexcept nogil:
    """Mark the peer's output to be written at the end of the turn."""
    if not peer.dirty:
        peer.dirty = True
        peer.next_dirty = peer.container.dirty_peers
        peer.container.dirty_peers = peer


cdef inline void inlet_wake(Inlet *inlet) noexcept nogil:
    """Mark the inlet to be read at the end of the turn."""
    if not inlet.awake:
        inlet.awake = True
        inlet.next_awake = inlet.base.peer.container.awake
        inlet.base.peer.container.awake = inlet


cdef inline void memory_freed(Container *container) noexcept nogil:
    """Return freed memory to the system after a while, if it is not used again by then."""
    if container.trim_at == 0:
        container.trim_at = (container.now_ms + TRIM) * 1000000


cdef inline void came_in(Traffic *traffic, size_t size) noexcept nogil:
    """Count a complete message from a producer."""
    traffic.messages_in += 1
    traffic.bytes_in += size


cdef inline void went_out(Traffic *traffic, size_t size) noexcept nogil:
    """Count a complete message to a consumer."""
    traffic.messages_out += 1
    traffic.bytes_out += size


# The queues that metrics name: a place each in a table of fixed size, so that a scrape never walks
# all queues. A queue keeps its place until it is freed, so its series do not come and go.

cdef inline void queue_label(Queue *queue) noexcept nogil:
    """Give a queue a place, if metrics are on and there is one."""
    cdef Container *container = queue.container
    cdef unsigned place = 0
    if container.labelled == NULL or container.label_count == LABELS:
        return
    while container.labelled[place] != NULL:
        place += 1
    container.labelled[place] = queue
    container.label_count += 1
    queue.label = place + 1


cdef inline void queue_unlabel(Queue *queue) noexcept nogil:
    """Take the place back from a queue that is about to be freed."""
    if queue.label:
        queue.container.labelled[queue.label - 1] = NULL
        queue.container.label_count -= 1
        queue.label = 0
