"""The records of sessions and links: made at begin or attach, freed at end or detach."""

# The largest window of a session, in frames.
cdef enum:
    WIDE_WINDOW = 512

# Room for a name of write_name.
cdef enum:
    NAME_MAX = 64


cdef inline Session *session_of(pn_session_t *session) noexcept nogil:
    return <Session *>pn_session_get_context(session)


cdef inline bint is_attached(const Link *link) noexcept nogil:
    """Say whether our attach went out, and our detach did not."""
    return link.deliveries.end != NULL and (
        link.deliveries.end.phase[<int>AMQP_OURS] == AMQP_ACTIVE)


cdef inline bint attached_here(const Link *link) noexcept nogil:
    return link.role == STREAMS_TO_PEER or link.role == TRUNK_CONSUMER

# The session's window bounds the memory of an unread stream. A session for streams gets as
# many bytes as fill the network's pipe, and at least so many frames.
cdef size_t STREAM_WINDOW = 262144
cdef int LEAST_WINDOW = 2
# Other sessions get as many frames as the first credit has messages; small ones need WIDE_WINDOW.
cdef int FIRST_WINDOW = 64


cdef Session *session_new(
        Peer *peer, pn_session_t *session, bint begun_here) noexcept nogil:
    """Make a session's record in the list of its peer; NULL without memory."""
    cdef Session *made = <Session *>calloc(1, sizeof(Session))
    if made == NULL:
        return NULL
    made.session = session
    made.begun_here = begun_here
    list_push(&peer.sessions, made, &made.prev, &made.next)
    pn_session_set_context(session, made)
    if not begun_here:
        # Its begin was the last frame, and new sessions come first in the list.
        take_end(peer, made)
    return made


cdef void session_close(pn_session_t *session) noexcept nogil:
    """End a session of ours, if need be after the peer's begin, which must find it (part 2.7.2)."""
    if pn_session_state(session) & PN_REMOTE_UNINIT:
        session_of(session).ends = True
    else:
        pn_session_close(session)


cdef void take_end(Peer *peer, Session *session) noexcept nogil:
    """Find the data plane's session for one whose begin was read or written.

    Both lists are in the same order. The engine writes no begin on a connection that it closes.
    """
    cdef amqp_session_end_t *end = peer.plane.endpoints.sessions
    cdef int beginner = <int>AMQP_OURS if session.begun_here else <int>AMQP_THEIRS
    while end != NULL and (end.user != NULL or end.phase[beginner] != AMQP_ACTIVE
                           or end.phase[1 - beginner] != AMQP_BEFORE):
        end = end.next
    if end == NULL:
        return
    session.end = end
    session.deliveries.end = end
    end.user = session


cdef void session_delete(Peer *peer, Session *session) noexcept nogil:
    """Free a session's record; it has no links any more."""
    cdef Session **place = &peer.beginning
    while place[0] != NULL and place[0] != session:
        place = &place[0].next_beginning
    if place[0] == session:
        place[0] = session.next_beginning
    list_remove(&peer.sessions, session, &session.prev, &session.next)
    pn_session_set_context(session.session, NULL)
    if peer.walked == session:
        peer.walked = NULL
    amqp_session_deliveries_free(&session.deliveries)
    if session.end != NULL:
        amqp_session_end_release(&peer.plane.endpoints, session.end)
    hold(&peer.holder, &session.counted, 0)
    free(session)


cdef inline bint is_incoming(LinkKind kind) noexcept nogil:
    return kind == INLET or kind == COORDINATOR


cdef Link *link_new(
        Peer *peer, pn_link_t *link, LinkKind kind, LinkRole role, size_t size) noexcept nogil:
    """Make a link's record in the list of its peer; NULL without memory.

    Args:
        size: the size of the kind's struct, which begins with a Link.
    """
    cdef Link *made = <Link *>calloc(1, size)
    cdef Session *session
    if made == NULL:
        return NULL
    count_made(LINK)
    peer.container.traffic.links += 1
    peer.container.next_serial += 1
    made.kind = kind
    made.role = role
    made.link = link
    made.session = pn_link_session(link)
    made.peer = peer
    made.serial = peer.container.next_serial
    session = session_of(made.session)
    list_push(&session.links, made, &made.prev, &made.next)
    session.incoming += is_incoming(kind)
    if attached_here(made):
        peer.own_links += 1
    else:
        peer.link_count += 1
    # Without this reference, each delivery would move the engine's reference counts of link,
    # session and connection between zero and one.
    pn_incref(link)
    pn_link_set_context(link, made)
    made.deliveries.all = &peer.deliveries
    made.deliveries.session = &session.deliveries
    if not attached_here(made):
        link_find(made)
    return made


cdef amqp_link_end_t *link_end(pn_link_t *link) noexcept nogil:
    """Return the data plane's link for one whose attach was read or written.

    NULL before that, or if the name has a NUL byte.
    """
    cdef const char *name = pn_link_name(link)
    cdef const amqp_session_end_t *session = session_of(pn_link_session(link)).end
    if session == NULL or name == NULL:
        return NULL
    return amqp_session_link(
        session, name, strlen(name), AMQP_SENDER if pn_link_is_sender(link) else AMQP_RECEIVER)


