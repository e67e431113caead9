from quiver_fast.server.structures cimport Inlet, Queue


cdef inline bint has_demand(const Queue *queue) noexcept nogil:
    """Say whether a stream to this address would find somebody, or a file."""
    if queue.multicast:
        return queue.subscriptions != NULL
    return queue.consumer_count > 0 or queue.storable


cdef void demand_join(Inlet *inlet) noexcept nogil
cdef void demand_leave(Inlet *inlet) noexcept nogil
cdef void demand_began(Queue *queue) noexcept nogil
cdef void demand_ended(Queue *queue) noexcept nogil
