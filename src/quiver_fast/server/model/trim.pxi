# Freed memory is returned to the system when it is not used for a while.


cdef enum:
    # How long freed memory is kept for reuse, in ms.
    TRIM = 500


cdef inline void memory_freed(Container *container) noexcept nogil:
    """Return freed memory to the system after a while, if it is not used again by then."""
    if container.trim_at == 0:
        container.trim_at = (container.now_ms + TRIM) * 1000000
