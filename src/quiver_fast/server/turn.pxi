"""The end of every turn of the loop: dispatch, write, keep timers, free ended connections."""

# The steps of selectors in one turn: some 1,000 messages, or half a millisecond.
cdef int64_t JUDGING_STEP = 24576
# The most messages of ended queues that are dropped in one turn.
cdef size_t CLEARING_STEP = 8192
# Rounds of dispatch and writing in one turn, before sockets are read again.
cdef int ROUNDS = 8
# How long connections have to close when the server ends.
cdef int64_t DRAIN = 2000 * MILLISECOND


cdef class Turn:
    """The end of every turn: dispatch, write, keep timers, free ended connections."""

    cdef Broker broker
    cdef Hook hook

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        broker.container.steal = steal
        broker.go_on = go_on
        self.hook.owner = <void *>&broker.container
        self.hook.turn = finish_turn
        broker.reactor.add_hook(&self.hook)

    def drain(self) -> None:
        """Close every connection in order, and wait briefly for the peers' close frames."""
        cdef Peer *peer = self.broker.container.peers
        cdef int64_t deadline = monotonic_ns() + DRAIN
        self.broker.container.closing = True
        self.broker.finish_stores()
        while peer != NULL:
            peer_close(peer, b"amqp:connection:forced", b"the server is shutting down")
            peer = peer.next
        with nogil:
            while self.broker.container.peers != NULL and monotonic_ns() < deadline:
                self.broker.reactor.turn(min(deadline, self.broker.reactor.round()))
        self.cut()
        # `csp://` still has turns while it ends; the queues are freed by then.
        self.hook.turn = after_end

    cdef int cut(self) except -1:
        """Cut the connections that are left."""
        cdef Container *container = &self.broker.container
        cdef Peer *peer = container.peers
        while peer != NULL:
            peer_cut(peer)
            take_rest(peer)
            declare_dead(peer)
            peer = peer.next
        # The end of one may mark another, whose streams or consumers end with it.
        while container.dead != NULL:
            forget_marks(container)
            bury(container)
        return 0


cdef void forget_marks(Container *container) noexcept nogil:
    """Take all peers off the list of those to be written."""
    cdef Peer *peer
    while container.dirty_peers != NULL:
        peer = container.dirty_peers
        container.dirty_peers = peer.next_dirty
        peer.dirty = False


cdef int64_t after_end(void *owner, int64_t now) noexcept nogil:
    return INT64_MAX


cdef int64_t finish_turn(void *owner, int64_t now) noexcept nogil:
    cdef Container *container = <Container *>owner
    container.clearing_left = CLEARING_STEP
    timers_ring(container, now)
    go_on_selecting(container)
    for _ in range(ROUNDS):
        if not work_left(container):
            break
        dispatch_all(container)
        if container.dirty_stores != NULL:
            stores_flush(container)
        write_all(container)
    end_messages(container)
    give_memory_back(container, now)
    bury(container)
    if work_left(container) or ends_are_left(container) or container.first_later != NULL:
        return now
    return next_due(container)


cdef void go_on_selecting(Container *container) noexcept nogil:
    """Go on with the selectors of the queues that waited for this turn, in order."""
    cdef size_t left = container.later_count
    cdef Queue *queue
    container.judging_left = JUDGING_STEP
    while left and container.judging_left > 0:
        queue = take_later(container)
        if queue == NULL:
            break
        dispatch_one(queue)
        left -= 1


cdef void end_messages(Container *container) noexcept nogil:
    """End long messages that waited for this turn, after the output of all peers was written."""
    cdef Inlet *inlet = admit_ending(container) if endings_begin(container) else NULL
    while inlet != NULL:
        inlet_receive(inlet)
        inlet = admit_ending(container)


cdef int64_t next_due(const Container *container) noexcept nogil:
    """Return the time of the next work that needs no event (monotonic ns); mostly never."""
    cdef int64_t due = container.trim_at if container.trim_at else INT64_MAX
    if container.timers.count:
        due = min(due, heap_first(&container.timers))
    return due


