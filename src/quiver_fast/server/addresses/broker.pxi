"""The addresses of a server: which exist, how they are created, and when they are deleted."""

cdef enum:
    WHY_SIZE = 256

# Nodes with this prefix live only as long as their links, so they have no file.
cdef const char *DYNAMIC = b"dynamic-"


class TooManyQueues(QuiverError):
    """The server has as many addresses as it may have."""


cdef class Broker:
    """A server's queues and topics by address, and the state that its connections share.

    Args:
        reactor: the loop that serves its connections.
        config: a checked :class:`quiver_fast.server.config.ServerConfig`.
        security: TLS and SASL of its connections.
        files: the directory of durable messages; None to keep none.
        syncer: syncs the files; the caller owns it.
        opener: opens the files; the caller owns it.
    """

    cdef Container container
    cdef Reactor reactor
    cdef readonly object config  # type: ServerConfig
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
    cdef readonly object files  # type: QueueDirectory | None
    cdef list stores
    # Syncs these stores in its own thread.
    cdef Syncer syncer
    # Opens the files of queues that clients make.
    cdef Opener opener
    cdef bytes container_id
    cdef Endings endings

    def __init__(self, reactor: Reactor, config: "ServerConfig", security: Security,
                 files: QueueDirectory | None, syncer: Syncer | None,
                 opener: Opener | None) -> None:
        self.reactor = reactor
        self.config = config
        self.security = security
        self.queues = {}
        self.containers = {}
        self.subscriptions = {}
        self.making = {}
        self.deferred = {}
        self.container_id = (
            config.container_id or f"quiver-server-{uuid.uuid4().hex[:8]}").encode()
        self.container.broker = <void *>self
        self.container.epoll = reactor.epoll
        self.container.now_ms = reactor.now // 1000000
        reactor.now_ms = &self.container.now_ms
        limits = &self.container.limits
        limits.queue_bytes = config.queue_limit
        limits.message_size = config.max_message_size or UINT64_MAX
        limits.credit = config.credit
        limits.connections = config.max_connections
        limits.sessions = config.max_sessions
        limits.shared_sessions = config.stream_sessions == "shared"
        limits.links = config.max_links
        limits.transactions = config.max_transactions
        limits.frame_size = config.max_frame_size
        limits.idle_timeout = <unsigned>(config.idle_timeout * 1000)
        limits.handshake_ns = config.handshake_timeout * 1000000000
        self.stores = []
        self.files = files
        self.syncer = syncer
        self.opener = opener
        if files is not None:
            self.use_files()

    def complete(self) -> None:
        """Create the configured addresses, and free the disk space that stores do not need.

        Called once, after all files were restored.
        """
        for address in self.config.addresses:
            self.configure(address.encode())
        for store in self.stores:
            self.tidy(store)

    def use_files(self) -> None:
        """Restore the queues that have files, and set the values that all stores share."""
        container = &self.container
        self.syncer.owner = container
        self.syncer.finished = synced
        container.syncer = <void *>self.syncer
        container.group = self.config.durability == "group"
        container.roll_size = self.config.roll_size
        container.run_id = int.from_bytes(os.urandom(8), "little")
        for name in self.files.names():
            self.restore(name)

    def restore(self, name: str) -> None:
        """Restore a queue that has files. If it cannot be opened, it is refused; the others work.

        Raises:
            QueueInUseError: another server has the store.
            OutputError: the queue cannot be opened, and the server was started for it.
        """
        try:
            self.find(name.encode(), True, False)
        except QueueInUseError:
            raise
        except (MemoryError, OSError, QuiverError) as error:
            if name in self.config.addresses:
                raise OutputError(f"queue {name!r} cannot be served: {error}") from None
            say(f"queue {name!r} is not served: {error}")

    def tidy(self, store: Store) -> None:
        """Free disk space that the last run left. On a failure, the next run tries again."""
        try:
            store.tidy_at_start()
        except (OSError, QuiverError) as error:
            say(f"{store.appender.directory}: {error}")

    def configure(self, address: bytes) -> None:
        """Make an address that exists from the start."""
        queue = self.find(address, True, False)
        queue.on_demand = False
        if queue.storable and queue.store == NULL:
            self.open_store(queue)

    def finish_stores(self) -> None:
        """Finish all writes to the files, and answer the peers that wait for them."""
        stores_finish(&self.container)

    def close(self) -> None:
        """Free every queue. All connections must have ended."""
        self.finish_stores()
        if self.syncer is not None:
            self.syncer.finished = NULL
            for store in self.stores:
                store.sync_ended()
            self.container.syncer = NULL
        while self.container.queues != NULL:
            queue_free(self.container.queues)
        self.queues = {}
        self.subscriptions = {}
        heap_free(&self.container.timers)
        free(self.container.pending)
        free(self.container.labelled)
        free(self.container.input.buffer)
        amqp_buffers_free(&self.container.outputs)
        amqp_spares_free(&self.container.spares)
        self.container.pending = NULL

    cdef Queue *find(self, bytes address, bint create, bint topic):
        """Return the queue or topic of an address; NULL without one if ``create`` is false.

        An existing address keeps its kind. A new one is a topic if the peer or the name says so.
        """
        known = self.queues.get(address)
        if known is not None:
            return <Queue *><size_t>known
        if not create:
            return NULL
        return self.make(address, topic or address.startswith(b"topic"))

    cdef Queue *make(self, bytes address, bint topic):
        cdef Queue *queue
        check_address(address)
        queue = queue_new(&self.container, address, len(address))
        if queue == NULL:
            raise MemoryError("no memory for a queue")
        queue.multicast = topic
        queue.on_demand = True
        queue.by_priority = self.config.has_priorities(address)
        try:
            if self.files is not None and not topic and not is_dynamic(queue):
                self.make_storable(queue)
        except BaseException:
            queue_free(queue)
            raise
        self.queues[address] = <size_t>queue
        if not is_dynamic(queue):
            queue_label(queue)
        return queue

    cdef int make_storable(self, Queue *queue) except -1:
        """Let a queue keep durable messages. It gets its file with the first of them."""
        name = queue.address[:queue.address_size].decode()
        queue.storable = True
        if self.opener.is_opening(name):
            # A client of remote queues has opened the file, which may have messages.
            self.want_store(queue)
        elif self.files.has_entries(name):
            self.open_store(queue)
        return 0

    cdef int want_store(self, Queue *queue) except -1:
        """Open or create a queue's file while the loop goes on."""
        queue.opening = True
        self.opener.want(queue.address[:queue.address_size].decode(), self.store_opened)
        return 0

    def store_opened(self, name: str, error: Exception | None) -> None:
        """Give a queue its file, or refuse the links and messages that waited for it."""
        cdef Queue *queue = self.find(name.encode(), False, False)
        if queue == NULL or not queue.opening or self.container.closing:
            return
        try:
            if error is not None:
                raise error
            self.open_store(queue)
            self.container.scarce = False
        except Exception as failure:
            queue.unopened = True
            queue.scarce = isinstance(failure, NoDescriptorsError)
            if queue.scarce:
                report_scarce(&self.container, failure)
            else:
                say(failure)
        queue.opening = False
        queue_dirty(queue)

    cdef int open_store(self, Queue *queue) except -1:
        """Give a queue its file, and the messages in the file."""
        return self.fill_store(queue, queue.address[:queue.address_size].decode())

    cdef int fill_store(self, Queue *queue, str name) except -1:
        """Give a queue the file with a name, and the messages in the file."""
        store = Store(self.files.appender(name), name.encode())
        store.fill(queue, self.was_committed)
        self.stores.append(store)
        queue.store = <void *>store
        return 0

    def was_committed(self, transaction: int, home: str) -> bool:
        """Say whether the home file of a transaction of several queues has its commit."""
        return self.files.has_entries(home) and was_committed(
            self.files.folder(home), transaction)

    cdef Queue *make_dynamic(self, bint topic):
        """Make a dynamic node with a name from the server (part 3.5.3)."""
        self.check_room()
        return self.make(DYNAMIC + uuid.uuid4().hex.encode(), topic)

    cdef int forget_name(self, Queue *queue) except -1:
        """Remove the name of a node that is about to be deleted."""
        # Links that remember this queue must look it up again.
        self.container.queues_gone += 1
        name = queue.address[:queue.address_size]
        # Another node may have got the name since.
        if self.queues.get(name) == <size_t>queue:
            del self.queues[name]
        return 0

    cdef Queue *subscribe(self, Queue *topic):
        """Add an empty subscription to a topic."""
        cdef Queue *queue = queue_new(&self.container, topic.address, topic.address_size)
        if queue == NULL:
            raise MemoryError("no memory for a subscription")
        queue.temporary = True
        queue.topic = topic
        queue.by_priority = topic.by_priority
        topic.links += 1
        list_push(&topic.subscriptions, queue,
                  &queue.prev_subscription, &queue.next_subscription)
        return queue

    def may_create(self, address: bytes) -> bool:
        """Say whether an address that does not exist may be made on demand.

        Addresses that begin with `$` are internal nodes of other servers, such as `$management`.

        Raises:
            TooManyQueues: it does not exist, and the server may have no more.
        """
        if self.config.pinned or address.startswith(b"$"):
            return False
        if address not in self.queues:
            self.check_room()
        return True

    def check_room(self) -> None:
        """Raise TooManyQueues if no further queue, or subscription with a name, may be made."""
        most = self.config.max_queues
        if len(self.queues) + len(self.subscriptions) + len(self.making) >= most:
            raise TooManyQueues(f"the server has {counted(most, 'queue')}, the most there may be")

    cdef int let_go(self, Queue *queue) except -1:
        """Delete a subscription that could not be set up."""
        cdef Queue *topic = queue.topic
        leave_topic(queue)
        self.release(queue)
        topic.links -= 1
        queue_dirty(topic)
        return 0

    cdef int drop_store(self, Queue *queue) noexcept:
        """Delete the files of an ended subscription, whose queue is empty."""
        cdef Store store = <Store>queue.store
        stores_flush(&self.container)
        forget_shut(&self.container, queue.store)
        queue.store = NULL
        self.syncer.call_between(partial(self.discard_store, store))
        return 0

    def discard_store(self, Store store) -> None:
        """Delete a store's files while the loop goes on. No sync may use them."""
        store_leave(&self.container, <void *>store)
        for fd in store.deleted:
            os.close(fd)
        store.deleted.clear()
        self.stores.remove(store)
        store.appender.abandon()
        self.opener.do(store.name.decode(), self.files.discard, store_discarded)

    cdef int release(self, Queue *queue) noexcept:
        """Delete a temporary queue that no link uses any more."""
        if queue.store != NULL:
            self.drop_store(queue)
        forget_queue(&self.container, queue)
        if queue.topic == NULL:
            self.forget_name(queue)
        queue_free(queue)
        return 0


