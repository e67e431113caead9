from quiver_fast.proton.libproton cimport pn_link_t
from quiver_fast.server.addresses.broker cimport Broker
from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Link, Peer, Queue, Transaction

cdef class Subscription:
    cdef Queue *queue
    # A Description.
    cdef readonly object what
    cdef readonly tuple key
    # The name of its folder; None if it has none.
    cdef readonly object folder
    # Links that wait until it is made.
    cdef list waiting

cdef Queue *subscription_of(Broker broker, Peer *peer, pn_link_t *link, Queue *topic) except? NULL
cdef Queue *known_subscription(Broker broker, Peer *peer, pn_link_t *link) except? NULL
cdef bint is_active(const Queue *subscription) noexcept nogil
cdef bint subscription_closed(Queue *queue, Link *link) noexcept nogil
cdef void subscription_left(Queue *queue) noexcept nogil
cdef bint store_copies(Queue *topic, Message *message) noexcept nogil
cdef bint spread(Transaction *transaction) noexcept nogil

# The index of the topic's message that is being copied into subscriptions' files.
cdef enum:
    SPREAD = -2
cdef bytes container_of(Peer *peer)
