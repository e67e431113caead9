"""Timers of a connection: its handshake, idle time-outs, and unused links."""


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
    if peer.plane.held and now >= peer.judged_at:
        resume_sasl(peer.driver.transport)
        peer_dirty(peer)
    due = tick(peer, now)
    trim_pool(peer)
    if not peer.opened:
        due = min(due, deadline + MILLISECOND)
    if peer.plane.held:
        due = min(due, peer.judged_at)
    if peer.idle_count > POOL_MAX:
        due = min(due, now + TRIM_AFTER * MILLISECOND)
    if due != INT64_MAX:
        timer_set(peer.container, timer, max(due, now + MILLISECOND))


cdef int64_t tick(Peer *peer, int64_t now) noexcept nogil:
    """Keep idle time-outs, ours and the peer's (part 2.4.5).

    Returns when to call this again (monotonic ns).
    """
    if amqp_timers_is_silent(&peer.timers, now) and not peer.behind:
        peer_refuse(peer, b"amqp:resource-limit-exceeded", b"local-idle-timeout expired")
        return INT64_MAX
    if amqp_timers_owes(&peer.timers, now):
        peer.timers.spoken = now
        if amqp_output_waiting(&peer.plane.output) == 0 and not amqp_plane_beat(&peer.plane):
            peer.deliveries.failed = True
        peer_dirty(peer)
    return amqp_timers_next(&peer.timers)
