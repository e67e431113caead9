# Freed memory goes back to the system when it has had no use for a while.

from quiver_fast.server.model.structures cimport Container

cdef enum:
    # How long freed memory is kept for what comes next, in ms.
    TRIM = 500


cdef inline void memory_freed(Container *container) noexcept nogil:
    """Have freed memory given back to the system soon, if it is not used again by then."""
    if container.trim_at == 0:
        container.trim_at = (container.now_ms + TRIM) * 1000000
