"""The credit of producers. It depends on their messages' size and unsettled deliveries.

A queue keeps whole messages for later consumers. A stream that is not stored in a file needs
a consumer. So its sender gets credit when the first consumer attaches, and is drained when
the last one detaches (AMQP 1.0 part 2.6.7).
"""

cdef inline int credit_of(const Link *link) noexcept nogil:
    """Return the credit of a link that messages come by, with those that were not taken yet."""
    return <int>(link.deliveries.end.counts.credit + link.deliveries.untaken)


cdef inline void note_size(Inlet *inlet, const Message *message) noexcept nogil:
    """Follow the mean size of the messages that come by a link, and count them."""
    came_in(&inlet.base.peer.container.traffic, message.size)
    if inlet.mean_size == 0:
        inlet.mean_size = message.size
    inlet.mean_size += (<int64_t>message.size - <int64_t>inlet.mean_size) // 8


cdef inline bint has_demand(const Queue *queue) noexcept nogil:
    """Say whether a stream to this address has a consumer, or a file."""
    if queue.multicast:
        return queue.subscriptions != NULL
    return queue.consumer_count > 0 or queue.storable

# The bytes that a producer may send ahead. Credit is this divided by its messages' mean size.
cdef size_t AHEAD_MAX = 4194304
cdef int LEAST_CREDIT = 4
# The most deliveries that may wait for a sync. The end of the sync resumes the inlet.
cdef int UNSYNCED_MAX = 32768
# The first credit, before the size is known. With more, a waiting producer of large messages
# would fill its session's window and stop the session's other links. One of these may be a
# coordinator's, whose commit the producer waits for.
cdef int FIRST_CREDIT = 64
# Unsettled streams of one link; skupper-router allows as many deliveries.
cdef int STREAMS_MAX = 250


cdef void inlet_top_up(Inlet *inlet) noexcept nogil:
    """Keep the producer's credit between half and all of its window (part 2.6.7)."""
    cdef int window
    cdef int credit
    if inlet.blocked_by != NULL or inlet.base.refused or inlet.base.peer.container.closing:
        return
    if not is_attached(&inlet.base):
        # `session_opened` tops it up when its session has begun.
        return
    if inlet.streaming and inlet.queue != NULL and not has_demand(inlet.queue):
        return
    if inlet.unsynced >= UNSYNCED_MAX:
        return
    window = inlet.base.peer.container.limits.credit
    if inlet.mean_size:
        window = min(window, max(<int>(AHEAD_MAX // inlet.mean_size), LEAST_CREDIT))
    else:
        window = min(window, FIRST_CREDIT)
    if inlet.streaming or inlet.stream_count:
        # A stream takes up one credit until it is settled.
        window = min(window, min(STREAMS_MAX, inlet.base.peer.container.limits.credit)
                     - inlet.stream_count)
    if inlet.base.role == TRUNK_CONSUMER:
        # The other server keeps messages that no consumer here asks for.
        window -= <int>min(<size_t>max(window, 0), inlet.queue.available)
    credit = credit_of(&inlet.base)
    if credit <= window // 2 and credit < window:
        give_credit(inlet, window - credit, False)


cdef void give_credit(Inlet *inlet, int more, bint drain) noexcept nogil:
    if not amqp_plane_credit(
            &inlet.base.peer.plane, inlet.base.deliveries.end, <uint32_t>more, drain):
        inlet.base.peer.deliveries.failed = True
    peer_dirty(inlet.base.peer)


cdef void demand_join(Inlet *inlet) noexcept nogil:
    """Put a sender of streams into its queue's list."""
    list_push(&inlet.queue.streaming_inlets, inlet,
              &inlet.prev_streaming, &inlet.next_streaming)


cdef void demand_leave(Inlet *inlet) noexcept nogil:
    """Remove a detached link from its queue's list, if it is in one."""
    if inlet.queue != NULL and list_has(
            &inlet.queue.streaming_inlets, inlet, &inlet.prev_streaming):
        list_remove(&inlet.queue.streaming_inlets, inlet,
                    &inlet.prev_streaming, &inlet.next_streaming)


cdef void demand_began(Queue *queue) noexcept nogil:
    """A consumer has attached: if it is the first, senders of streams get credit."""
    cdef Inlet *inlet = queue.streaming_inlets
    if not is_first(queue):
        return
    while inlet != NULL:
        inlet_top_up(inlet)
        inlet = inlet.next_streaming


cdef bint is_first(const Queue *queue) noexcept nogil:
    """Say whether there was no demand before the last consumer."""
    if queue.multicast:
        return queue.subscriptions != NULL and queue.subscriptions.next_subscription == NULL
    return queue.consumer_count == 1 and not queue.storable


cdef void demand_ended(Queue *queue) noexcept nogil:
    """A consumer has left: if it was the last, drain the senders of streams."""
    cdef Inlet *inlet = queue.streaming_inlets
    while inlet != NULL and not has_demand(queue):
        if is_attached(&inlet.base) and credit_of(&inlet.base) > 0:
            give_credit(inlet, 0, True)
        inlet = inlet.next_streaming
