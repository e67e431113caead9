# A message that is forwarded while it is being received.
cdef struct Stream:
    Message *message
    # Its sender's link and delivery; NULL after their end.
    Inlet *inlet
    amqp_delivery_t *delivery
    Stream *next
    # Outlets that are sending it.
    Outlet *readers
    # Entries without an outcome, and the worst outcome of the others.
    int undecided
    uint64_t outcome
    bint failed
    bint undeliverable
    bint presettled         # by its sender

# Another server, by its container id: the connections to it. The last of them frees it.
cdef struct Neighbour:
    Peer *trunks
    Neighbour *prev
    Neighbour *next
