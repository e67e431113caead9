"""The addresses of a server: which there are, which may come into being, and when they go."""

from libc.stdint cimport UINT64_MAX
from libc.stdlib cimport free
from libc.string cimport strlen, strncmp

import uuid

from quiver_fast.errors import QuiverError
from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.server.queue cimport queue_free, queue_new
from quiver_fast.server.store cimport Store
from quiver_fast.server.structures cimport INLET, Container, Inlet, Link, Peer, Queue

# Nodes of this name are as short-lived as their links, so they have no file.
cdef const char *DYNAMIC = b"dynamic-"


cdef class Broker:
    """A server's queues and topics by address, and what its connections share.

    Args:
        reactor: the loop that serves its connections.
        config: a checked :class:`quiver_fast.server.config.ServerConfig`.
        security: TLS and SASL of its connections.
        files: where durable messages are kept; None to keep none.
    """

    def __init__(self, reactor: Reactor, config: object, security: Security,
                 files: QueueDirectory | None) -> None:
        self.reactor = reactor
        self.config = config
        self.security = security
        self.queues = {}
        self.container_id = f"quiver-server-{uuid.uuid4().hex[:8]}".encode()
        self.container.broker = <void *>self
        self.container.epoll = reactor.epoll
        self.container.now_ms = reactor.now // 1000000
        limits = &self.container.limits
        limits.queue_bytes = config.queue_limit
        limits.message_size = config.max_message_size or UINT64_MAX
        limits.credit = config.credit
        limits.connections = config.max_connections
        limits.sessions = config.max_sessions
        limits.links = config.max_links
        limits.frame_size = config.max_frame_size
        limits.idle_timeout = <unsigned>(config.idle_timeout * 1000)
        limits.handshake_ns = config.handshake_timeout * 1000000000
        self.stores = []
        self.files = files
        for name in [] if files is None else files.names():
            self.find(name.encode(), True, False)
        for address in config.addresses:
            self.find(address.encode(), True, False).on_demand = False

    def close(self) -> None:
        """Free every queue; no connection may be left."""
        for queue in self.queues.values():
            queue_free(<Queue *><size_t>queue)
        self.queues = {}
        free(self.container.pending)
        self.container.pending = NULL

    cdef Queue *find(self, bytes address, bint create, bint topic):
        """Return the queue or topic of an address; NULL if there is none and ``create`` is false.

        What exists keeps its kind; a new one is a topic if it is asked for or named so.
        """
        known = self.queues.get(address)
        if known is not None:
            return <Queue *><size_t>known
        if not create:
            return NULL
        return self.make(address, topic or address.startswith(b"topic"))

    cdef Queue *make(self, bytes address, bint topic):
        cdef Queue *queue = queue_new(&self.container, address, len(address))
        if queue == NULL:
            raise MemoryError("no memory for a queue")
        queue.multicast = topic
        queue.on_demand = True
        try:
            if self.files is not None and not topic and not is_dynamic(queue):
                self.open_store(queue)
        except BaseException:
            queue_free(queue)
            raise
        self.queues[address] = <size_t>queue
        return queue

    cdef int open_store(self, Queue *queue) except -1:
        """Give a queue its file, and the messages that are in it."""
        name = queue.address[:queue.address_size].decode("utf-8", "replace")
        store = Store(self.files.appender(name))
        self.stores.append(store)
        queue.store = <void *>store
        store.fill(queue)
        return 0

    cdef Queue *make_dynamic(self, bint topic):
        """Make a node with a name of its own, for as long as it has links (part 3.5.3)."""
        cdef Queue *queue = self.make(DYNAMIC + uuid.uuid4().hex.encode(), topic)
        queue.temporary = True
        return queue

    cdef Queue *subscribe(self, Queue *topic):
        """Give a topic one more subscription, which begins empty."""
        cdef Queue *queue = queue_new(&self.container, topic.address, topic.address_size)
        if queue == NULL:
            raise MemoryError("no memory for a subscription")
        queue.temporary = True
        queue.topic = topic
        topic.links += 1
        queue.next_subscription = topic.subscriptions
        topic.subscriptions = queue
        return queue

    def may_create(self, address: bytes) -> bool:
        """Say whether an address that does not exist may be made on demand."""
        return not self.config.pinned and 0 < len(address) <= 1024

    cdef int release(self, Queue *queue) noexcept:
        """Delete a temporary queue that no link uses any more."""
        forget_queue(&self.container, queue)
        if queue.topic != NULL:
            leave_topic(queue.topic, queue)
        else:
            del self.queues[queue.address[:queue.address_size]]
        queue_free(queue)
        return 0


cdef bint is_dynamic(const Queue *queue) noexcept nogil:
    """Say whether the queue's name is one of those that the server gives."""
    return strncmp(queue.address, DYNAMIC, strlen(DYNAMIC)) == 0


cdef void leave_topic(Queue *topic, Queue *subscription) noexcept nogil:
    cdef Queue **place = &topic.subscriptions
    while place[0] != subscription:
        place = &place[0].next_subscription
    place[0] = subscription.next_subscription


cdef void forget_queue(Container *container, Queue *queue) noexcept nogil:
    """Take a queue out of every place that would still point to it."""
    cdef Queue **place = &container.dirty_queues
    cdef Peer *peer = container.peers
    cdef Link *link
    while queue.dirty and place[0] != NULL:
        if place[0] == queue:
            place[0] = queue.next_dirty
            break
        place = &place[0].next_dirty
    while peer != NULL:
        link = peer.links
        while link != NULL:
            if link.kind == INLET:
                forget_in(<Inlet *>link, queue)
            link = link.next
        peer = peer.next


cdef void forget_in(Inlet *inlet, const Queue *queue) noexcept nogil:
    if inlet.last == queue:
        inlet.last = NULL
    if inlet.destination == queue:
        inlet.destination = NULL


cdef Queue *find_queue(Container *container, const char *address, size_t size) noexcept nogil:
    """Find an address for the anonymous terminus, or make it; NULL if it may not be."""
    with gil:
        broker = <Broker>container.broker
        name = address[:size]
        try:
            return broker.find(name, broker.may_create(name), False)
        except (MemoryError, QuiverError):
            return NULL
