from libc.stdint cimport int64_t

from quiver_fast.server.messages.message cimport HeaderResult, Message

# The address of a stream from another server, and what else that server knows of it.
cdef struct Route:
    # Points into the message; valid until the route is stripped.
    const char *address
    size_t size
    bint streaming
    # Its sender sent it settled.
    bint presettled
    # Where the section ends, in the message's first chunk.
    size_t end

# The most that encode_route writes.
cdef enum:
    ROUTE_MAX = 80

cdef size_t encode_route(size_t address_size, bint presettled, char *out) noexcept nogil
cdef HeaderResult message_read_route(Message *message, int64_t now, Route *route) noexcept nogil
cdef void message_strip_route(Message *message, const Route *route) noexcept nogil
