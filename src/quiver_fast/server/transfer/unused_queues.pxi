"""Frees queues that nothing uses any more."""

cdef void queue_left(Queue *queue) noexcept nogil:
    """Count one link or transaction less; free a temporary queue with the last one.

    A dispatch before that answers the senders of streams that wait in the queue.
    """
    queue.links -= 1
    if queue.links:
        return
    if queue.topic != NULL and not queue.kept:
        subscription_left(queue)
    queue_dirty(queue)


cdef void queue_retire(Queue *queue) noexcept nogil:
    """Free a temporary queue that no link uses.

    A stream may still use one of our links: its end dispatches the queue again. Producers of the
    topic or with an anonymous terminus may wait for room without a link to the queue.
    """
    cdef Queue *topic = queue.topic
    cdef Inlet *waiting = queue.waiting
    if not (queue.temporary or is_forgettable(queue)):
        return
    if not queue_clear(queue, &queue.container.clearing_left):
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
