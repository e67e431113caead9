"""Producers that wait: for room in a queue, for the queue's file, or for a later turn.

The end of a long message copies all of it in the queue's file (`chain_commit`). If many ended in
one turn, all other connections would wait. So each turn of the loop ends a few megabytes or one
message, and the other links wait in order.
"""

# The bytes of long messages that end in one turn. A single message may have more.
cdef size_t COPIED_MAX = 4194304
cdef const char *SCARCE = b"amqp:resource-limit-exceeded"
cdef const char *NO_DESCRIPTORS = b"the server has no descriptors left for the queue's file"


cdef bint inlet_must_wait(Inlet *inlet) noexcept nogil:
    """Say whether the link has to wait because its queue has no room or no file.

    It is resumed later. Unread bytes stay in the session's window, which stops the producer.
    """
    cdef Queue *full
    if inlet.blocked_by != NULL:
        return True
    if inlet.receiving != NULL:
        return False
    # An anonymous terminus waits for room in the queue of its last message.
    full = full_queue(inlet.queue if inlet.queue != NULL else last_queue(inlet))
    if full == NULL:
        return False
    begin_waiting(inlet, full)
    return True


cdef Queue *full_queue(Queue *queue) noexcept nogil:
    """Return the queue without room: ``queue``, or a subscription of this topic; else NULL."""
    if queue == NULL:
        return NULL
    if not queue.multicast:
        return queue if queue.bytes >= queue.limit else NULL
    queue = queue.subscriptions
    while queue != NULL and queue.bytes < queue.limit:
        queue = queue.next_subscription
    return queue


cdef void begin_waiting(Inlet *inlet, Queue *queue) noexcept nogil:
    inlet.blocked_by = queue
    list_push(&queue.waiting, inlet, &inlet.prev_waiting, &inlet.next_waiting)


cdef void end_waiting(Inlet *inlet) noexcept nogil:
    """Remove a link from the list in which it waits."""
    if inlet.blocked_by == NULL:
        return
    if inlet.ends_later:
        leave_endings(inlet)
        return
    list_remove(&inlet.blocked_by.waiting, inlet, &inlet.prev_waiting, &inlet.next_waiting)
    inlet.blocked_by = NULL


cdef bint must_be_judged(Inlet *inlet, Message *message, Queue *topic) noexcept nogil:
    """Say whether a message must wait for a later turn, because a topic has many selectors.

    The answers are kept with the subscriptions. So a topic is asked for one message at a time.
    """
    cdef Container *container = topic.container
    cdef Queue *subscription
    if topic.selector_count == 0 or message.judged and topic.judging != inlet:
        return False
    if topic.judging == NULL and container.judging_left > 0:
        inlet_bind(inlet, topic)
        topic.judging = inlet
        topic.next_judge = topic.subscriptions
        container.next_serial += 1
        message.judged = container.next_serial
    while topic.judging == inlet and topic.next_judge != NULL and container.judging_left > 0:
        subscription = topic.next_judge
        topic.next_judge = subscription.next_subscription
        if subscription.filter != NULL:
            subscription_judge(subscription, message)
    if topic.judging == inlet and topic.next_judge == NULL:
        judging_ends(inlet)
        return False
    inlet_bind(inlet, topic)
    begin_waiting(inlet, topic)
    select_later(topic)
    return True


cdef void judging_ends(Inlet *inlet) noexcept nogil:
    """Let a topic's selectors be asked for the next message."""
    cdef Queue *topic = inlet.destination
    if topic != NULL and topic.judging == inlet:
        topic.judging = NULL
        topic.next_judge = NULL


cdef Endings *endings_of(const Container *container) noexcept nogil:
    return &(<Broker>container.broker).endings


