"""Deliveries that are accepted after a sync of their messages.

They are accepted in the order in which they came. When a link ends, its deliveries stay in the
list. They refer to the link by a waiter, whose link is NULL then.
"""

cdef bint accept_later(Link *link, amqp_delivery_t *delivery) noexcept nogil:
    """Accept a delivery after the next sync; return False without memory."""
    cdef Container *container = link.peer.container
    cdef size_t capacity
    cdef Pending *grown
    if link.waiter == NULL:
        link.waiter = <Waiter *>calloc(1, sizeof(Waiter))
        if link.waiter == NULL:
            return False
        link.waiter.link = link
    if container.pending_count == container.pending_capacity:
        capacity = 2 * container.pending_capacity + 1024
        grown = <Pending *>realloc(container.pending, capacity * sizeof(Pending))
        if grown == NULL:
            return False
        container.pending = grown
        container.pending_capacity = capacity
    container.pending[container.pending_count].waiter = link.waiter
    link.waiter.count += 1
    container.pending[container.pending_count].delivery = delivery
    container.pending_count += 1
    if link.kind == INLET:
        (<Inlet *>link).unsynced += 1
    return True


cdef void forget_pending(Link *link) noexcept nogil:
    """Detach the deliveries of an ended link from it: nobody waits for their outcomes."""
    cdef Waiter *waiter = link.waiter
    if waiter == NULL:
        return
    waiter.link = NULL
    link.waiter = NULL
    if waiter.count == 0:
        free(waiter)


cdef void settle_pending(Container *container, bint good) noexcept nogil:
    """Accept the deliveries that waited for a sync, or modify them if it failed."""
    cdef Pending *pending
    cdef Link *link
    cdef size_t count = container.syncing_count
    cdef size_t i
    for i in range(count):
        pending = &container.pending[i]
        link = one_waits_less(pending.waiter)
        if link == NULL:
            continue
        if good:
            amqp_delivery_say(pending.delivery, AMQP_CODE_ACCEPTED)
        else:
            amqp_delivery_say_modified(pending.delivery, True, False)
        amqp_delivery_settle(pending.delivery)
        peer_dirty(link.peer)
        if link.kind == INLET:
            (<Inlet *>link).unsynced -= 1
            # The link may get more credit.
            inlet_wake(<Inlet *>link)
    container.syncing_count = 0
    container.pending_count -= count
    if container.pending_count:
        memmove(container.pending, container.pending + count,
                container.pending_count * sizeof(Pending))


cdef Link *one_waits_less(Waiter *waiter) noexcept nogil:
    """Count one waiting delivery of a link less; return the link, NULL if it has ended."""
    cdef Link *link = waiter.link
    waiter.count -= 1
    if link == NULL and waiter.count == 0:
        free(waiter)
    return link
