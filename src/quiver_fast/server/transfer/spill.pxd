from quiver_fast.amqp.data_plane cimport amqp_delivery_t
from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Inlet

# The file of a stream, and the place of its bytes in it.
cdef struct Spill:
    int fd
    size_t at
    size_t end

cdef inline bint has_spilled(const Inlet *inlet) noexcept nogil:
    return inlet.spill != NULL and (<Spill *>inlet.spill).end > (<Spill *>inlet.spill).at

cdef bint spill(Inlet *inlet, amqp_delivery_t *delivery) noexcept nogil
cdef bint spill_back(Inlet *inlet, Message *message, size_t most) noexcept nogil
cdef void spill_forget(Inlet *inlet) noexcept nogil
cdef void spill_end(Inlet *inlet) noexcept nogil
