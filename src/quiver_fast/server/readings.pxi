"""Readings of the server, for metrics: the loop takes one when another thread asks for it.

A reading is a bounded piece of work, however large the server is. Totals are counters that are
kept anyway. Only queues in the table of labels are read, and a fixed number of connections and
links. The other thread turns the reading into text while the loop goes on.
"""

cdef enum:
    # Bytes of a queue's name that are kept; longer ones are cut.
    QUEUE_NAME_MAX = 255
    # What one reading looks at: connections, sessions, links and topics' subscriptions.
    VISITS = 2000

# A queue that metrics name; for a topic, the contents of its subscriptions.
cdef struct QueueReading:
    char[256] name
    size_t name_size
    bint topic
    # Messages that ever came into it, that are in it, and those of them that consumers have.
    uint64_t came
    uint64_t depth
    uint64_t unsettled
    uint64_t bytes
    # How long the first available message is in it (ms); -1 without one.
    int64_t age
    uint64_t consumers
    uint64_t producers

# All that one reading found.
cdef struct Reading:
    Traffic traffic
    uint64_t connections
    uint64_t waiting_for_sync
    # Of the links that were looked at, by our role on them: 0 sender, 1 receiver.
    uint64_t[2] links
    uint64_t[2] credit
    uint64_t[2] unsettled
    # Bytes that connections hold, and may hold.
    uint64_t held
    uint64_t held_limit
    uint64_t sync_batches
    uint64_t sync_files
    int64_t sync_ns
    # What it cost the loop: things looked at, and time (ns).
    uint64_t visits
    bint all_visited
    int64_t spent

# The time that the loop has to answer, in seconds. It answers at the end of a turn.
PATIENCE = 2.0


@dataclass(frozen=True)
class QueueFigures:
    """The figures of one queue in a reading; see ``QueueReading`` above."""

    name: str
    topic: bool
    came: int
    depth: int
    unsettled: int
    bytes: int
    age: float | None
    consumers: int
    producers: int


@dataclass(frozen=True)
class Figures:
    """The figures of a reading; see ``Reading`` above. Times are in seconds."""

    amqp: dict[str, Any] | None
    queues: list[QueueFigures]
    held: int
    held_limit: int
    syncs: dict[str, Any] | None
    readings: int
    spent: float
    visits: int
    all_visited: bool


