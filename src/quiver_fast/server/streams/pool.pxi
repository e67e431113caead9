"""A pool of our idle links to a peer: the next streams use them."""

cdef enum:
    # Idle links that a connection keeps, and the ms after which further ones are detached.
    POOL_MAX = 128
    TRIM_AFTER = 100


cdef void pool_add(Outlet *outlet) noexcept nogil:
    """Keep one of our links for the next stream to its peer: last in, first out."""
    cdef Peer *peer = outlet.base.peer
    outlet.next_idle = NULL
    if peer.idle_last == NULL:
        peer.idle_first = outlet
    else:
        peer.idle_last.next_idle = outlet
    peer.idle_last = outlet
    peer.idle_count += 1
    if peer.idle_count > POOL_MAX:
        timer_advance(
            peer.container, &peer.timer, (peer.container.now_ms + TRIM_AFTER) * MILLISECOND)


cdef void pool_remove(Outlet *outlet) noexcept nogil:
    cdef Peer *peer = outlet.base.peer
    cdef Outlet *before = NULL
    cdef Outlet *at = peer.idle_first
    while at != NULL and at != outlet:
        before = at
        at = at.next_idle
    if at == NULL:
        return
    if before == NULL:
        peer.idle_first = outlet.next_idle
    else:
        before.next_idle = outlet.next_idle
    if peer.idle_last == outlet:
        peer.idle_last = before
    peer.idle_count -= 1
