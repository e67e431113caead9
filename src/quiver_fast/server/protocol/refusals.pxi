"""Frames that are refused or dropped: what ends with them, and what they lose."""

cdef void refuse_frame(Peer *peer, const amqp_refusal_t *refusal) noexcept nogil:
    """Close the link, the session or the connection of an invalid frame."""
    cdef amqp_link_end_t *end = peer.plane.link
    cdef Session *session = NULL
    if peer.plane.session != NULL:
        session = <Session *>peer.plane.session.user
    if refusal.extent == AMQP_OF_LINK and end != NULL:
        # A link without a record was refused already.
        if end.user != NULL:
            refuse_link(<Link *>end.user, refusal.condition, refusal.why)
    elif refusal.extent == AMQP_OF_SESSION and session != NULL:
        refuse_session(peer, session, refusal.condition, refusal.why)
    else:
        peer_refuse(peer, refusal.condition, refusal.why)


cdef void refuse_link(Link *link, const char *condition, const char *why) noexcept nogil:
    """Detach a link with an error; a message that it is sending goes on without it."""
    link_refuse(link, condition, why)
    if link.kind == OUTLET:
        outlet_refused(<Outlet *>link)


cdef void refuse_session(
        Peer *peer, Session *session, const char *condition, const char *why) noexcept nogil:
    """End a session with an error (part 2.5.5). Its links take and give no more messages."""
    cdef Link *link = session.links
    set_condition(pn_session_condition(session.session), condition, why)
    pn_session_close(session.session)
    while link != NULL:
        link.refused = True
        if link.kind == OUTLET:
            outlet_refused(<Outlet *>link)
        link = link.next
    peer_dirty(peer)


cdef void transfer_lost(Peer *peer) noexcept nogil:
    """Let the transaction of a transfer fail that is refused or dropped (part 4.4.4.1)."""
    state_lost(peer, peer.plane.lost)
    peer.plane.lost.start = NULL


cdef void drop(Peer *peer, const amqp_arrival_t *arrival) noexcept nogil:
    """Release the deliveries of a link that we detached, until its peer knows of the detach.

    A settlement without an outcome would count as accepted.
    """
    transfer_lost(peer)
    if not (arrival.more or arrival.settled):
        amqp_deliveries_settle(
            &peer.deliveries, arrival.link, arrival.delivery_id, arrival.delivery_id,
            AMQP_CODE_RELEASED)
        peer_dirty(peer)
    if peer.plane.session.user != NULL:
        fit_session(peer, <Session *>peer.plane.session.user)
