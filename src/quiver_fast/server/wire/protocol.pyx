"""Handles the engine's events of one connection."""

from quiver_fast.engine.security.security cimport conclude_sasl
from quiver_fast.proton.libproton cimport (
    PN_CONNECTION_REMOTE_CLOSE, PN_CONNECTION_REMOTE_OPEN, PN_DELIVERY, PN_LINK_FLOW,
    PN_LINK_REMOTE_CLOSE, PN_LINK_REMOTE_DETACH, PN_LINK_REMOTE_OPEN, PN_LOCAL_CLOSED,
    PN_LOCAL_UNINIT, PN_SESSION_REMOTE_CLOSE, PN_SESSION_REMOTE_OPEN,
    pn_connection_driver_next_event, pn_connection_open, pn_connection_state, pn_delivery_link,
    pn_delivery_t, pn_delivery_updated, pn_event_delivery, pn_event_link, pn_event_session,
    pn_event_t, pn_event_type, pn_link_free, pn_link_get_context, pn_link_state, pn_link_t,
    pn_session_close, pn_session_condition, pn_session_free, pn_session_get_context,
    pn_session_open, pn_session_state, pn_session_t,
)
from quiver_fast.server.addresses.broker cimport Delay
from quiver_fast.server.addresses.deferred cimport deferred_ended, deferred_left
from quiver_fast.server.addresses.sole cimport claim_container, leave_container, refuse_container
from quiver_fast.server.connections.capability cimport (
    is_router, offer_capabilities, takes_streaming_links,
)
from quiver_fast.server.connections.credit cimport inlet_top_up
from quiver_fast.server.connections.links cimport (
    channels, is_usable, link_abandon, open_session, same_server, session_delete, session_new,
)
from quiver_fast.server.connections.peer cimport peer_close, peer_flush, peer_refuse, set_condition
from quiver_fast.server.model.structures cimport (
    COORDINATOR, DEFERRED, INLET, OUTLET, Inlet, Link, Outlet, Peer, Queue, Session,
    peer_dirty, queue_dirty,
)
from quiver_fast.server.model.timer cimport timer_set
from quiver_fast.server.streams.trunk cimport announce_all, trunk_opened
from quiver_fast.server.transactions.coordinator cimport coordinator_receive
from quiver_fast.server.transfer.inlet cimport inlet_receive
from quiver_fast.server.transfer.outlet cimport outlet_flow, outlet_updated
from quiver_fast.server.wire.attach cimport (
    attach, closed_by_peer, detach, detach_later, refuse_late,
)

# Events of one peer in one round: a disposition may bring one for each of 100,000 deliveries.
cdef int EVENTS = 4096
# Sessions whose end may be unanswered at a time.
cdef size_t ENDING_MAX = 64


cdef void peer_process(Peer *peer) noexcept nogil:
    """Handle the events of a read; if there are very many, the rest waits for another round."""
    cdef int left = EVENTS
    cdef pn_event_t *event = pn_connection_driver_next_event(&peer.driver)
    while event != NULL:
        take_event(peer, event)
        left -= 1
        if left == 0:
            break
        event = pn_connection_driver_next_event(&peer.driver)
    if event != NULL or peer.behind:
        # The next round goes on, or reads again.
        peer_dirty(peer)
    peer.behind = event != NULL
    if peer.behind:
        return
    if peer.beginning != NULL:
        open_sessions(peer)


cdef void take_event(Peer *peer, pn_event_t *event) noexcept nogil:
    cdef int kind = pn_event_type(event)
    if kind == PN_DELIVERY:
        delivery_changed(pn_event_delivery(event))
    elif kind == PN_LINK_FLOW:
        link_flow(pn_event_link(event))
    elif kind == PN_LINK_REMOTE_OPEN:
        peer.unanswered += 1
        link_attached(peer, pn_event_link(event))
    elif kind == PN_LINK_REMOTE_CLOSE or kind == PN_LINK_REMOTE_DETACH:
        peer.unanswered += 1
        link_ended(peer, pn_event_link(event), kind == PN_LINK_REMOTE_CLOSE)
    elif kind == PN_SESSION_REMOTE_OPEN:
        peer.unanswered += 1
        begin(peer, pn_event_session(event))
    elif kind == PN_SESSION_REMOTE_CLOSE:
        peer.unanswered += 1
        end(peer, pn_event_session(event))
    elif kind == PN_CONNECTION_REMOTE_OPEN:
        opened(peer)
    elif kind == PN_CONNECTION_REMOTE_CLOSE:
        # The client may connect again before this connection is freed.
        leave_container(peer)
        peer_close(peer, NULL, NULL)


cdef void opened(Peer *peer) noexcept nogil:
    """The peer's open frame came."""
    if peer.opened:
        # The engine accepts a second open frame (part 2.4.1).
        peer_refuse(peer, b"amqp:illegal-state", b"the connection is open already")
        return
    if not conclude_sasl(peer.driver.transport):
        return
    peer.opened = True
    # The peer's idle time-out is known now.
    timer_set(peer.container, &peer.timer, 0)
    peer.streaming_links = takes_streaming_links(peer.driver.connection)
    if is_router(peer.driver.connection):
        offer_capabilities(peer.driver.connection, False)
    if not claim_container(peer):
        refuse_container(peer)
        return
    pn_connection_open(peer.driver.connection)
    trunk_opened(peer)
    peer_dirty(peer)


