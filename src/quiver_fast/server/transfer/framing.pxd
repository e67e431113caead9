from libc.stdint cimport uint32_t, uint64_t

from quiver_fast.amqp.data_plane cimport AMQP_THEIRS, amqp_link_end_t
from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.roles cimport CLIENT
from quiver_fast.server.model.structures cimport Entry, Outlet

cdef enum:
    # Bytes of a long message to frame at once.
    PIECE = 65024
    # Framed bytes of a connection that are not written: more are not added for a consumer.
    OUTGOING_MAX = 131072
    # The longest tag that write_tag writes.
    TAG_MAX = 16

cdef inline uint32_t credit(const Outlet *outlet) noexcept nogil:
    cdef const amqp_link_end_t *end = outlet.base.deliveries.end
    return end.counts.credit if end != NULL else 0

cdef inline bint is_beyond(const Outlet *outlet, const Message *message) noexcept nogil:
    """Say whether a message is larger than a client's link takes (part 2.7.3).

    Another server sends such a message back. Nobody knows how long a stream will be.
    """
    cdef const amqp_link_end_t *end = outlet.base.deliveries.end
    return end != NULL and end.max_message_size[<int>AMQP_THEIRS] != 0 and (
        message.size > end.max_message_size[<int>AMQP_THEIRS]
        and outlet.base.role == CLIENT and not outlet.consumer.trunk)

cdef size_t write_tag(uint64_t number, char *out) noexcept nogil
cdef size_t room(Outlet *outlet) noexcept nogil
cdef bint is_settled(const Outlet *outlet) noexcept nogil
cdef bint start_delivery(Outlet *outlet, Entry *entry) noexcept nogil
cdef size_t send_piece(
    Outlet *outlet, const void *start, size_t size, bint last) noexcept nogil
