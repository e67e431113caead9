from quiver_fast.amqp.data_plane cimport amqp_delivery_t
from quiver_fast.server.messages.message cimport Message

cdef bint read_into(amqp_delivery_t *delivery, Message *message, size_t size) noexcept nogil