cdef inline Link *link_of(pn_link_t *link) noexcept nogil:
    return <Link *>pn_link_get_context(link)


cdef void delivery_changed(pn_delivery_t *delivery) noexcept nogil:
    cdef Link *link = link_of(pn_delivery_link(delivery))
    if link == NULL:
        return
    if link.kind == INLET:
        inlet_receive(<Inlet *>link)
    elif link.kind == COORDINATOR:
        coordinator_receive(link)
    elif pn_delivery_updated(delivery):
        outlet_updated(<Outlet *>link, delivery)


cdef void link_attached(Peer *peer, pn_link_t *engine_link) noexcept nogil:
    # The answer to our attach needs no action; the peer's credit will.
    if link_of(engine_link) == NULL:
        attach(peer, engine_link)


cdef void link_flow(pn_link_t *engine_link) noexcept nogil:
    cdef Link *link = link_of(engine_link)
    if link == NULL:
        return
    if link.kind == OUTLET:
        outlet_flow(<Outlet *>link)
    elif link.kind == INLET:
        # The peer may have returned drained credit; the queue may have room again.
        inlet_top_up(<Inlet *>link)


cdef void link_ended(Peer *peer, pn_link_t *engine_link, bint closed) noexcept nogil:
    cdef Link *link = link_of(engine_link)
    if link == NULL:
        # The peer confirms the detach of a refused link.
        pn_link_free(engine_link)
        peer_dirty(peer)
    elif link.kind == DEFERRED:
        deferred_ended(link, closed)
    elif closed and closed_by_peer(link):
        detach_later(link)
    else:
        detach(link, closed)


cdef void go_on(Link *link, const Delay *delay) noexcept nogil:
    """Answer an attach that waited, then handle what came meanwhile; or answer a detach."""
    cdef Peer *peer = link.peer
    cdef pn_link_t *engine_link = link.link
    if not is_usable(peer):
        # It goes with its connection.
        return
    if not pn_link_state(engine_link) & PN_LOCAL_UNINIT:
        detach(link, True)
        return
    deferred_left(link)
    link_abandon(link)
    if delay.why != NULL:
        refuse_late(peer, engine_link, delay.why)
    else:
        attach(peer, engine_link)
        link_flow(engine_link)
    if delay.ended:
        link_ended(peer, engine_link, delay.closed)


cdef void begin(Peer *peer, pn_session_t *session) noexcept nogil:
    """The peer began a session. Its window is chosen when its first attaches are known."""
    cdef Session *made
    if not pn_session_state(session) & PN_LOCAL_UNINIT:
        own_session_begun(peer, session)
        return
    if not peer.opened:
        # The engine accepts a begin before the open frame (part 2.4.1).
        peer_refuse(peer, b"amqp:illegal-state", b"the first frame must be open")
        return
    made = session_new(peer, session, False)
    if made == NULL:
        peer_close(peer, b"amqp:resource-limit-exceeded", b"the server is out of memory")
        return
    peer.session_count += 1
    if peer.ending_sessions >= ENDING_MAX:
        # Ended sessions keep their channels until the answer to their end is written.
        peer_flush(peer)
    if peer.session_count + peer.own_sessions + peer.ending_sessions > channels(peer):
        # No channel is left for an answer, not even for an end.
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
    """The peer answered a begin of ours: links that wait for its handle-max may follow."""
    cdef Peer *other = peer.container.trunks
    if session != peer.shared_session:
        return
    offer_again(peer)
    if not peer.trunk:
        return
    while other != NULL:
        # Streams to its consumers may go by this connection.
        if same_server(other, peer):
            offer_again(other)
        other = other.next_trunk
    announce_all(peer.container)


cdef void offer_again(Peer *peer) noexcept nogil:
    """Dispatch the queues that the peer has consumers of."""
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
    """Answer the begins of this turn with the windows that their links need."""
    cdef Session *session = in_order(peer.beginning)
    peer.beginning = NULL
    if pn_connection_state(peer.driver.connection) & PN_LOCAL_CLOSED:
        return
    while session != NULL:
        # A session that was refused meanwhile is closed.
        if pn_session_state(session.session) & PN_LOCAL_UNINIT:
            open_session(peer, session.session)
        session = session.next_beginning
    peer_dirty(peer)


cdef Session *in_order(Session *latest) noexcept nogil:
    """Reverse the list of beginning sessions: the first is answered first."""
    cdef Session *first = NULL
    cdef Session *following
    while latest != NULL:
        following = latest.next_beginning
        latest.next_beginning = first
        first = latest
        latest = following
    return first


cdef void end(Peer *peer, pn_session_t *session) noexcept nogil:
    """The peer ended a session: with it go its links (part 2.5.5)."""
    cdef Session *record = <Session *>pn_session_get_context(session)
    if record != NULL:
        forget_session(peer, record)
    peer.ending_sessions += 1
    if session == peer.shared_session:
        peer.shared_session = NULL
    pn_session_close(session)
    pn_session_free(session)
    peer_dirty(peer)


cdef void peer_forget_links(Peer *peer) noexcept nogil:
    """Release everything that the links of an ended connection hold."""
    while peer.sessions != NULL:
        forget_session(peer, peer.sessions)


cdef void forget_session(Peer *peer, Session *session) noexcept nogil:
    while session.links != NULL:
        detach(session.links, True)
    if session.own:
        peer.own_sessions -= 1
    else:
        peer.session_count -= 1
    session_delete(peer, session)
