from libc.stdint cimport int64_t

from quiver_fast.server.message cimport Message
from quiver_fast.server.structures cimport Inlet

cdef void inlet_top_up(Inlet *inlet) noexcept nogil


cdef inline void note_size(Inlet *inlet, const Message *message) noexcept nogil:
    """Follow the mean size of the messages that come by a link."""
    if inlet.mean_size == 0:
        inlet.mean_size = message.size
    inlet.mean_size += (<int64_t>message.size - <int64_t>inlet.mean_size) // 8