cdef class Readings:
    """Takes readings in a server's loop.

    Args:
        reactor: the loop.
        broker: the queues and connections of AMQP; None without.
        syncer: syncs files; None without files.

    Raises:
        OSError: the system has no descriptors left.
        MemoryError: there is no memory for the table of queues.
    """

    cdef Watch watch
    cdef int reply
    cdef int epoll
    cdef bint owed
    cdef Broker broker
    cdef Syncer syncer
    cdef Reading reading
    cdef QueueReading *queues
    cdef size_t queue_count
    cdef uint64_t count
    cdef uint64_t spent
    cdef object lock

    def __cinit__(self) -> None:
        self.reply = self.watch.fd = -1

    def __init__(self, reactor: Reactor, broker: Broker | None, syncer: Syncer | None) -> None:
        self.broker = broker
        self.syncer = syncer
        self.lock = threading.Lock()
        self.queues = <QueueReading *>calloc(LABELS, sizeof(QueueReading))
        if self.queues == NULL:
            raise MemoryError("no memory for metrics")
        self.reply = event_descriptor()
        self.watch.fd = event_descriptor()
        self.watch.owner = <void *>self
        self.watch.ready = on_request
        self.epoll = reactor.epoll
        if self.reply < 0 or self.watch.fd < 0 or watch_add(
                self.epoll, &self.watch, EPOLLIN) != 0:
            raise OSError(errno, os.strerror(errno))
        if broker is not None:
            label_all(&broker.container)

    def __dealloc__(self) -> None:
        free(self.queues)
        for fd in (self.reply, self.watch.fd):
            if fd >= 0:
                close(fd)

    def close(self) -> None:
        """Stop taking readings, after the end of the loop."""
        watch_remove(self.epoll, &self.watch)

    def take(self) -> Figures:
        """Ask the loop for a reading, and return it; called by another thread.

        Raises:
            QuiverError: the loop does not answer.
        """
        with self.lock:
            # After a time-out, the answer to the last request may still come.
            if not self.owed:
                self.owed = True
                raise_event(self.watch.fd)
            if not select.select([self.reply], [], [], PATIENCE)[0]:
                raise QuiverError(f"the server did not answer within {PATIENCE:.0f} seconds")
            await_event(self.reply)
            self.owed = False
            return self.figures()

    def figures(self) -> Figures:
        """Return the last reading."""
        reading = &self.reading
        syncs = None
        if self.syncer is not None:
            syncs = {"batches": reading.sync_batches, "files": reading.sync_files,
                     "seconds": reading.sync_ns / 1e9}
        return Figures(
            amqp=None if self.broker is None else amqp_figures(reading),
            queues=[queue_figures(&self.queues[i]) for i in range(self.queue_count)],
            held=reading.held,
            held_limit=reading.held_limit,
            syncs=syncs,
            readings=self.count,
            spent=self.spent / 1e9,
            visits=reading.visits,
            all_visited=reading.all_visited,
        )

    cdef void fill(self) noexcept nogil:
        """Take a reading, in the loop."""
        cdef Reading *reading = &self.reading
        cdef int64_t began = monotonic_ns()
        memset(reading, 0, sizeof(Reading))
        self.queue_count = 0
        reading.all_visited = True
        if self.broker is not None:
            reading.traffic = self.broker.container.traffic
            reading.connections = self.broker.container.peer_count
            reading.waiting_for_sync = self.broker.container.unsynced
            self.queue_count = read_queues(&self.broker.container, reading, self.queues)
            read_peers(&self.broker.container, reading, self.queues)
        if account != NULL:
            reading.held = account.held
            reading.held_limit = account.limit
        if self.syncer is not None:
            reading.sync_batches = self.syncer.batches
            reading.sync_files = self.syncer.files
            reading.sync_ns = self.syncer.spent
        reading.spent = monotonic_ns() - began
        self.count += 1
        self.spent += <uint64_t>reading.spent


cdef void on_request(Watch *watch, uint32_t events) noexcept nogil:
    await_event(watch.fd)
    (<Readings>watch.owner).fill()
    raise_event((<Readings>watch.owner).reply)


cdef int label_all(Container *container) except -1:
    """Give places to all existing queues, the oldest first."""
    cdef Queue *queue = container.queues
    container.labelled = <Queue **>calloc(LABELS, sizeof(Queue *))
    if container.labelled == NULL:
        raise MemoryError("no memory for metrics")
    while queue != NULL and queue.next != NULL:
        queue = queue.next
    while queue != NULL:
        if queue.topic == NULL and not is_dynamic(queue):
            queue_label(queue)
        queue = queue.prev
    return 0


cdef bint may_visit(Reading *reading) noexcept nogil:
    """Count one more visited object; return False if there were too many."""
    if reading.visits >= VISITS:
        reading.all_visited = False
        return False
    reading.visits += 1
    return True


cdef size_t read_queues(
        Container *container, Reading *reading, QueueReading *readings) noexcept nogil:
    """Read the queues that have a place, and return their number.

    A queue's own label becomes the place of its reading plus 1, which `read_peers` uses. The table
    of readings has no gaps.
    """
    cdef size_t count = 0
    cdef size_t place
    cdef Queue *queue
    for place in range(LABELS):
        if count == container.label_count:
            break
        queue = container.labelled[place]
        if queue == NULL:
            continue
        if place != count:
            container.labelled[count] = queue
            container.labelled[place] = NULL
            queue.label = <uint32_t>count + 1
        read_queue(queue, reading, &readings[count])
        count += 1
    return count


