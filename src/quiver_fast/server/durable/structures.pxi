# A link whose deliveries wait for a sync, in so many runs; its link is NULL after the link's end.
cdef struct Waiter:
    Link *link
    size_t runs

# A run of deliveries, by their ids, that are accepted when their messages are on disk.
cdef struct Pending:
    Waiter *waiter
    uint32_t first
    uint32_t last
