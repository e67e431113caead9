from quiver_fast.server.model.structures cimport Outlet

cdef void pool_add(Outlet *outlet) noexcept nogil
cdef void pool_remove(Outlet *outlet) noexcept nogil

cdef enum:
    # Idle links that a connection keeps, and how long those that are too many wait, in ms.
    POOL_MAX = 128
    TRIM_AFTER = 100
