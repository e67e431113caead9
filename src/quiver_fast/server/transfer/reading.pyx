"""Reads bytes of a delivery from a producer into a message."""

from quiver_fast.amqp.data_plane cimport amqp_delivery_read, amqp_delivery_t
from quiver_fast.server.messages.message cimport Message, message_filled, message_space


cdef bint read_into(amqp_delivery_t *delivery, Message *message, size_t size) noexcept nogil:
    """Move ``size`` unread bytes of a delivery into the message; False without memory."""
    cdef size_t room
    cdef char *space
    while size:
        space = message_space(message, size, &room)
        if space == NULL:
            return False
        room = amqp_delivery_read(delivery, space, room)
        if room == 0:
            return True
        message_filled(message, room)
        size -= room
    return True
