from libc.stdint cimport int64_t

from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Inlet, Queue
from quiver_fast.server.model.traffic cimport came_in

cdef void inlet_top_up(Inlet *inlet) noexcept nogil
cdef void demand_join(Inlet *inlet) noexcept nogil
cdef void demand_leave(Inlet *inlet) noexcept nogil
cdef void demand_began(Queue *queue) noexcept nogil
cdef void demand_ended(Queue *queue) noexcept nogil


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