def store_discarded(name: str, error: Exception | None) -> None:
    """Report why a subscription's files are not deleted; the next start deletes them."""
    if error is not None:
        say(error)


cdef bint is_dynamic(const Queue *queue) noexcept nogil:
    """Say whether the server gave the queue its name."""
    return strncmp(queue.address, DYNAMIC, strlen(DYNAMIC)) == 0


cdef void leave_topic(Queue *subscription) noexcept nogil:
    """Remove a subscription from its topic."""
    cdef Queue *topic = subscription.topic
    topic.selector_count -= subscription.filter != NULL
    if topic.next_judge == subscription:
        topic.next_judge = subscription.next_subscription
    list_remove(&topic.subscriptions, subscription,
                &subscription.prev_subscription, &subscription.next_subscription)


cdef void forget_queue(Container *container, Queue *queue) noexcept nogil:
    """Remove every pointer to a queue."""
    cdef Queue **place = &container.dirty_queues
    while queue.dirty and place[0] != NULL:
        if place[0] == queue:
            place[0] = queue.next_dirty
            break
        place = &place[0].next_dirty
    later_forget(queue)
    while queue.bound != NULL:
        inlet_bind(queue.bound, NULL)


cdef void inlet_bind(Inlet *inlet, Queue *queue) noexcept nogil:
    """Set the destination of a link's arriving message; NULL for none."""
    cdef Queue *before = inlet.destination
    if before == queue:
        return
    if before != NULL:
        judging_ends(inlet)
        list_remove(&before.bound, inlet, &inlet.prev_bound, &inlet.next_bound)
    inlet.destination = queue
    if queue != NULL:
        list_push(&queue.bound, inlet, &inlet.prev_bound, &inlet.next_bound)