cdef bint must_end_later(Inlet *inlet, const Message *message) noexcept nogil:
    """Say whether the end of a long message, and so its link, must wait for a later turn."""
    cdef Endings *endings = endings_of(inlet.base.peer.container)
    cdef Queue *queue = inlet.destination
    cdef size_t size
    if message.chain == NULL or queue == NULL or queue.store == NULL:
        return False
    size = commit_size((<Store>queue.store).appender, message)
    if endings.admitted == inlet or endings.oldest == NULL and (
            endings.copied == 0 or endings.copied + size <= COPIED_MAX):
        endings.copied += size
        return False
    inlet.blocked_by = queue
    inlet.ends_later = True
    if endings.oldest == NULL:
        endings.oldest = inlet
    list_push(&endings.newest, inlet, &inlet.prev_waiting, &inlet.next_waiting)
    return True


cdef void leave_endings(Inlet *inlet) noexcept nogil:
    cdef Endings *endings = endings_of(inlet.base.peer.container)
    if endings.oldest == inlet:
        endings.oldest = inlet.prev_waiting
    list_remove(&endings.newest, inlet, &inlet.prev_waiting, &inlet.next_waiting)
    inlet.blocked_by = NULL
    inlet.ends_later = False


cdef bint ends_are_left(const Container *container) noexcept nogil:
    """Say whether a link waits for a later turn."""
    return endings_of(container).oldest != NULL


cdef bint endings_begin(Container *container) noexcept nogil:
    """Start the count of the next turn; say whether this turn can end a message."""
    cdef Endings *endings = endings_of(container)
    cdef bint much = endings.copied > COPIED_MAX
    endings.copied = 0
    return not much


cdef Inlet *admit_ending(Container *container) noexcept nogil:
    """Return the link that has waited longest, out of the list; NULL if this turn ended enough."""
    cdef Endings *endings = endings_of(container)
    endings.admitted = NULL
    if endings.copied == 0 and endings.oldest != NULL:
        endings.admitted = endings.oldest
        leave_endings(endings.admitted)
    return endings.admitted


cdef bint lacks_file(Queue *queue) noexcept nogil:
    """Say whether a message must wait until its queue's file is open."""
    return queue.store == NULL or must_open_later(queue)


cdef void wait_for_file(Inlet *inlet, Message *message, Queue *queue) noexcept nogil:
    """Keep a message for its queue's file until the file is open."""
    inlet.receiving = message
    inlet_bind(inlet, queue)
    if queue.store == NULL:
        want_store(queue)
    queue.opening = True
    begin_waiting(inlet, queue)


cdef void refuse_waiting(Inlet *inlet) noexcept nogil:
    """Refuse a producer's message because its queue's file cannot be opened."""
    while inlet != NULL:
        if inlet.receiving != NULL:
            refuse_message(inlet, inlet.base.deliveries.current, inlet.receiving)
        inlet = inlet.next_waiting


cdef void refuse_message(
        Inlet *inlet, amqp_delivery_t *delivery, Message *message) noexcept nogil:
    if message.complete:
        inlet.receiving = NULL
        message_release(message)
        refuse_for_now(inlet.destination, delivery)
    elif stream_begin(inlet, delivery, message, 0):
        # The rest of the message is dropped.
        if is_scarce(inlet.destination):
            amqp_delivery_say_rejected(delivery, NULL, SCARCE, NO_DESCRIPTORS)
            stream_decide(stream_of(message), PN_REJECTED, False, False)
        else:
            stream_decide(stream_of(message), PN_MODIFIED, True, False)
    else:
        link_refuse(&inlet.base, b"amqp:resource-limit-exceeded",
                    b"the server is out of memory")


cdef void refuse_for_now(const Queue *queue, amqp_delivery_t *delivery) noexcept nogil:
    """Modify a delivery as failed when the disk is full: its sender may try again.

    Reject it for want of descriptors.
    """
    if queue != NULL and is_scarce(queue):
        amqp_delivery_say_rejected(delivery, NULL, SCARCE, NO_DESCRIPTORS)
    else:
        amqp_delivery_say_modified(delivery, True, False)
    amqp_delivery_settle(delivery)