cdef void link_find(Link *link) noexcept nogil:
    cdef amqp_link_end_t *end = link_end(link.link)
    if end != NULL:
        end.user = link
        link.deliveries.end = end


cdef void link_opened(Link *link) noexcept nogil:
    """Write our attach before frames that depend on it, if it can be written already."""
    peer_drain(link.peer)
    if link.deliveries.end == NULL:
        link_find(link)
    if link.deliveries.end != NULL and link.deliveries.end.unfit:
        link_refuse(link, b"amqp:frame-size-too-small",
                    b"our attach would be larger than your max-frame-size")


cdef void link_delete(Link *link) noexcept nogil:
    """Free a link's record and our reference to the engine's closed link."""
    cdef pn_link_t *engine_link = link.link
    cdef Peer *peer = link.peer
    cdef Session *session = session_of(link.session)
    link_forget(link)
    pn_link_free(engine_link)
    pn_decref(engine_link)
    # The unread bytes of the link are gone.
    hold(&peer.holder, &session.counted, session.deliveries.unread)
    fit_session(peer, session)


cdef void link_abandon(Link *link) noexcept nogil:
    """Free the record of a link that we closed; the engine frees its own when the peer confirms."""
    cdef pn_link_t *engine_link = link.link
    link_forget(link)
    pn_decref(engine_link)


cdef void link_forget(Link *link) noexcept nogil:
    cdef Peer *peer = link.peer
    cdef Session *session = session_of(link.session)
    name_leave(link)
    amqp_link_deliveries_drop(&link.deliveries)
    if link.deliveries.end != NULL:
        amqp_link_end_release(&peer.plane.endpoints, link.deliveries.end)
    list_remove(&session.links, link, &link.prev, &link.next)
    session.incoming -= is_incoming(link.kind)
    session.streaming -= link.kind == INLET and (<Inlet *>link).streaming
    if attached_here(link):
        peer.own_links -= 1
    else:
        peer.link_count -= 1
    freed(LINK)
    peer.container.traffic.links -= 1
    pn_link_set_context(link.link, NULL)
    free(link)


