# Pages of a file, on disk and in memory.

cdef extern from "<sys/mman.h>" nogil:
    """
    #ifndef MADV_POPULATE_WRITE
    #define MADV_POPULATE_WRITE 23
    #endif
    """
    int madvise(void *address, size_t size, int advice)
    const int MADV_POPULATE_WRITE

cdef enum:
    PAGE = 4096
    # Bytes that are made ready in memory beyond the next entry.
    POPULATED = 1 << 16


cdef inline size_t round_up(size_t size, size_t unit) noexcept nogil:
    return (size + unit - 1) // unit * unit


cdef inline size_t populate(
        char *base, size_t start, size_t end, size_t reserved) noexcept nogil:
    """Have pages up to ``end`` and the next ones in memory; return up to where.

    One call costs less than a fault for each page. Reserved disk space ends at ``reserved``.
    """
    cdef size_t first = start // PAGE * PAGE
    cdef size_t last = min(round_up(end, PAGE) + POPULATED, reserved)
    # A kernel before 5.14 does not know it; faults do the same.
    madvise(base + first, last - first, MADV_POPULATE_WRITE)
    return last
