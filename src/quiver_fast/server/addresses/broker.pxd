from quiver_fast.security.security cimport Security
from quiver_fast.loop.opener cimport Opener
from quiver_fast.loop.reactor cimport Reactor
from quiver_fast.loop.syncer cimport Syncer
from quiver_fast.server.model.structures cimport Container, Inlet, Link, Queue

cdef enum:
    WHY_SIZE = 256

# Why an address does not exist: an AMQP condition and a description.
cdef struct Absence:
    const char *condition
    char why[256]

# What a link that waited is told: the error, or NULL; and what its peer did meanwhile.
cdef struct Delay:
    const char *why
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
    # int (serial) -> Deferred, of links that wait for such files; and what resumes one.
    cdef readonly dict deferred
    cdef void (*go_on)(Link *link, const Delay *delay) noexcept nogil
    # The data directory, and the Store of each queue that has a file; None without one.
    cdef readonly object files
    cdef list stores
    # The addresses of queues that could not be opened at the start.
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
cdef void say(object what) noexcept
cdef bint is_dynamic(const Queue *queue) noexcept nogil
cdef void leave_topic(Queue *subscription) noexcept nogil
cdef Queue *find_queue(
    Container *container, const char *address, size_t size, Absence *absence) noexcept nogil
