from libc.stdint cimport uint64_t

from quiver_fast.amqp.data_plane cimport amqp_delivery_t
from quiver_fast.loop.opener cimport Opener
from quiver_fast.loop.reactor cimport Reactor
from quiver_fast.loop.syncer cimport Syncer
from quiver_fast.proton.libproton cimport pn_link_t, pn_terminus_t
from quiver_fast.security.security cimport Security
from quiver_fast.server.messages.messages cimport HeaderResult, Message
from quiver_fast.server.model.structures cimport Container, Inlet, Link, Peer, Queue, Transaction
from quiver_fast.server.selectors.selectors cimport Selector

# Why an address does not exist: an AMQP condition and a description.
cdef struct Absence:
    const char *condition
    char why[256]

# The end of a link's wait: the error, or NULL; and whether its peer has ended or closed it.
cdef struct Delay:
    const char *why
    # That was for want of descriptors.
    bint scarce
    bint ended
    bint closed

# Links whose long message is complete, and waits for a turn in which it may be made whole: the
# last that came is the first. `admitted` is the one whose turn it is; `copied` counts the bytes
# of messages that were made whole since the last turn's end.
cdef struct Endings:
    Inlet *newest
    Inlet *oldest
    Inlet *admitted
    size_t copied

cdef class Broker:
    cdef Container container
    cdef Reactor reactor
    cdef readonly object config
    cdef Security security
    # bytes (address) -> int (Queue *)
    cdef dict queues
    # bytes (container id) -> int (Peer *), of connections that may be the only ones of it
    cdef dict containers
    # (container id or None, name, whether it is kept) -> Subscription
    cdef readonly dict subscriptions
    # The same, for subscriptions whose files are being made.
    cdef readonly dict making
    # int (serial) -> Deferred, for links that wait for such files; and the function that resumes
    # a link.
    cdef readonly dict deferred
    cdef void (*go_on)(Link *link, const Delay *delay) noexcept nogil
    # The data directory, and the Store of each queue that has a file; None without one.
    cdef readonly object files
    cdef list stores
    # Syncs these stores in its own thread.
    cdef Syncer syncer
    # Opens the files of queues that clients make.
    cdef Opener opener
    cdef bytes container_id
    cdef Endings endings

    cdef Queue *find(self, bytes address, bint create, bint topic)
    cdef Queue *make(self, bytes address, bint topic)
    cdef Queue *make_dynamic(self, bint topic)
    cdef int forget_name(self, Queue *queue) except -1
    cdef Queue *subscribe(self, Queue *topic)
    cdef int make_storable(self, Queue *queue) except -1
    cdef int want_store(self, Queue *queue) except -1
    cdef int open_store(self, Queue *queue) except -1
    cdef int fill_store(self, Queue *queue, str name) except -1
    cdef int let_go(self, Queue *queue) except -1
    cdef int drop_store(self, Queue *queue) noexcept
    cdef int release(self, Queue *queue) noexcept

cdef void inlet_bind(Inlet *inlet, Queue *queue) noexcept nogil
cdef void want_store(Queue *queue) noexcept nogil
cdef bint is_dynamic(const Queue *queue) noexcept nogil

# The filters of a source.
cdef class Asked:
    # The selector and the property filters together; None for none of them.
    cdef Selector selector
    cdef list steps
    cdef bint has_selector
    # The key that the peer gave no-local; None if it did not ask for it.
    cdef bytes local_key

cdef Asked read_filters(pn_terminus_t *theirs)
cdef int write_filters(
    Asked asked, bint topic, pn_terminus_t *theirs, pn_terminus_t *ours) except -1
cdef int choose(Queue *subscription, Asked asked, bytes container) except -1
cdef uint64_t origin_of(bytes container) except? 0

cdef class Deferred:
    # NULL when it is gone.
    cdef Link *link
    cdef Delay delay

cdef void deferred_ended(Link *link, bint closed) noexcept nogil
cdef void deferred_left(Link *link) noexcept nogil

cdef int read_lifetime(pn_terminus_t *terminus) noexcept nogil
cdef void set_lifetime(Queue *queue, int lifetime, pn_terminus_t *ours) noexcept nogil
cdef void maker_left(Queue *queue) noexcept nogil
cdef void node_delete(Queue *queue) noexcept nogil
cdef void node_join(Inlet *inlet) noexcept nogil
cdef void node_leave(Inlet *inlet) noexcept nogil

cdef bint claim_container(Peer *peer) noexcept nogil
cdef void refuse_container(Peer *peer) noexcept nogil
cdef void leave_container(Peer *peer) noexcept nogil

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
cdef bint subscription_closed(Queue *queue, Link *link) noexcept nogil
cdef void subscription_left(Queue *queue) noexcept nogil
cdef bint spread(Transaction *transaction) noexcept nogil
cdef bytes container_of(Peer *peer)

cdef bint publish(Queue *queue, Message *message) noexcept nogil
cdef Queue *queue_of_message(
    Inlet *inlet, amqp_delivery_t *delivery, Message *message) noexcept nogil
cdef HeaderResult queue_of_stream(
    Inlet *inlet, const Message *message, Queue **queue, Absence *absence) noexcept nogil
cdef Queue *named_queue(
    Inlet *inlet, const char *address, size_t size, Absence *absence) noexcept nogil
cdef Queue *last_queue(Inlet *inlet) noexcept nogil
cdef bint can_pass(const Queue *queue) noexcept nogil

cdef bint inlet_must_wait(Inlet *inlet) noexcept nogil
cdef void end_waiting(Inlet *inlet) noexcept nogil
cdef bint must_be_judged(Inlet *inlet, Message *message, Queue *topic) noexcept nogil
cdef void judging_ends(Inlet *inlet) noexcept nogil
cdef bint must_end_later(Inlet *inlet, const Message *message) noexcept nogil
cdef bint ends_are_left(const Container *container) noexcept nogil
cdef bint endings_begin(Container *container) noexcept nogil
cdef Inlet *admit_ending(Container *container) noexcept nogil
# The condition and the description of a refusal for want of descriptors.
cdef const char *SCARCE
cdef const char *NO_DESCRIPTORS
cdef bint lacks_file(Queue *queue) noexcept nogil
cdef void wait_for_file(Inlet *inlet, Message *message, Queue *queue) noexcept nogil
cdef void refuse_waiting(Inlet *inlet) noexcept nogil
cdef void refuse_for_now(const Queue *queue, amqp_delivery_t *delivery) noexcept nogil
