"""Handles the events of one connection: the data plane's frames, and the engine's events."""

# The most events of one peer in one round: a disposition may be about 100,000 deliveries.
cdef int EVENTS = 4096
# A frame for the engine counts as so many more events: it costs as much as many transfers.
cdef int CONTROL_COST = 63
# The engine compares an attach's name with this many names for the cost of an event.
cdef uint32_t NAMES_OF_EVENT = 4
# What the engine keeps of a value that it decoded, in a list that doubles as it grows.
cdef size_t VALUE_SIZE = 144
# The least idle time-out of a peer in milliseconds: it gets two heartbeats in each.
cdef uint32_t IDLE_LEAST = 100


cdef void peer_process(Peer *peer) noexcept nogil:
    """Handle the events of a read. If there are too many, the rest waits for the next round."""
    cdef int left = EVENTS
    take_engine_events(peer)
    while left > 0 and (peer.walked != NULL or not peer.deaf):
        if peer.walked != NULL:
            left = take_outcomes(peer, left)
        elif not take_next(peer, &left):
            break
    borrowers_settle(peer.container)
    if left <= 0 or peer.behind:
        # The next round goes on, or reads again.
        peer_dirty(peer)
    peer.behind = left <= 0
    if peer.behind:
        return
    if peer.beginning != NULL:
        open_sessions(peer)


cdef bint take_next(Peer *peer, int *left) noexcept nogil:
    """Handle the next event of the data plane; return False if there is none."""
    cdef amqp_event event = amqp_plane_next(&peer.plane)
    left[0] -= 1
    if event == AMQP_ARRIVAL:
        left[0] -= transfer_came(peer, &peer.plane.arrival)
    elif event == AMQP_OUTCOME:
        disposition_came(peer, &peer.plane.disposition)
    elif event == AMQP_CREDIT:
        flow_came(peer)
    elif event == AMQP_FOR_ENGINE:
        left[0] -= control_came(peer)
    elif event == AMQP_REFUSED:
        transfer_lost(peer)
        refuse_frame(peer, &peer.plane.refusal)
    elif event == AMQP_NO_MEMORY:
        peer.deliveries.failed = True
        peer_dirty(peer)
        return False
    elif event == AMQP_DROPPED:
        drop(peer, &peer.plane.arrival)
    elif event == AMQP_ENDING:
        answer_sessions(peer)
    return event != AMQP_NOTHING


cdef void await_judgement(Peer *peer) noexcept nogil:
    """Judge the client's login later; that time counts neither as silence nor as handshake."""
    peer.judged_at = sasl_due(peer.driver.transport)
    peer.accepted_at += peer.judged_at - peer.timers.heard
    peer.timers.heard = peer.judged_at
    timer_advance(peer.container, &peer.timer, peer.judged_at)


