"""Mapped files that another process truncates: an error of that file instead of a SIGBUS.

The process has one list of them, in this module.
"""

cdef extern from "guard.h" nogil:
    Guard *quiver_guard_new(void *base, size_t size)
    void quiver_guard_move(Guard *guard, void *base, size_t size)
    void quiver_guard_end(Guard *guard)
    bint quiver_guard_cut(const Guard *guard)


cdef Guard *guard_new(void *base, size_t size) noexcept nogil:
    """Guard a mapped file; NULL for lack of memory."""
    return quiver_guard_new(base, size)


cdef void guard_move(Guard *guard, void *base, size_t size) noexcept nogil:
    """Note the new place and size of the mapping."""
    quiver_guard_move(guard, base, size)


cdef void guard_end(Guard *guard) noexcept nogil:
    """End the guard, before the file is unmapped."""
    quiver_guard_end(guard)


cdef bint guard_cut(const Guard *guard) noexcept nogil:
    """Say whether an access found the file truncated; the missing part reads as zeros."""
    return quiver_guard_cut(guard)
