from quiver_fast.amqp.data_plane cimport amqp_delivery_t
from quiver_fast.server.model.structures cimport Entry, Outlet, Work

cdef bint default_outcome(Outlet *outlet, amqp_delivery_t *delivery) noexcept nogil
cdef void outcome_said(Entry *entry, const amqp_delivery_t *delivery) noexcept nogil
cdef void work_said(const Work *work) noexcept nogil
