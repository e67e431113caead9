from quiver_fast.amqp.data_plane cimport amqp_arrival_t, amqp_delivery_t
from quiver_fast.server.model.structures cimport Entry, Inlet, Outlet, Queue

cdef bint take_whole(Inlet *inlet, const amqp_arrival_t *arrival) noexcept nogil
cdef bint send_whole(Outlet *outlet, Entry *entry) noexcept nogil
cdef bint send_run(Outlet *outlet, Queue *queue) noexcept nogil
cdef bint end_accepted(Outlet *outlet, amqp_delivery_t *delivery) noexcept nogil
