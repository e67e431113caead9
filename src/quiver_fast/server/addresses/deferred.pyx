"""Links whose attach, or whose detach, is answered when files say what the answer says.

A link waits as DEFERRED: it counts as a link of its connection, and goes with its session.
Its record is that of an attach that was not answered, or of a consumer that is gone.
"""

from quiver_fast.server.addresses.broker cimport Broker
from quiver_fast.server.model.structures cimport Link


cdef class Deferred:
    """A link that waits. The broker has it as long as there is the link."""


cdef Deferred defer(Broker broker, Link *link):
    """Have a link wait for `go_on`."""
    cdef Deferred made = Deferred()
    made.link = link
    broker.deferred[link.serial] = made
    return made


cdef void deferred_ended(Link *link, bint closed) noexcept nogil:
    """Keep a peer's detach until its attach was answered."""
    with gil:
        end(<Broker>link.peer.container.broker, link, closed)


cdef int end(Broker broker, const Link *link, bint closed) except -1:
    cdef Deferred deferred = broker.deferred[link.serial]
    deferred.delay.ended = True
    deferred.delay.closed = closed
    return 0


cdef void deferred_left(Link *link) noexcept nogil:
    """A link waits no more, for it goes."""
    with gil:
        leave(<Broker>link.peer.container.broker, link)


cdef int leave(Broker broker, const Link *link) except -1:
    cdef Deferred deferred = broker.deferred.pop(link.serial)
    deferred.link = NULL
    return 0


cdef int go_on(Broker broker, Deferred deferred, bytes why) except -1:
    """Have a link answered that waited, if it is still there.

    Args:
        why: not; None if all is well.
    """
    if deferred.link == NULL:
        return 0
    if why is not None:
        deferred.delay.why = why
    broker.go_on(deferred.link, &deferred.delay)
    return 0
