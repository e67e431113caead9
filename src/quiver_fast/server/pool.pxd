from quiver_fast.server.structures cimport Outlet

cdef void pool_add(Outlet *outlet) noexcept nogil
cdef void pool_remove(Outlet *outlet) noexcept nogil
