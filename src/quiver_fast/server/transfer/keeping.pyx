"""Timers of a connection: its handshake, idle time-outs, and unused links."""

from libc.stdint cimport INT64_MAX, int64_t

from quiver_fast.proton.libproton cimport (
    pn_transport_get_remote_idle_timeout, pn_transport_tick,
)
from quiver_fast.server.connections.peer cimport peer_cut
from quiver_fast.server.model.structures cimport Peer, Timer, peer_dirty
from quiver_fast.server.model.timer cimport timer_set
from quiver_fast.server.streams.pool cimport POOL_MAX, TRIM_AFTER
from quiver_fast.server.streams.streamlink cimport trim_pool

cdef int64_t MILLISECOND = 1000000


cdef void declare_dead(Peer *peer) noexcept nogil:
    """Mark a peer to be freed at the end of the turn."""
    if peer.dead:
        return
    peer.dead = True
    peer.next_dead = peer.container.dead
    peer.container.dead = peer


cdef void peer_ring(Timer *timer, int64_t now) noexcept nogil:
    """Do what is due, and set the timer for the rest."""
    # The timer is a peer's first member.
    cdef Peer *peer = <Peer *>timer
    cdef int64_t deadline = peer.accepted_at + peer.container.limits.handshake_ns
    cdef int64_t due
    if peer.dead:
        return
    if not peer.opened and now > deadline:
        peer_cut(peer)
        declare_dead(peer)
        return
    due = tick(peer)
    trim_pool(peer)
    if not peer.opened:
        due = min(due, deadline + MILLISECOND)
    if peer.idle_count > POOL_MAX:
        due = min(due, now + TRIM_AFTER * MILLISECOND)
    if due != INT64_MAX:
        timer_set(peer.container, timer, max(due, now + MILLISECOND))


cdef int64_t tick(Peer *peer) noexcept nogil:
    """Let the engine keep idle time-outs, its own and the peer's (part 2.4.5).

    Returns when to call this again (monotonic ns). The engine notices only here that it wrote
    something, and waits half of the peer's time-out from then. If it were called at each half,
    its next frame could come a whole time-out after the last one. So it is called at each
    quarter.
    """
    cdef int64_t now = peer.container.now_ms
    cdef int64_t due = pn_transport_tick(peer.driver.transport, now)
    cdef int64_t quarter = pn_transport_get_remote_idle_timeout(peer.driver.transport) // 4
    peer_dirty(peer)
    if due == 0:
        return INT64_MAX
    return (min(due, now + quarter) if quarter else due) * MILLISECOND
