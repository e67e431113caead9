"""The record of a link: made at attach, found through the engine's context, freed at detach."""

from libc.stdint cimport uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport strcmp

from quiver_fast.loop.balance cimport LINK, freed, made as count_made
from quiver_fast.loop.memory cimport hold
from quiver_fast.proton.libproton cimport (
    PN_LOCAL_ACTIVE, PN_REMOTE_ACTIVE, PN_REMOTE_UNINIT, pn_connection_remote_container,
    pn_connection_state, pn_decref, pn_incref, pn_link_free, pn_link_session,
    pn_link_set_context, pn_link_state, pn_link_t, pn_session, pn_session_free,
    pn_session_head, pn_session_incoming_bytes, pn_session_next, pn_session_open,
    pn_session_set_context,
    pn_session_set_incoming_capacity, pn_session_set_incoming_window_and_lwm, pn_session_state,
    pn_session_t, pn_transport_get_channel_max, pnx_session_has_handle,
)
from quiver_fast.server.model.lists cimport list_push, list_remove
from quiver_fast.server.model.structures cimport (
    COORDINATOR, INLET, Inlet, Link, LinkKind, Peer, Session,
)

# The session's window bounds the memory of an unread stream. A session for streams gets as
# many bytes as fill the network's pipe, and at least so many frames.
cdef size_t STREAM_WINDOW = 262144
cdef int LEAST_WINDOW = 2
# Other sessions get as many frames as the first credit has messages; small ones need more.
cdef int FIRST_WINDOW = 64
cdef size_t WIDE_WINDOW = 512


cdef Session *session_new(Peer *peer, pn_session_t *session, bint own) noexcept nogil:
    """Make what a session's context points to, in the list of its peer; NULL without memory."""
    cdef Session *made = <Session *>calloc(1, sizeof(Session))
    if made == NULL:
        return NULL
    made.session = session
    made.own = own
    list_push(&peer.sessions, made, &made.prev, &made.next)
    pn_session_set_context(session, made)
    return made


cdef void session_delete(Peer *peer, Session *session) noexcept nogil:
    """Free a session's record; it has no links any more."""
    cdef Session **place = &peer.beginning
    while place[0] != NULL and place[0] != session:
        place = &place[0].next_beginning
    if place[0] == session:
        place[0] = session.next_beginning
    list_remove(&peer.sessions, session, &session.prev, &session.next)
    pn_session_set_context(session.session, NULL)
    hold(&peer.holder, &session.counted, 0)
    free(session)


cdef inline bint is_incoming(LinkKind kind) noexcept nogil:
    return kind == INLET or kind == COORDINATOR


cdef Link *link_new(Peer *peer, pn_link_t *link, LinkKind kind, size_t size) noexcept nogil:
    """Make what a link's context points to, in the list of its peer; NULL without memory.

    Args:
        size: of the kind's struct, which begins with a Link.
    """
    cdef Link *made = <Link *>calloc(1, size)
    cdef Session *session
    if made == NULL:
        return NULL
    count_made(LINK)
    peer.container.next_serial += 1
    made.kind = kind
    made.link = link
    made.session = pn_link_session(link)
    made.peer = peer
    made.serial = peer.container.next_serial
    session = session_of(made.session)
    list_push(&session.links, made, &made.prev, &made.next)
    session.incoming += is_incoming(kind)
    made.own = pn_link_state(link) & PN_REMOTE_UNINIT != 0
    if made.own:
        peer.own_links += 1
    else:
        peer.link_count += 1
    # Without this reference, each delivery would move the engine's reference counts of link,
    # session and connection between zero and one.
    pn_incref(link)
    pn_link_set_context(link, made)
    return made


cdef void link_delete(Link *link) noexcept nogil:
    """Free a link's record and our reference to the engine's closed link."""
    cdef pn_link_t *engine_link = link.link
    cdef Peer *peer = link.peer
    cdef Session *session = session_of(link.session)
    link_forget(link)
    pn_link_free(engine_link)
    pn_decref(engine_link)
    # Unread bytes of the link are gone.
    hold(&peer.holder, &session.counted, pn_session_incoming_bytes(session.session))


cdef void link_abandon(Link *link) noexcept nogil:
    """Free the record of a link that we closed; the engine frees its own when the peer confirms."""
    cdef pn_link_t *engine_link = link.link
    link_forget(link)
    pn_decref(engine_link)


cdef void link_forget(Link *link) noexcept nogil:
    cdef Peer *peer = link.peer
    cdef Session *session = session_of(link.session)
    list_remove(&session.links, link, &link.prev, &link.next)
    session.incoming -= is_incoming(link.kind)
    session.streaming -= link.kind == INLET and (<Inlet *>link).streaming
    if link.own:
        peer.own_links -= 1
    else:
        peer.link_count -= 1
    freed(LINK)
    pn_link_set_context(link.link, NULL)
    free(link)