cdef void give_memory_back(Container *container, int64_t now) noexcept nogil:
    if container.trim_at and container.trim_at <= now:
        container.trim_at = 0
        amqp_buffers_free(&container.outputs)
        amqp_spares_free(&container.spares)
        spares_free()
        malloc_trim(0)


cdef bint work_left(const Container *container) noexcept nogil:
    return (
        container.dirty_queues != NULL or container.dirty_peers != NULL
        or container.awake != NULL or container.dirty_stores != NULL)


cdef void dispatch_all(Container *container) noexcept nogil:
    cdef Queue *queue
    inlets_awake(container)
    while container.dirty_queues != NULL:
        queue = container.dirty_queues
        container.dirty_queues = queue.next_dirty
        queue.dirty = False
        dispatch_one(queue)


cdef void dispatch_one(Queue *queue) noexcept nogil:
    queue_dispatch(queue)
    if queue.discharging != NULL:
        coordinators_resume(queue)
    queue_resume(queue)
    if queue.trunk_inlets != NULL:
        trunks_top_up(queue)
    if queue.orphaned and queue.depth == 0:
        node_delete(queue)
    if queue.links == 0:
        queue_retire(queue)


cdef void write_all(Container *container) noexcept nogil:
    """Write to every peer that has output, and resume outlets that waited for room."""
    cdef Peer *peer = container.dirty_peers
    cdef Peer *following
    container.dirty_peers = NULL
    while peer != NULL:
        following = peer.next_dirty
        peer.dirty = False
        write_one(container, peer)
        peer = following


cdef void write_one(Container *container, Peer *peer) noexcept nogil:
    if peer.dead:
        return
    peer_write(peer)
    # Handle events that were left, and the engine's own, such as the transport's end.
    peer_process(peer)
    peer_return(peer)
    if peer_has_rest(peer) and not peer.behind:
        take_input(peer)
        # The next round answers and reads on.
        peer_dirty(peer)
    if peer_finished(peer) and not peer.behind:
        declare_dead(peer)
        return
    if peer.clogged != NULL and not peer.full:
        outlets_drained(peer)


cdef void take_rest(Peer *peer) noexcept nogil:
    """Take all events that are left: outcomes count even if the peer gets no answer."""
    while peer.behind:
        peer_process(peer)


cdef void bury(Container *container) noexcept nogil:
    """Free the peers that ended in this turn; no event of the turn points to them any more.

    A peer that is marked for writing is freed later, when it is off that list.
    """
    cdef Peer *peer = container.dead
    cdef Peer *following
    container.dead = NULL
    if peer != NULL:
        memory_freed(container)
    while peer != NULL:
        following = peer.next_dead
        if peer.dirty:
            peer.next_dead = container.dead
            container.dead = peer
        else:
            free_peer(container, peer)
        peer = following


cdef void free_peer(Container *container, Peer *peer) noexcept nogil:
    peer_forget_links(peer)
    leave_container(peer)
    if peer.dirty:
        # The end of its links may have marked it.
        peer_clean(container, peer)
    timer_clear(container, &peer.timer)
    list_remove(&container.peers, peer, &peer.prev, &peer.next)
    container.peer_count -= 1
    trunk_lost(peer)
    if peer.tls != NULL and peer.dial == NULL and tls_refused(peer.tls):
        report_refusal(peer)
    watch_remove(container.epoll, &peer.watch)
    close(peer.watch.fd)
    pn_connection_driver_destroy(&peer.driver)
    amqp_plane_free(&peer.plane)
    amqp_deliveries_free(&peer.deliveries)
    tls_free(peer.tls)
    freed(CONNECTION)
    hold(&peer.holder, &peer.counted, 0)
    holder_end(&peer.holder)
    free(peer.transactions)
    free(peer)


cdef void peer_clean(Container *container, Peer *peer) noexcept nogil:
    cdef Peer **place = &container.dirty_peers
    while place[0] != peer:
        place = &place[0].next_dirty
    place[0] = peer.next_dirty
