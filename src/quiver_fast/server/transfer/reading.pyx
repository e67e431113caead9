"""Reads bytes of the current delivery from a producer's link, into a message or nowhere."""

from quiver_fast.proton.libproton cimport pn_link_recv, ssize_t
from quiver_fast.server.messages.message cimport Message, message_filled, message_space
from quiver_fast.server.model.structures cimport Inlet


cdef size_t discard(Inlet *inlet, size_t pending) noexcept nogil:
    """Read and drop unwanted bytes; return how many are left to drop."""
    cdef char[16384] nowhere
    cdef ssize_t n = pn_link_recv(inlet.base.link, nowhere, min(pending, sizeof(nowhere)))
    return pending - n if n > 0 else 0


cdef bint read_into(Inlet *inlet, Message *message, size_t pending) noexcept nogil:
    """Move ``pending`` bytes of the current delivery into the message."""
    cdef size_t size
    cdef char *space
    cdef ssize_t n
    while pending:
        space = message_space(message, pending, &size)
        if space == NULL:
            return False
        n = pn_link_recv(inlet.base.link, space, size)
        if n <= 0:
            return True
        message_filled(message, n)
        pending -= n
    return True
