from quiver_fast.server.message cimport Message
from quiver_fast.server.structures cimport Inlet

cdef size_t discard(Inlet *inlet, size_t pending) noexcept nogil
cdef bint read_into(Inlet *inlet, Message *message, size_t pending) noexcept nogil