cdef int control_came(Peer *peer) noexcept nogil:
    """Pass a frame to the engine, and return its cost in events."""
    cdef amqp_link_end_t *attached = peer.plane.endpoints.attached
    # A long one may have a selector, whose reading costs as much as its evaluations.
    cdef int cost = CONTROL_COST + <int>peer.plane.control.size
    if attached != NULL:
        cost += <int>(attached.session.attached[<int>AMQP_THEIRS] // NAMES_OF_EVENT)
        displace(peer, attached)
    peer_feed(peer, peer.plane.control)
    if not peer.opened:
        # A client may send all of SASL and its open at once: each step needs our answer first.
        peer_drain(peer)
    take_engine_events(peer)
    if peer.plane.held:
        await_judgement(peer)
    if attached != NULL:
        # The peer has not detached it yet, so it is still there. An array without bytes may have
        # very many values.
        cost += <int>(attached.values // VALUE_SIZE)
    return cost


cdef void take_engine_events(Peer *peer) noexcept nogil:
    cdef pn_event_t *event = pn_connection_driver_next_event(&peer.driver)
    while event != NULL:
        take_event(peer, event)
        event = pn_connection_driver_next_event(&peer.driver)


cdef void take_event(Peer *peer, pn_event_t *event) noexcept nogil:
    cdef int kind = pn_event_type(event)
    if peer.closed and kind != PN_CONNECTION_REMOTE_CLOSE:
        # After our close only the peer's is awaited (part 2.4.6).
        return
    if kind == PN_LINK_REMOTE_OPEN:
        link_attached(peer, pn_event_link(event))
    elif kind == PN_LINK_REMOTE_CLOSE or kind == PN_LINK_REMOTE_DETACH:
        link_ended(peer, pn_event_link(event), kind == PN_LINK_REMOTE_CLOSE)
    elif kind == PN_SESSION_REMOTE_OPEN:
        session_began(peer, pn_event_session(event))
    elif kind == PN_SESSION_REMOTE_CLOSE:
        end(peer, pn_event_session(event))
    elif kind == PN_CONNECTION_REMOTE_OPEN:
        opened(peer)
    elif kind == PN_CONNECTION_REMOTE_CLOSE:
        # The client may connect again before this connection is freed.
        leave_container(peer)
        peer_close(peer, NULL, NULL)


cdef int transfer_came(Peer *peer, const amqp_arrival_t *arrival) noexcept nogil:
    """Take a transfer, and return its further cost in events."""
    cdef Link *link = <Link *>arrival.link.user
    cdef bint memory
    if link == NULL:
        # Its attach was refused.
        peer.plane.lost = arrival.state
        transfer_lost(peer)
        return 0
    if link.kind == INLET and take_whole(<Inlet *>link, arrival):
        return publishing_cost((<Inlet *>link).queue)
    memory = amqp_delivery_arrive(&link.deliveries, arrival)
    if link.kind == INLET:
        # Credit and window are topped up at the end of the turn, not here: so the server notices
        # a peer that sends beyond them.
        inlet_arrived(<Inlet *>link)
    elif link.kind == COORDINATOR:
        coordinator_receive(link)
    if not memory or not amqp_delivery_keep(&link.deliveries):
        peer.deliveries.failed = True
    if arrival.state.start != NULL and link.deliveries.untaken:
        state_waits(peer, arrival.state)
    if link.kind == INLET:
        return publishing_cost((<Inlet *>link).queue if (<Inlet *>link).queue != NULL
                               else last_queue(<Inlet *>link))
    fit_session(peer, session_of(link.session))
    # A discharge may look for messages of all links.
    return <int>(peer.link_count // 16)


cdef inline int publishing_cost(const Queue *queue) noexcept nogil:
    """Return the cost of a message in events: an entry for each subscription, or each watcher."""
    if queue == NULL:
        return 0
    return <int>(queue.links // 2 if queue.multicast else queue.watchers // 16)


cdef void disposition_came(Peer *peer, const amqp_disposition_t *disposition) noexcept nogil:
    cdef Session *session = <Session *>peer.plane.session.user
    if session == NULL:
        return
    amqp_walk(
        &session.deliveries, AMQP_SENDER if disposition.role == AMQP_RECEIVER else AMQP_RECEIVER,
        disposition.first, disposition.last)
    peer.walked = session


cdef int take_outcomes(Peer *peer, int left) noexcept nogil:
    """Apply the last disposition to its deliveries; return how many events are left.

    A step to the first delivery counts as well: a range may have many settled ids.
    """
    cdef amqp_session_deliveries_t *deliveries = &peer.walked.deliveries
    cdef amqp_delivery_t *delivery
    cdef const amqp_delivery_t *later
    while left > 0 and not amqp_walk_seek(deliveries):
        left -= 1
    while left > 0:
        delivery = amqp_walk_next(deliveries)
        if delivery == NULL:
            peer.walked = NULL
            return left
        later = amqp_walk_later(deliveries, delivery, 2)
        if later != NULL and peer.plane.disposition.role == AMQP_RECEIVER:
            # `amqp_walk_next` has fetched that entry.
            fetch_ahead(entry_of(later))
        left -= outcome_came(delivery, &peer.plane.disposition)
    return left


cdef int outcome_came(
        amqp_delivery_t *delivery, const amqp_disposition_t *disposition) noexcept nogil:
    """Apply an outcome to a delivery, and return its cost in events."""
    cdef Link *link = <Link *>delivery.link.end.user
    cdef int cost
    if disposition.settled and disposition.state.code == AMQP_CODE_ACCEPTED and (
            link.kind == OUTLET and end_accepted(<Outlet *>link, delivery)):
        return 1
    cost = outcome_cost(link, delivery, disposition)
    delivery.settled_by_peer |= disposition.settled
    if disposition.state.code != AMQP_CODE_NONE:
        delivery.code = disposition.state.code
        delivery.peer_state = disposition.state.encoded
    # The state is in the input: it is copied or forgotten before the next frame is read.
    if link.kind != OUTLET or outlet_updated(<Outlet *>link, delivery):
        if not amqp_delivery_keep_said(delivery):
            link.peer.deliveries.failed = True
    return cost


cdef int outcome_cost(const Link *link, const amqp_delivery_t *delivery,
                      const amqp_disposition_t *disposition) noexcept nogil:
    """Return the cost of an outcome in events.

    Each watcher of the queue is told of it; annotations of *modified* copy the message.
    """
    cdef const Queue *queue
    cdef const Entry *entry
    cdef int cost = 1
    if link.kind != OUTLET:
        return cost
    queue = (<const Outlet *>link).consumer.queue
    if queue != NULL:
        cost += <int>(queue.watchers // 16)
    if disposition.state.annotations.start != NULL:
        entry = entry_of(delivery)
        cost += 0 if entry == NULL else merging_cost(
            entry.message.held, disposition.state.annotations.size)
    return cost


cdef inline int merging_cost(size_t held, size_t given) noexcept nogil:
    """Return the cost of new annotations: a copy, and comparisons of each with those before."""
    return <int>(held // 512 + min(held, <size_t>65536) * given // 16384)


cdef void flow_came(Peer *peer) noexcept nogil:
    cdef Session *session = <Session *>peer.plane.session.user
    cdef amqp_link_end_t *end = peer.plane.link
    if session != NULL:
        amqp_session_deliveries_catch_up(&session.deliveries)
    # The session's window may have grown.
    peer_dirty(peer)
    if end != NULL and end.user != NULL:
        link_flow(<Link *>end.user)


cdef void opened(Peer *peer) noexcept nogil:
    """Handle the peer's open frame."""
    cdef uint32_t idle_timeout = peer.plane.endpoints.opened[<int>AMQP_THEIRS].idle_timeout
    if peer.opened:
        # The engine would accept a second open frame (part 2.4.1).
        peer_refuse(peer, b"amqp:illegal-state", b"the connection is open already")
        return
    if peer.plane.endpoints.opened[<int>AMQP_THEIRS].unfit:
        # Another server refuses us: its close follows.
        return
    if not conclude_sasl(peer.driver.transport):
        peer_refuse(peer, b"amqp:unauthorized-access", b"the peer skipped authentication")
        return
    if 0 < idle_timeout < IDLE_LEAST:
        # Part 2.4.5.
        peer_refuse(peer, b"amqp:resource-limit-exceeded",
                    b"an idle time-out must be at least 100 milliseconds")
        return
    peer.opened = True
    # Now the peer's idle time-out is known.
    amqp_timers_take_open(&peer.timers, idle_timeout)
    timer_set(peer.container, &peer.timer, 0)
    peer.streaming_links = takes_streaming_links(peer.driver.connection)
    # Both were decoded.
    peer.plane.endpoints.held += VALUE_SIZE * (
        pn_data_size(pn_connection_remote_offered_capabilities(peer.driver.connection))
        + pn_data_size(pn_connection_remote_desired_capabilities(peer.driver.connection)))
    peer.trunk = is_trunk(peer.driver.connection) and (peer.dial != NULL or is_named(peer))
    if peer.dial == NULL:
        offer_capabilities(
            peer.driver.connection, not is_router(peer.driver.connection), peer.trunk)
    if not claim_container(peer):
        refuse_container(peer)
        return
    pn_connection_open(peer.driver.connection)
    trunk_opened(peer)
    peer_dirty(peer)


cdef bint is_named(Peer *peer) noexcept with gil:
    """Say whether the key `trunks` names the server that the peer says it is.

    The name is the user, if the peer has authenticated: anybody may claim a container id.
    """
    cdef const char *name = pn_transport_get_user(peer.driver.transport)
    names = (<Broker>peer.container.broker).config.trunks
    if name == NULL or <bytes>name == b"anonymous":
        name = pn_connection_remote_container(peer.driver.connection)
    return name != NULL and ("*" in names or name.decode("utf-8", "replace") in names)


cdef inline Link *link_of(pn_link_t *link) noexcept nogil:
    return <Link *>pn_link_get_context(link)


cdef void link_attached(Peer *peer, pn_link_t *engine_link) noexcept nogil:
    # An answer to our attach needs no action: the peer's credit follows.
    if link_of(engine_link) == NULL:
        attach(peer, engine_link)


cdef void link_flow(Link *link) noexcept nogil:
    if link.kind == OUTLET:
        outlet_flow(<Outlet *>link)
    elif link.kind == INLET:
        # The peer may have returned drained credit; the queue may have room again.
        inlet_top_up(<Inlet *>link)
    elif link.kind == COORDINATOR:
        coordinator_receive(link)


cdef void link_ended(Peer *peer, pn_link_t *engine_link, bint closed) noexcept nogil:
    cdef Link *link = link_of(engine_link)
    if link == NULL:
        # The peer confirms that we detached a refused link.
        pn_link_free(engine_link)
        peer_dirty(peer)
    elif link.kind == DEFERRED:
        deferred_ended(link, closed)
    elif closed and closed_by_peer(link):
        detach_later(link)
    else:
        detach(link, closed)


cdef void go_on(Link *link, const Delay *delay) noexcept nogil:
    """Answer an attach that waited, and then a detach that came meanwhile; or answer a detach."""
    cdef Peer *peer = link.peer
    cdef pn_link_t *engine_link = link.link
    if not is_usable(peer):
        # The link ends with its connection.
        return
    if not pn_link_state(engine_link) & PN_LOCAL_UNINIT:
        detach(link, True)
        return
    deferred_left(link)
    link_abandon(link)
    if delay.why != NULL:
        refuse_late(peer, engine_link, delay)
    else:
        attach(peer, engine_link)
        if link_of(engine_link) != NULL:
            link_flow(link_of(engine_link))
    if delay.ended:
        link_ended(peer, engine_link, delay.closed)


cdef void session_began(Peer *peer, pn_session_t *session) noexcept nogil:
    """Handle the peer's begin. The window is chosen later, when the first attaches are known."""
    cdef Session *made
    if not pn_session_state(session) & PN_LOCAL_UNINIT:
        own_session_begun(peer, session)
        return
    if not peer.opened:
        # The engine would accept a begin before the open frame (part 2.4.1).
        peer_refuse(peer, b"amqp:illegal-state", b"the first frame must be open")
        return
    made = session_new(peer, session, False)
    if made == NULL:
        peer_close(peer, b"amqp:resource-limit-exceeded", b"the server is out of memory")
        return
    peer.session_count += 1
    if peer.session_count + peer.own_sessions > channels(peer):
        # There is no channel for an answer, not even for an end.
        peer_close(peer, b"amqp:resource-limit-exceeded",
                   b"the connection has no channel for another session")
        return
    if peer.session_count <= peer.container.limits.sessions:
        made.next_beginning = peer.beginning
        peer.beginning = made
        return
    pn_session_open(session)
    set_condition(pn_session_condition(session), b"amqp:resource-limit-exceeded",
                  b"the connection has too many sessions")
    pn_session_close(session)
    peer_dirty(peer)


cdef void own_session_begun(Peer *peer, pn_session_t *session) noexcept nogil:
    """Handle the answer to our begin: now links can be attached that waited for its handle-max."""
    cdef Peer *other
    if session_of(session).ends:
        pn_session_close(session)
        peer_dirty(peer)
    if session != peer.shared_session:
        return
    if peer.neighbour == NULL:
        offer_again(peer)
        return
    other = peer.neighbour.trunks
    while other != NULL:
        # The connection can carry streams to its server's consumers.
        offer_again(other)
        other = other.next_trunk
    announce_to(peer)


cdef void offer_again(Peer *peer) noexcept nogil:
    """Dispatch the queues of the peer's consumers."""
    cdef Session *session = peer.sessions
    cdef Link *link
    cdef Queue *queue
    while session != NULL:
        link = session.links
        while link != NULL:
            queue = (<Outlet *>link).consumer.queue if link.kind == OUTLET else NULL
            if queue != NULL and queue.available:
                queue_dirty(queue)
            link = link.next
        session = session.next


cdef void open_sessions(Peer *peer) noexcept nogil:
    """Answer the begins of this turn, with windows that fit their links."""
    cdef Session *first = sessions_in_order(peer.beginning)
    cdef Session *session = first
    if peer.closed:
        peer.beginning = NULL
        return
    while session != NULL:
        # A session that was refused meanwhile is closed already.
        if pn_session_state(session.session) & PN_LOCAL_UNINIT:
            open_session(peer, session.session)
        session = session.next_beginning
    peer.beginning = NULL
    peer_drain(peer)
    session = peer.sessions
    while session != NULL:
        if is_fresh(session):
            session_opened(peer, session)
            links_opened(session)
        session = session.next
    peer_dirty(peer)


cdef inline bint is_fresh(const Session *session) noexcept nogil:
    """Say whether our begin was written, and `session_opened` does not know it yet."""
    return pn_session_state(session.session) & PN_LOCAL_ACTIVE and (
        session.end == NULL or session.end.window != 0)


cdef void answer_sessions(Peer *peer) noexcept nogil:
    """Write our begins and ends, in the order of the peer's: before its end is taken, and after it.

    With the peer's end the engine forgets the channel that our begin has to name (part 2.7.2).
    """
    if peer.beginning != NULL:
        open_sessions(peer)
    peer_drain(peer)


cdef void links_opened(Session *session) noexcept nogil:
    """Begin to use the links that were attached before our begin was written."""
    cdef Link *link = session.links
    while link != NULL:
        link_opened(link)
        link_flow(link)
        link = link.next


cdef Session *sessions_in_order(Session *latest) noexcept nogil:
    """Reverse the list of beginning sessions, so that the first is answered first."""
    cdef Session *first = NULL
    cdef Session *following
    while latest != NULL:
        following = latest.next_beginning
        latest.next_beginning = first
        first = latest
        latest = following
    return first


cdef void end(Peer *peer, pn_session_t *session) noexcept nogil:
    """Handle the peer's end of a session: its links end with it (part 2.5.5)."""
    cdef Session *record = <Session *>pn_session_get_context(session)
    if record != NULL:
        forget_session(peer, record)
    if session == peer.shared_session:
        peer.shared_session = NULL
    pn_session_close(session)
    pn_session_free(session)
    answer_sessions(peer)
    peer_dirty(peer)


cdef void peer_forget_links(Peer *peer) noexcept nogil:
    """Release everything that the links of an ended connection use."""
    while peer.sessions != NULL:
        forget_session(peer, peer.sessions)


cdef void forget_session(Peer *peer, Session *session) noexcept nogil:
    while session.links != NULL:
        detach(session.links, True)
    if session.begun_here:
        peer.own_sessions -= 1
    else:
        peer.session_count -= 1
    session_delete(peer, session)
