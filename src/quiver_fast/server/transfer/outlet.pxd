from quiver_fast.amqp.data_plane cimport amqp_delivery_t
from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Entry, Outlet, Peer, Queue

cdef void outlet_send(Outlet *outlet, Entry *entry) noexcept nogil
cdef bint outlet_send_run(Outlet *outlet, Queue *queue) noexcept nogil
cdef void outlet_flow(Outlet *outlet) noexcept nogil
cdef bint outlet_idle(Outlet *outlet) noexcept nogil
cdef void outlet_updated(Outlet *outlet, amqp_delivery_t *delivery) noexcept nogil
cdef void outlets_drained(Peer *peer) noexcept nogil
cdef void outlet_detached(Outlet *outlet) noexcept nogil
cdef void outlet_continue(Outlet *outlet) noexcept nogil
cdef void abort_sending(Outlet *outlet) noexcept nogil
cdef void update_readiness(Outlet *outlet) noexcept nogil
cdef void clog(Outlet *outlet) noexcept nogil
cdef void drop_sent(Outlet *outlet, Message *message) noexcept nogil
