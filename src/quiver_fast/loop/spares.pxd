# Memory for small objects; see spares.h.

cdef extern from "spares.h" nogil:
    void *spares_take(size_t size)
    void spares_give(void *piece, size_t size)
    void spares_free()
