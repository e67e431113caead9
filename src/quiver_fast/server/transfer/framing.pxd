from libc.stdint cimport uint32_t

from quiver_fast.amqp.data_plane cimport AMQP_THEIRS, amqp_bytes_t, amqp_hold_t, amqp_link_end_t
from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.roles cimport CLIENT
from quiver_fast.server.model.structures cimport Entry, Outlet, Tag

cdef enum:
    # Bytes of a long message to frame at once.
    PIECE = 65024
    # Framed bytes of a connection that are not written: more are not added for a consumer.
    OUTGOING_MAX = 131072

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

cdef amqp_bytes_t next_tag(Tag *tag) noexcept nogil
cdef size_t room(Outlet *outlet) noexcept nogil
cdef bint is_settled(const Outlet *outlet) noexcept nogil
cdef bint start_delivery(Outlet *outlet, Entry *entry) noexcept nogil
cdef size_t send_piece(
    Outlet *outlet, const void *start, size_t size, amqp_hold_t *hold, bint last) noexcept nogil
