# A link whose deliveries wait for a sync, and how many; its link is NULL after the link's end.
cdef struct Waiter:
    Link *link
    size_t count

# A delivery that is accepted when its message is on disk.
cdef struct Pending:
    Waiter *waiter
    amqp_delivery_t *delivery
