"""Frees queues that nothing uses any more."""

# Messages of an ended queue that are dropped in one turn, so that other queues have theirs.
cdef size_t CLEAR_STEP = 8192


cdef void queue_left(Queue *queue) noexcept nogil:
    """Count one link or transaction less; free a temporary queue with the last one.

    It is freed after a dispatch, which answers the senders of streams that wait in it.
    """
    queue.links -= 1
    if queue.links:
        return
    if queue.topic != NULL and not queue.kept:
        subscription_left(queue)
    queue_dirty(queue)


cdef void queue_retire(Queue *queue) noexcept nogil:
    """Free a temporary queue that no link uses.

    A stream may still run on a link of ours: its end dispatches the queue again. Producers of
    its topic, or with an anonymous terminus, may wait for its room without a link to it.
    """
    cdef Queue *topic = queue.topic
    cdef Inlet *waiting = queue.waiting
    if not (queue.temporary or is_forgettable(queue)):
        return
    if not queue_clear(queue, CLEAR_STEP):
        timer_advance(queue.container, &queue.timer, 0)
        return
    queue.waiting = NULL
    if queue.depth == 0:
        with gil:
            (<Broker>queue.container.broker).release(queue)
        if topic != NULL:
            queue_left(topic)
    resume(waiting)


cdef bint is_forgettable(const Queue *queue) noexcept nogil:
    return queue.on_demand and queue.depth == 0 and queue.store == NULL and not queue.opening
