"""Links whose attach or detach is answered only when files are on disk.

A waiting link has the kind DEFERRED. It counts as a link of its connection, and ends with its
session. It represents an attach without an answer, or a consumer that has left.
"""

cdef class Deferred:
    """A link that waits. The broker keeps it as long as the link exists."""

    # NULL when it is gone.
    cdef Link *link
    cdef Delay delay


cdef Deferred defer(Broker broker, Link *link):
    """Let a link wait for `go_on`."""
    cdef Deferred made = Deferred()
    made.link = link
    broker.deferred[link.serial] = made
    return made


cdef void deferred_ended(Link *link, bint closed) noexcept nogil:
    """Keep a peer's detach until the attach is answered."""
    with gil:
        end_deferred(<Broker>link.peer.container.broker, link, closed)


cdef int end_deferred(Broker broker, const Link *link, bint closed) except -1:
    cdef Deferred deferred = broker.deferred[link.serial]
    deferred.delay.ended = True
    deferred.delay.closed = closed
    return 0


cdef void deferred_left(Link *link) noexcept nogil:
    """Forget a waiting link that ends."""
    with gil:
        deferred_leave(<Broker>link.peer.container.broker, link)


cdef int deferred_leave(Broker broker, const Link *link) except -1:
    cdef Deferred deferred = broker.deferred.pop(link.serial)
    deferred.link = NULL
    return 0


cdef int deferred_go_on(Broker broker, Deferred deferred, bytes why) except -1:
    """Answer a link that waited, if it still exists.

    Args:
        why: the reason of a failure; None for success.
    """
    if deferred.link == NULL:
        return 0
    if why is not None:
        deferred.delay.why = why
    broker.go_on(deferred.link, &deferred.delay)
    return 0
