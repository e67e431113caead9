from quiver_fast.server.model.structures cimport Outlet

cdef void serve_consumer(Outlet *outlet, Outlet *consumer) noexcept nogil
cdef void leave_consumer(Outlet *outlet) noexcept nogil
cdef void forget_consumer(Outlet *consumer) noexcept nogil
