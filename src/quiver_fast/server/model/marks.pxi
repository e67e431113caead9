# Marks of work that the end of the turn does.


cdef inline void queue_dirty(Queue *queue) noexcept nogil:
    """Mark the queue for dispatch at the end of the turn."""
    if not queue.dirty:
        queue.dirty = True
        queue.next_dirty = queue.container.dirty_queues
        queue.container.dirty_queues = queue


cdef inline void peer_dirty(Peer *peer) noexcept nogil:
    """Mark the peer's output to be written at the end of the turn."""
    if not peer.dirty:
        peer.dirty = True
        peer.next_dirty = peer.container.dirty_peers
        peer.container.dirty_peers = peer


cdef inline void inlet_wake(Inlet *inlet) noexcept nogil:
    """Mark the inlet to be read at the end of the turn."""
    if not inlet.awake:
        inlet.awake = True
        inlet.next_awake = inlet.base.peer.container.awake
        inlet.base.peer.container.awake = inlet