cdef void want_store(Queue *queue) noexcept nogil:
    """Request a queue's file, once. The queue is dispatched when the file is open."""
    if not queue.opening:
        with gil:
            (<Broker>queue.container.broker).want_store(queue)


def check_address(address: bytes) -> None:
    """Refuse an address that no queue or topic can have.

    Raises:
        UsageError: it is too long, not UTF-8, or has a NUL, at which C would end it.
    """
    folder_of(address.decode("utf-8", "surrogateescape"))


cdef Queue *find_queue(
        Container *container, const char *address, size_t size, Absence *absence) noexcept nogil:
    """Find or make an address for the anonymous terminus; NULL with ``absence``."""
    with gil:
        broker = <Broker>container.broker
        name = address[:size]
        explain(absence, b"amqp:not-found", "there is no such address here")
        try:
            return broker.find(name, broker.may_create(name), False)
        except TooManyQueues as error:
            explain(absence, b"amqp:resource-limit-exceeded", str(error))
        except UsageError as error:
            if not is_string(name):
                explain(absence, b"amqp:decode-error", "the address in 'to' is not UTF-8")
        except NoDescriptorsError as error:
            report_scarce(container, error)
            explain(absence, b"amqp:resource-limit-exceeded", "the server has no descriptors left")
        except MemoryError:
            explain(absence, b"amqp:resource-limit-exceeded", "the server is out of memory")
        except (OSError, QuiverError) as error:
            # The queue cannot be opened.
            explain(absence, b"amqp:internal-error", str(error))
        return NULL


cdef void explain(Absence *absence, const char *condition, str why) noexcept:
    """Fill an absence; cut a description that is too long."""
    text = why.encode("utf-8", "replace")[:WHY_SIZE - 1]
    absence.condition = condition
    memcpy(absence.why, <const char *>text, len(text) + 1)


def is_string(address: bytes) -> bool:
    """Say whether an address is valid UTF-8, as its type demands (part 1.6.20)."""
    try:
        address.decode()
    except UnicodeDecodeError:
        return False
    return True
