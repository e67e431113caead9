# The queues that metrics name: a place each in a table of fixed size, so that a scrape never walks
# all queues. A queue keeps its place until it is freed, so its series do not come and go.


cdef enum:
    # The most queues that metrics name.
    LABELS = 500
    # Entry.since is the time in ms shifted so far: 16 ms, which 32 bits hold for two years.
    SINCE_SHIFT = 4


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