cdef int stream_window(const Peer *peer) noexcept nogil:
    """Return the window, in frames, of a session for incoming streams."""
    return max(<int>(STREAM_WINDOW // peer.container.limits.frame_size), LEAST_WINDOW)


cdef void open_session(Peer *peer, pn_session_t *session) noexcept nogil:
    """Begin a session, or answer the peer's begin, with the window that its links need."""
    cdef int window = FIRST_WINDOW
    cdef int mark = window // 2
    if session_of(session).streaming:
        window = stream_window(peer)
        # Send a flow for everything that was read: the sender's socket may hold back the rest
        # until then.
        mark = window - 1
    session_of(session).window = <size_t>window * peer.container.limits.frame_size
    session_of(session)._mark = mark
    session_of(session).unframed = 0
    pn_session_set_incoming_capacity(session, session_of(session).window)
    pn_session_open(session)
    session_opened(peer, session_of(session))


cdef void session_opened(Peer *peer, Session *session) noexcept nogil:
    """Write our begin, if it can be written already."""
    peer_drain(peer)
    if peer.beginning != NULL:
        return
    if session.end == NULL:
        take_end(peer, session)
    if session.end != NULL:
        # The window is topped up when bytes are read, not when they come.
        session.end.window = 0


cdef void stream_inlet(Inlet *inlet) noexcept nogil:
    """Mark a link that was just attached as one for streams."""
    inlet.streaming = True
    session_of(inlet.base.session).streaming += 1
    if pn_session_state(inlet.base.session) & PN_LOCAL_ACTIVE:
        narrow_session(&inlet.base)


cdef void narrow_session(Link *link) noexcept nogil:
    """Give a session that began before its link for streams the window for streams.

    Do nothing if other links send in the session: frames on their way would violate a smaller
    window. The flow frame of the link's first credit tells the peer.
    """
    cdef Session *session = session_of(link.session)
    cdef uint32_t window = stream_window(link.peer)
    if session.incoming > 1:
        return
    session.end.counts.incoming_window = min(session.end.counts.incoming_window, window)
    set_window(link.peer, session, window, True)


cdef void widen_session(Inlet *inlet) noexcept nogil:
    """Widen the window after the link's first small message.

    The window cannot shrink again: frames on their way would violate it (part 2.5.6).
    """
    inlet.wide = True
    if not session_of(inlet.base.session).streaming:
        set_window(inlet.base.peer, session_of(inlet.base.session), WIDE_WINDOW, False)


cdef void set_window(Peer *peer, Session *session, int frames, bint streaming) noexcept nogil:
    session.window = <size_t>frames * peer.container.limits.frame_size
    session._mark = frames - 1 if streaming else frames // 2
    fit_session(peer, session)


cdef void fit_session(Peer *peer, Session *session) noexcept nogil:
    """Top up a session's window, less the unread bytes, if the peer needs more."""
    cdef amqp_session_end_t *end = session.end
    cdef size_t held = session.deliveries.unread + session.spilled
    cdef size_t most = session.window
    cdef uint32_t window = 0
    if end == NULL or end.phase[<int>AMQP_OURS] != AMQP_ACTIVE:
        return
    if end.counts.incoming_window >= session._mark:
        return
    if session.crowded:
        most = min(most, <size_t>stream_window(peer) * peer.container.limits.frame_size)
    if held < most:
        window = <uint32_t>((most - held) // peer.container.limits.frame_size)
    if window <= end.counts.incoming_window:
        return
    end.counts.incoming_window = window
    if not amqp_plane_flow(&peer.plane, end, receiving_end(session), False):
        peer.deliveries.failed = True
    peer_dirty(peer)


cdef amqp_link_end_t *receiving_end(const Session *session) noexcept nogil:
    """Return a link by which the peer sends; NULL if there is none.

    A flow for the session's window names this link. Proton does not report a flow without a link to
    its user, so skupper-router would not go on.
    """
    cdef Link *link = session.links if session.incoming else NULL
    cdef amqp_link_end_t *end
    while link != NULL:
        end = link.deliveries.end
        if is_attached(link) and end.role == AMQP_RECEIVER and (
                end.phase[<int>AMQP_THEIRS] == AMQP_ACTIVE):
            return end
        link = link.next
    return NULL


cdef bint has_handle(const Session *session) noexcept nogil:
    """Say whether a session has a handle for one more link of ours (part 2.7.2).

    The engine attaches every opened link. If there is no handle up to the peer's handle-max, it
    stops writing on the whole connection.
    """
    cdef const amqp_session_end_t *end = session.end
    return end == NULL or (
        end.attached[<int>AMQP_OURS] + session.unframed <= end.handle_max[<int>AMQP_THEIRS])


cdef size_t channels(Peer *peer) noexcept nogil:
    """Return how many sessions the connection may have, ours and the peer's (part 2.7.1)."""
    return <size_t>pn_transport_get_channel_max(peer.driver.transport) + 1


cdef bint has_channel(Peer *peer) noexcept nogil:
    """Say whether we may begin one more session.

    The answer to the peer's next begin needs a channel, so we take at most half of the
    channels and never the last. Without a free channel the engine never writes again.
    """
    cdef size_t used = peer.session_count + peer.own_sessions
    return peer.own_sessions < channels(peer) // 2 and used + 1 < channels(peer)


cdef bint awaits_begin(Peer *peer) noexcept nogil:
    """Say whether our next link has to wait for the answer to our begin.

    The link shares a session, and only the peer's begin tells how many links the session may have.
    """
    cdef pn_session_t *session = peer.shared_session
    return session != NULL and not pn_session_state(session) & PN_REMOTE_ACTIVE and (
        peer.container.limits.shared_sessions or not has_channel(peer))


cdef pn_session_t *session_for(Peer *peer, bint *own) noexcept nogil:
    """Return an open session with a handle for a link of ours; NULL if there is none.

    Do not call it while `awaits_begin`.

    Args:
        own: set to whether the session is for this link alone.
    """
    cdef bint may_begin = has_channel(peer)
    cdef pn_session_t *session = peer.shared_session
    own[0] = False
    if session != NULL and has_handle(session_of(session)) and (
            peer.container.limits.shared_sessions or not may_begin):
        return session
    if not may_begin:
        return session_of_peer(peer)
    session = pn_session(peer.driver.connection)
    if session == NULL:
        return NULL
    if session_new(peer, session, True) == NULL:
        pn_session_free(session)
        return NULL
    open_session(peer, session)
    peer.own_sessions += 1
    own[0] = not peer.container.limits.shared_sessions and (
        has_channel(peer) or peer.shared_session != NULL)
    if not own[0]:
        # All further links share the last session that we may begin.
        peer.shared_session = session
    return session


cdef pn_session_t *session_of_peer(Peer *peer) noexcept nogil:
    """Return a session that the peer began and that has a free handle for us.

    One of our own sessions may belong to a single link, and end with it.
    """
    cdef int usable = PN_LOCAL_ACTIVE | PN_REMOTE_ACTIVE
    cdef pn_session_t *session = pn_session_head(peer.driver.connection, usable)
    while session != NULL and (
            session_of(session).begun_here or not has_handle(session_of(session))):
        session = pn_session_next(session, usable)
    return session


cdef void write_name(const char *prefix, uint64_t number, char *out) noexcept nogil:
    """Write the name of a link that this server attaches, unique by its number."""
    snprintf(out, NAME_MAX, b"%s%llu", prefix, <unsigned long long>number)


cdef bint is_usable(Peer *peer) noexcept nogil:
    """Say whether the connection is open both ways, so that links can be attached."""
    return not (peer.dead or peer.cut) and (
        pn_connection_state(peer.driver.connection) == (PN_LOCAL_ACTIVE | PN_REMOTE_ACTIVE))
