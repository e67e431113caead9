"""The destination of a message: its link's target, or its own `to`."""

cdef inline bint publish(Queue *queue, Message *message) noexcept nogil:
    """Put a message into a queue, or into each subscription of a topic.

    Take over one reference. Return False without memory, or if the file of a subscription takes
    no more.
    """
    if queue.multicast:
        return publish_to_all(queue, message)
    if queue_append(queue, message) == NULL:
        message_release(message)
        return False
    queue_dirty(queue)
    return True


cdef bint publish_to_all(Queue *queue, Message *message) noexcept nogil:
    """Put a message into each subscription of a topic."""
    cdef Queue *subscription
    cdef bint done = True
    if queue.stored_subscriptions and message.header.durable and message.index != SPREAD:
        if not store_copies(queue, message):
            message_release(message)
            return False
    subscription = queue.subscriptions
    while subscription != NULL:
        if not is_for(subscription, message):
            pass
        elif subscription.store != NULL and message.header.durable:
            done &= publish_copy(subscription)
        elif queue_append(subscription, message) == NULL:
            done = False
        else:
            message.hold.users += 1
            queue_dirty(subscription)
        subscription = subscription.next_subscription
    message_release(message)
    return done


cdef bint publish_copy(Queue *subscription) noexcept nogil:
    """Put a subscription's copy of a message into its queue."""
    cdef Message *copy = subscription.incoming
    subscription.incoming = NULL
    if copy == NULL:
        return True
    if queue_append(subscription, copy) == NULL:
        message_release(copy)
        return False
    queue_dirty(subscription)
    return True


cdef Queue *queue_of_message(
        Inlet *inlet, amqp_delivery_t *delivery, Message *message) noexcept nogil:
    """Find the queue in `to` of an anonymous terminus' message; NULL if it was rejected."""
    cdef const char *address
    cdef size_t size
    cdef Absence absence
    cdef Queue *queue
    if message_address(message, &address, &size) == HEADER_MALFORMED:
        delivery_reject(&inlet.base, delivery, b"amqp:decode-error", b"this is not an AMQP message")
        return NULL
    if size == 0:
        delivery_reject(&inlet.base, delivery, b"amqp:precondition-failed",
                        b"a message to the anonymous terminus names its address in 'to'")
        return NULL
    queue = named_queue(inlet, address, size, &absence)
    if queue == NULL:
        delivery_reject(&inlet.base, delivery, absence.condition, absence.why)
    return queue


cdef HeaderResult queue_of_stream(
        Inlet *inlet, const Message *message, Queue **queue, Absence *absence) noexcept nogil:
    """Find the queue in `to` of an anonymous, incomplete stream; NULL with ``absence``.

    HEADER_MORE means that `to` may still come.
    """
    cdef const char *address
    cdef size_t size
    cdef HeaderResult result = message_address(message, &address, &size)
    queue[0] = NULL
    absence.condition = b"amqp:precondition-failed"
    strcpy(absence.why, b"a message to the anonymous terminus names its address in 'to'")
    if result == HEADER_READ and size:
        queue[0] = named_queue(inlet, address, size, absence)
    return result


cdef Queue *named_queue(
        Inlet *inlet, const char *address, size_t size, Absence *absence) noexcept nogil:
    """Find a queue by address; quickly if the last message had the same address.

    Return NULL with ``absence`` if there is none.
    """
    cdef Queue *queue = last_queue(inlet)
    if queue == NULL or queue.address_size != size or memcmp(
            queue.address, address, size) != 0:
        queue = find_queue(inlet.base.peer.container, address, size, absence)
        inlet.last = queue
        inlet.last_known = inlet.base.peer.container.queues_gone
    return queue


cdef Queue *last_queue(Inlet *inlet) noexcept nogil:
    """Return the last queue of an anonymous terminus if it still exists, else NULL."""
    if inlet.last_known != inlet.base.peer.container.queues_gone:
        inlet.last = NULL
    return inlet.last


cdef bint can_pass(const Queue *queue) noexcept nogil:
    """Say whether a message would go to a consumer at once instead of waiting in the queue."""
    return queue.multicast or queue.available == 0 and queue.ready != NULL
