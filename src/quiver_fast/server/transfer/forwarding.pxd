from quiver_fast.amqp.data_plane cimport amqp_delivery_t
from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Outlet

cdef Outlet *sole_reader(const Message *message) noexcept nogil
cdef size_t stream_pass(Outlet *outlet, amqp_delivery_t *arriving) noexcept nogil
cdef void stream_advance(Message *message) noexcept nogil
cdef void stream_abort(Message *message) noexcept nogil
