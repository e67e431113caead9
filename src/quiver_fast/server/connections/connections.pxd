from libc.stdint cimport int64_t, uint64_t

from quiver_fast.amqp.data_plane cimport (
    AMQP_ACTIVE, AMQP_OURS, amqp_bytes_t, amqp_delivery_t, amqp_hold_t, amqp_link_end_t,
)
from quiver_fast.loop.memory cimport hold
from quiver_fast.proton.libproton cimport (
    pn_condition_t, pn_connection_t, pn_data_t, pn_link_t, pn_session_get_context, pn_session_t,
)
from quiver_fast.server.messages.messages cimport Message
from quiver_fast.server.model.roles cimport LinkKind, LinkRole
from quiver_fast.server.model.structures cimport Container, Inlet, Link, Peer, Queue, Session
from quiver_fast.server.model.traffic cimport came_in

cdef bint has_capability(pn_data_t *data, const char *wanted) noexcept nogil
cdef void keep_capabilities(
    pn_data_t *ours, pn_data_t *theirs, const char **names, int count) noexcept nogil
cdef void introduce(pn_connection_t *connection, bytes version, bytes queue_limit) noexcept
cdef bint is_trunk(pn_connection_t *connection) noexcept nogil
cdef bint is_router(pn_connection_t *connection) noexcept nogil
cdef bint takes_streaming_links(pn_connection_t *connection) noexcept nogil
cdef void offer_capabilities(
    pn_connection_t *connection, bint streaming_links, bint trunk) noexcept nogil
cdef void say_transactions(pn_data_t *data) noexcept nogil
cdef bint may_reject(pn_data_t *outcomes) noexcept nogil

cdef Link *name_holder(Peer *peer, const amqp_link_end_t *end) except? NULL
cdef Link *name_take(Link *link) except? NULL
cdef void name_leave(Link *link) noexcept nogil

cdef bint peer_read(Peer *peer) noexcept nogil
cdef void peer_feed(Peer *peer, amqp_bytes_t bytes) noexcept nogil
cdef void peer_drain(Peer *peer) noexcept nogil
cdef void peer_lend_output(Peer *peer) noexcept nogil
cdef void peer_return(Peer *peer) noexcept nogil
cdef bint peer_has_rest(const Peer *peer) noexcept nogil
cdef bint wants_input(const Peer *peer) noexcept nogil
cdef void peer_write(Peer *peer) noexcept nogil
cdef void peer_flush(Peer *peer) noexcept nogil
cdef void peer_borrows(Peer *peer) noexcept nogil
cdef void borrowers_settle(Container *container) noexcept nogil
cdef void peer_keep(Peer *peer, const amqp_hold_t *hold) noexcept nogil
cdef void peer_close(Peer *peer, const char *condition, const char *description) noexcept nogil
cdef void peer_refuse(Peer *peer, const char *condition, const char *description) noexcept nogil
cdef void peer_cut(Peer *peer) noexcept nogil
cdef bint peer_finished(Peer *peer) noexcept nogil
cdef void set_condition(
    pn_condition_t *condition, const char *name, const char *description) noexcept nogil
cdef void link_refuse(Link *link, const char *name, const char *description) noexcept nogil
cdef void delivery_say(
    amqp_delivery_t *delivery, uint64_t outcome, bint failed, bint undeliverable) noexcept nogil
cdef void delivery_reject(
    Link *link, amqp_delivery_t *delivery, const char *name, const char *description) noexcept nogil
cdef void refuse_transaction(Link *link) noexcept nogil
cdef void delivery_lost(Link *link, const amqp_delivery_t *delivery) noexcept nogil

cdef inline Session *session_of(pn_session_t *session) noexcept nogil:
    return <Session *>pn_session_get_context(session)

cdef inline bint is_attached(const Link *link) noexcept nogil:
    """Say whether our attach went out, and our detach did not."""
    return link.deliveries.end != NULL and (
        link.deliveries.end.phase[<int>AMQP_OURS] == AMQP_ACTIVE)

cdef inline int credit_of(const Link *link) noexcept nogil:
    """Return the credit of a link that messages come by, with those that were not taken yet."""
    return <int>(link.deliveries.end.counts.credit + link.deliveries.untaken)

# The largest window of a session, in frames.
cdef enum:
    WIDE_WINDOW = 512

cdef Link *link_new(
    Peer *peer, pn_link_t *link, LinkKind kind, LinkRole role, size_t size) noexcept nogil
cdef amqp_link_end_t *link_end(pn_link_t *link) noexcept nogil
cdef void link_opened(Link *link) noexcept nogil
cdef void link_delete(Link *link) noexcept nogil
cdef void link_abandon(Link *link) noexcept nogil
cdef bint awaits_begin(Peer *peer) noexcept nogil
cdef pn_session_t *session_for(Peer *peer, bint *own) noexcept nogil
cdef Session *session_new(Peer *peer, pn_session_t *session, bint begun_here) noexcept nogil
cdef void session_close(pn_session_t *session) noexcept nogil
cdef void session_delete(Peer *peer, Session *session) noexcept nogil
cdef void stream_inlet(Inlet *inlet) noexcept nogil
cdef void open_session(Peer *peer, pn_session_t *session) noexcept nogil
cdef void session_opened(Peer *peer, Session *session) noexcept nogil
cdef bint has_handle(const Session *session) noexcept nogil
cdef int stream_window(const Peer *peer) noexcept nogil
cdef void fit_session(Peer *peer, Session *session) noexcept nogil
cdef void widen_session(Inlet *inlet) noexcept nogil
cdef bint has_channel(Peer *peer) noexcept nogil
cdef size_t channels(Peer *peer) noexcept nogil
cdef void write_name(const char *prefix, uint64_t number, char *out) noexcept nogil
cdef bint is_usable(Peer *peer) noexcept nogil

# Room for a name of write_name.
cdef enum:
    NAME_MAX = 64

cdef void inlet_top_up(Inlet *inlet) noexcept nogil
cdef void demand_join(Inlet *inlet) noexcept nogil
cdef void demand_leave(Inlet *inlet) noexcept nogil
cdef void demand_began(Queue *queue) noexcept nogil
cdef void demand_ended(Queue *queue) noexcept nogil

cdef inline void note_size(Inlet *inlet, const Message *message) noexcept nogil:
    """Follow the mean size of the messages that come by a link, and count them."""
    came_in(&inlet.base.peer.container.traffic, message.size)
    if inlet.mean_size == 0:
        inlet.mean_size = message.size
    inlet.mean_size += (<int64_t>message.size - <int64_t>inlet.mean_size) // 8
