"""Credit for the senders of streams: only while somebody is there to take one.

A queue keeps whole messages for whoever comes later. A stream cannot be kept, so a
sender that asks for streams waits for its credit until a consumer has attached, and
gives back what it has left when the last one went (drain, AMQP 1.0 part 2.6.7).
"""

from quiver_fast.proton.libproton cimport pn_link_credit, pn_link_drain
from quiver_fast.server.credit cimport inlet_top_up
from quiver_fast.server.structures cimport Inlet, Queue, peer_dirty


cdef void demand_join(Inlet *inlet) noexcept nogil:
    """Put a sender of streams into its queue's list."""
    cdef Inlet *first = inlet.queue.streaming_inlets
    inlet.next_streaming = first
    if first != NULL:
        first.prev_streaming = inlet
    inlet.queue.streaming_inlets = inlet


cdef void demand_leave(Inlet *inlet) noexcept nogil:
    """Take a link that is detached out of its queue's list, if it is in one."""
    if inlet.queue == NULL or (
            inlet.prev_streaming == NULL and inlet.queue.streaming_inlets != inlet):
        return
    if inlet.next_streaming != NULL:
        inlet.next_streaming.prev_streaming = inlet.prev_streaming
    if inlet.prev_streaming != NULL:
        inlet.prev_streaming.next_streaming = inlet.next_streaming
    else:
        inlet.queue.streaming_inlets = inlet.next_streaming
    inlet.prev_streaming = NULL
    inlet.next_streaming = NULL


cdef void demand_began(Queue *queue) noexcept nogil:
    """A consumer has attached: if it is the first, senders of streams may begin."""
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
    """A consumer went: without another one, senders of streams give their credit back."""
    cdef Inlet *inlet = queue.streaming_inlets
    while inlet != NULL and not has_demand(queue):
        if pn_link_credit(inlet.base.link) > 0:
            pn_link_drain(inlet.base.link, 0)
            peer_dirty(inlet.base.peer)
        inlet = inlet.next_streaming
