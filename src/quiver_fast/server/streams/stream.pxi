"""A streaming delivery: it is forwarded while it arrives, and its outcome is passed back.

A stream is an entry whose message is not complete yet. This module has the readers of a stream
and the outcome for its sender. The sender's delivery stays unsettled until its end has come, even
if the consumers have settled: the engine would count the rest of a settled delivery against the
session.
"""

cdef inline Stream *stream_of(const Message *message) noexcept nogil:
    return <Stream *>message.stream


cdef inline bint is_chosen(Queue *subscription, const Message *message) noexcept nogil:
    if subscription.not_from and subscription.not_from == message.origin:
        return False
    if subscription.filter == NULL:
        return True
    if message.judged == 0 or subscription.judged != message.judged:
        subscription_judge(subscription, message)
    return subscription.fits


cdef inline void subscription_judge(Queue *subscription, const Message *message) noexcept nogil:
    """Ask a subscription's selector for a message, and keep the answer."""
    subscription.fits = filter_matches(subscription.filter, message)
    subscription.judged = message.judged
    subscription.container.judging_left -= subscription.filter.cost


cdef inline bint is_for(Queue *subscription, const Message *message) noexcept nogil:
    # A stream from another server goes to no other server: it would come back.
    return not (subscription.trunk and message.from_trunk) and (
        not subscription.is_filtered or is_chosen(subscription, message))


cdef inline int subscription_count(const Queue *topic, const Message *message) noexcept nogil:
    cdef Queue *subscription = topic.subscriptions
    cdef int count = 0
    while subscription != NULL:
        count += is_for(subscription, message)
        subscription = subscription.next_subscription
    return count


cdef bint stream_begin(
        Inlet *inlet, amqp_delivery_t *delivery, Message *message, int entries) noexcept nogil:
    """Make a stream of a message for ``entries`` queues; return False without memory."""
    cdef Stream *stream = <Stream *>calloc(1, sizeof(Stream))
    cdef Chunk *chunk = message.first
    if stream == NULL:
        return False
    made(STREAM)
    stream.message = message
    stream.inlet = inlet
    stream.delivery = delivery
    stream.undecided = entries
    # The settled flag may come only with the last frame (part 2.7.5).
    stream.presettled = delivery.settled_by_peer or (
        pn_link_remote_snd_settle_mode(inlet.base.link) == PN_SND_SETTLED)
    stream.next = inlet.streams
    inlet.streams = stream
    inlet.stream_count += 1
    message.stream = stream
    message.readers = entries
    while chunk != NULL:
        chunk.readers = entries
        chunk = chunk.next
    return True


cdef void stream_leave(Message *message, Chunk *position) noexcept nogil:
    """Note that one entry stops sending at ``position``, and wake the sender."""
    cdef Inlet *inlet = stream_of(message).inlet
    message_leave(message, position)
    if inlet != NULL and not message.complete:
        memory_freed(inlet.base.peer.container)
        inlet_wake(inlet)


cdef void stream_reason(const Message *message, amqp_bytes_t rejected) noexcept nogil:
    """Keep the reason why a consumer rejects a stream, for the sender (part 3.4.3)."""
    cdef Stream *stream = stream_of(message)
    if stream.delivery != NULL:
        amqp_delivery_say_as(stream.delivery, rejected)


cdef inline int severity(uint64_t outcome) noexcept nogil:
    """Rank outcomes: with several consumers the sender gets the worst (accepted is best)."""
    if outcome == PN_REJECTED:
        return 3
    if outcome == PN_MODIFIED:
        return 2
    if outcome == PN_RELEASED:
        return 1
    return 0


cdef void stream_decide(
        Stream *stream, uint64_t outcome, bint failed, bint undeliverable) noexcept nogil:
    """Take the outcome of one entry, and answer the sender after the last one."""
    if outcome != PN_REJECTED and outcome != PN_MODIFIED and outcome != PN_RELEASED:
        outcome = PN_ACCEPTED
    if severity(outcome) >= severity(stream.outcome):
        stream.outcome = outcome
    stream.failed |= failed
    stream.undeliverable |= undeliverable
    stream.undecided -= 1
    # The count is below zero if no queue had the stream: then this is the only outcome.
    if stream.undecided <= 0:
        tell(stream)


cdef void tell(Stream *stream) noexcept nogil:
    """Give the sender's delivery its outcome, and settle it if it is complete."""
    cdef amqp_delivery_t *delivery = stream.delivery
    if delivery == NULL:
        return
    peer_dirty(stream.inlet.base.peer)
    if not stream.presettled:
        say_outcome(stream, delivery)
    if stream.message.complete:
        amqp_delivery_settle(delivery)
        stream_orphan(stream)
    elif not stream.presettled:
        amqp_delivery_tell(delivery)


cdef void say_outcome(const Stream *stream, amqp_delivery_t *delivery) noexcept nogil:
    # A rejection may have a reason already.
    if stream.outcome != PN_REJECTED or delivery.our_state.size == 0:
        delivery_say(delivery, stream.outcome, stream.failed, stream.undeliverable)


cdef void stream_received(Stream *stream) noexcept nogil:
    """Settle a stream that is complete, if its outcome is known."""
    if stream.inlet != NULL:
        came_in(&stream.inlet.base.peer.container.traffic, stream.message.size)
    if stream.readers == NULL:
        message_fit(stream.message)
    if stream.undecided <= 0 and stream.delivery != NULL:
        tell(stream)


cdef void stream_orphan(Stream *stream) noexcept nogil:
    """Detach a stream from its sender, which has left or has got its answer."""
    cdef Stream **place = &stream.inlet.streams
    while place[0] != stream:
        place = &place[0].next
    place[0] = stream.next
    stream.inlet.stream_count -= 1
    # The sender may have room for one more stream.
    inlet_wake(stream.inlet)
    stream.inlet = NULL
    stream.delivery = NULL


cdef void reader_join(Outlet **readers, Outlet *outlet) noexcept nogil:
    outlet.next_reader = readers[0]
    readers[0] = outlet


cdef void reader_leave(Outlet **readers, Outlet *outlet) noexcept nogil:
    """Remove an outlet from the list of outlets that send a message while it arrives."""
    while readers[0] != NULL and readers[0] != outlet:
        readers = &readers[0].next_reader
    if readers[0] == outlet:
        readers[0] = outlet.next_reader


cdef void sweep_streams(Queue *queue) noexcept nogil:
    """Let the queues of an address remove streams that were aborted before a consumer took them."""
    if queue == NULL:
        return
    if queue.multicast:
        queue = queue.subscriptions
        while queue != NULL:
            sweep_one(queue)
            queue = queue.next_subscription
        return
    sweep_one(queue)


cdef void sweep_one(Queue *queue) noexcept nogil:
    if queue.streams:
        queue.sweep = True
        queue_dirty(queue)