cdef int stream_window(const Peer *peer) noexcept nogil:
    """Return the window, in frames, of a session that streams come by."""
    return max(<int>(STREAM_WINDOW // peer.container.limits.frame_size), LEAST_WINDOW)


cdef void open_session(const Peer *peer, pn_session_t *session) noexcept nogil:
    """Begin a session, or answer the peer's begin, with the window that its links need."""
    cdef int window = FIRST_WINDOW
    cdef int mark = window // 2
    if session_of(session).streaming:
        window = stream_window(peer)
        # Low enough that the sender hears of everything that was read: its socket may hold
        # back the rest until it hears of it.
        mark = window - 1
    session_of(session).window = <size_t>window * peer.container.limits.frame_size
    pn_session_set_incoming_window_and_lwm(session, window, mark)
    pn_session_open(session)


cdef void stream_inlet(Inlet *inlet) noexcept nogil:
    """Mark a link that was just attached as one for streams."""
    inlet.streaming = True
    session_of(inlet.base.session).streaming += 1
    if pn_session_state(inlet.base.session) & PN_LOCAL_ACTIVE:
        narrow_session(&inlet.base)


cdef void narrow_session(const Link *link) noexcept nogil:
    """Make the window of a session that began before its link for streams fit for those.

    Does nothing if other links send in the session: the engine would take frames that are on
    their way for a violation. The flow frame of the link's next credit tells the peer.
    """
    if session_of(link.session).incoming > 1:
        return
    session_of(link.session).window = (
        <size_t>stream_window(link.peer) * link.peer.container.limits.frame_size)
    fit_session(session_of(link.session))


cdef void widen_session(Inlet *inlet) noexcept nogil:
    """Widen the window for small messages: one has come by the link.

    The window cannot shrink again: frames on their way would violate it (part 2.5.6).
    """
    cdef size_t frame_size = inlet.base.peer.container.limits.frame_size
    inlet.wide = True
    if not session_of(inlet.base.session).streaming:
        session_of(inlet.base.session).window = WIDE_WINDOW * frame_size
        fit_session(session_of(inlet.base.session))


cdef void fit_session(const Session *session) noexcept nogil:
    """Set the engine's window to what is left beside the bytes in files."""
    pn_session_set_incoming_capacity(session.session, session.window - session.spilled)


cdef size_t channels(Peer *peer) noexcept nogil:
    """Return how many sessions the connection may have, ours and the peer's (part 2.7.1)."""
    return <size_t>pn_transport_get_channel_max(peer.driver.transport) + 1


cdef bint has_channel(Peer *peer) noexcept nogil:
    """Say whether we may begin one more session.

    The answer to the peer's next begin needs a channel, so we take at most half of the
    channels and never the last. Without a free channel the engine never writes again.
    """
    cdef size_t used = peer.session_count + peer.own_sessions + peer.ending_sessions
    return peer.own_sessions < channels(peer) // 2 and used + 1 < channels(peer)


cdef bint awaits_begin(Peer *peer) noexcept nogil:
    """Say whether our next link has to wait for the answer to our begin.

    The link shares a session, and only the peer's begin says how many links the session may
    have.
    """
    cdef pn_session_t *session = peer.shared_session
    return session != NULL and not pn_session_state(session) & PN_REMOTE_ACTIVE and (
        peer.container.limits.shared_sessions or not has_channel(peer))


cdef pn_session_t *session_for(Peer *peer, bint *own) noexcept nogil:
    """Return an open session with a handle for a link of ours; NULL if there is none.

    Not while `awaits_begin`.

    Args:
        own: set to whether the session is there for this link alone.
    """
    cdef bint may_begin = has_channel(peer)
    cdef pn_session_t *session = peer.shared_session
    own[0] = False
    if session != NULL and pnx_session_has_handle(session) and (
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
        # The last session that we may begin is shared by all further links.
        peer.shared_session = session
    return session


cdef pn_session_t *session_of_peer(Peer *peer) noexcept nogil:
    """Return a session that the peer began and that has a handle: either side may attach in it.

    A session of ours may belong to a single link, and end with it.
    """
    cdef int usable = PN_LOCAL_ACTIVE | PN_REMOTE_ACTIVE
    cdef pn_session_t *session = pn_session_head(peer.driver.connection, usable)
    while session != NULL and (
            session_of(session).own or not pnx_session_has_handle(session)):
        session = pn_session_next(session, usable)
    return session


cdef void write_name(const char *prefix, uint64_t number, char *out) noexcept nogil:
    """Write the name of a link that this server attaches, unique by its number."""
    snprintf(out, NAME_MAX, b"%s%llu", prefix, <unsigned long long>number)


cdef bint is_usable(Peer *peer) noexcept nogil:
    """Say whether the connection is open both ways, so that links can be attached."""
    return not (peer.dead or peer.cut) and (
        pn_connection_state(peer.driver.connection) == (PN_LOCAL_ACTIVE | PN_REMOTE_ACTIVE))


cdef bint same_server(Peer *one, Peer *other) noexcept nogil:
    """Say whether two trunk connections lead to the same server."""
    cdef const char *here = pn_connection_remote_container(one.driver.connection)
    cdef const char *there = pn_connection_remote_container(other.driver.connection)
    return one.trunk and other.trunk and here != NULL and there != NULL and (
        strcmp(here, there) == 0)
