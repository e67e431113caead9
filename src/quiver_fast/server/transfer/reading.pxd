from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Inlet

cdef size_t discard(Inlet *inlet, size_t pending) noexcept nogil
cdef bint read_into(Inlet *inlet, Message *message, size_t pending) noexcept nogil