cdef void read_queue(const Queue *queue, Reading *reading, QueueReading *found) noexcept nogil:
    cdef const Queue *subscription = queue.subscriptions
    memset(found, 0, sizeof(QueueReading))
    found.name_size = min(queue.address_size, <size_t>QUEUE_NAME_MAX)
    memcpy(found.name, queue.address, found.name_size)
    found.topic = queue.multicast
    found.consumers = queue.local_count if queue.multicast else queue.consumer_count
    found.age = -1
    add_entries(queue, found)
    while subscription != NULL and may_visit(reading):
        add_entries(subscription, found)
        subscription = subscription.next_subscription


cdef void add_entries(const Queue *queue, QueueReading *found) noexcept nogil:
    """Add a queue's entries and counters to a reading."""
    cdef const Entry *first = first_entry(queue)
    cdef uint32_t since
    found.came += queue.next_sequence - 1
    found.depth += queue.depth
    found.unsettled += queue.depth - queue.available
    found.bytes += queue.bytes
    if first != NULL:
        since = <uint32_t>(queue.container.now_ms >> SINCE_SHIFT) - first.since
        found.age = max(found.age, <int64_t>since << SINCE_SHIFT)


cdef const Entry *first_entry(const Queue *queue) noexcept nogil:
    """Return the first available entry, from the main lanes and one lane of barred entries."""
    if queue.main.head != NULL:
        return queue.main.head
    if queue.lanes != NULL and queue.lanes.head != NULL:
        return queue.lanes.head
    return queue.streaming.head


cdef void read_peers(
        const Container *container, Reading *reading, QueueReading *queues) noexcept nogil:
    """Add up credit and unsettled deliveries of as many connections as may be visited."""
    cdef const Peer *peer = container.peers
    cdef const Session *session
    while peer != NULL and may_visit(reading):
        session = peer.sessions
        while session != NULL and may_visit(reading):
            reading.unsettled[0] += session.deliveries.registers[0].count
            reading.unsettled[1] += session.deliveries.registers[1].count
            read_links(session, reading, queues)
            session = session.next
        peer = peer.next


cdef void read_links(
        const Session *session, Reading *reading, QueueReading *queues) noexcept nogil:
    cdef const Link *link = session.links
    cdef const Queue *queue
    while link != NULL and may_visit(reading):
        if link.kind == INLET or link.kind == OUTLET:
            reading.links[link.kind == INLET] += 1
            if link.deliveries.end != NULL:
                reading.credit[link.kind == INLET] += link.deliveries.end.counts.credit
        if link.kind == INLET:
            queue = (<const Inlet *>link).queue
            if queue != NULL and queue.label:
                queues[queue.label - 1].producers += 1
        link = link.next


cdef object queue_figures(const QueueReading *found):
    return QueueFigures(
        name=found.name[:found.name_size].decode("utf-8", "replace"),
        topic=found.topic,
        came=found.came,
        depth=found.depth,
        unsettled=found.unsettled,
        bytes=found.bytes,
        age=None if found.age < 0 else found.age / 1000,
        consumers=found.consumers,
        producers=found.producers,
    )


cdef dict amqp_figures(const Reading *reading):
    traffic = &reading.traffic
    return {
        "connections": reading.connections,
        "accepted": traffic.connections,
        "links": traffic.links,
        "queues": traffic.queues,
        "depth": traffic.depth,
        "bytes": traffic.bytes,
        "messages": {"in": traffic.messages_in, "out": traffic.messages_out},
        "message_bytes": {"in": traffic.bytes_in, "out": traffic.bytes_out},
        "waiting_for_sync": reading.waiting_for_sync,
        "links_read": {"in": reading.links[1], "out": reading.links[0]},
        "credit": {"in": reading.credit[1], "out": reading.credit[0]},
        "unsettled": {"in": reading.unsettled[1], "out": reading.unsettled[0]},
    }
