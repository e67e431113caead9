from quiver_fast.server.model.structures cimport Outlet

cdef void pool_add(Outlet *outlet) noexcept nogil
cdef void pool_remove(Outlet *outlet) noexcept nogil

cdef enum:
    # Idle links that a connection keeps, and the ms after which further ones are detached.
    POOL_MAX = 128
    TRIM_AFTER = 100
