"""Deliveries that are accepted after a sync of their messages.

They are accepted in the order in which they came. When a link ends, its deliveries stay in the
list. They refer to the link by a waiter, whose link is NULL then.
"""

cdef bint accept_later(Link *link, uint32_t id) noexcept nogil:
    """Accept a delivery after the next sync; return False without memory."""
    cdef Container *container = link.peer.container
    cdef Pending *run = NULL
    if container.pending_count > container.syncing_count:
        run = &container.pending[container.pending_count - 1]
    if run == NULL or run.waiter != link.waiter or run.last + 1 != id:
        run = begin_run(container, link)
        if run == NULL:
            return False
        run.first = id
    run.last = id
    container.unsynced += 1
    if link.kind == INLET:
        (<Inlet *>link).unsynced += 1
    return True


cdef Pending *begin_run(Container *container, Link *link) noexcept nogil:
    """Return a new run of deliveries of a link; NULL without memory."""
    cdef size_t capacity
    cdef Pending *grown
    if link.waiter == NULL:
        link.waiter = <Waiter *>calloc(1, sizeof(Waiter))
        if link.waiter == NULL:
            return NULL
        link.waiter.link = link
    if container.pending_count == container.pending_capacity:
        capacity = 2 * container.pending_capacity + 64
        grown = <Pending *>realloc(container.pending, capacity * sizeof(Pending))
        if grown == NULL:
            return NULL
        container.pending = grown
        container.pending_capacity = capacity
    grown = &container.pending[container.pending_count]
    grown.waiter = link.waiter
    link.waiter.runs += 1
    container.pending_count += 1
    return grown


cdef void forget_pending(Link *link) noexcept nogil:
    """Detach the deliveries of an ended link from it: nobody waits for their outcomes."""
    cdef Waiter *waiter = link.waiter
    if waiter == NULL:
        return
    waiter.link = NULL
    link.waiter = NULL
    if waiter.runs == 0:
        free(waiter)


cdef void settle_pending(Container *container, bint good) noexcept nogil:
    """Accept the deliveries that waited for a sync, or modify them if it failed."""
    cdef Pending *run
    cdef Link *link
    cdef size_t count = container.syncing_count
    cdef uint32_t size
    cdef size_t i
    for i in range(count):
        run = &container.pending[i]
        size = run.last - run.first + 1
        container.unsynced -= size
        link = one_waits_less(run.waiter)
        if link == NULL:
            continue
        amqp_deliveries_settle(
            &link.peer.deliveries, link.deliveries.end, run.first, run.last,
            AMQP_CODE_ACCEPTED if good else AMQP_CODE_MODIFIED)
        peer_dirty(link.peer)
        if link.kind == INLET:
            (<Inlet *>link).unsynced -= <int>size
            # The link may get more credit.
            inlet_wake(<Inlet *>link)
    container.syncing_count = 0
    container.pending_count -= count
    if container.pending_count:
        memmove(container.pending, container.pending + count,
                container.pending_count * sizeof(Pending))


cdef Link *one_waits_less(Waiter *waiter) noexcept nogil:
    """Count one waiting run of a link less; return the link, NULL if it has ended."""
    cdef Link *link = waiter.link
    waiter.runs -= 1
    if link == NULL and waiter.runs == 0:
        free(waiter)
    return link
