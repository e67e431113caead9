from libc.stdint cimport int64_t

from quiver_fast.queuefile.cyclefile cimport CycleFile

# The result of a walk through a cycle file.
cdef struct Extent:
    # The place and the sequence of the next document.
    size_t tail
    int64_t sequence
    # The last data document; 0 for none.
    size_t last
    # An end mark stands at the tail.
    bint ended
    # Bytes of the file were changed.
    bint changed

# Says whether bytes can be a text entry; Part C's scanner has this form.
ctypedef bint (*TextCheck)(const char *text, size_t size) noexcept nogil

cdef extern from *:
    """
    /* The name of a capsule with a TextCheck. */
    #define QUIVER_TEXT_CHECK "quiver_fast.text_check"
    """
    const char *TEXT_CHECK "QUIVER_TEXT_CHECK"

# Returns 0, or -1 with errno. Without a check any UTF-8 is text.
cdef int cycle_repair(
    CycleFile *file, Extent *extent, int64_t trusted, bint from_index,
    TextCheck text_check) noexcept nogil
cdef bint plausible_run(const CycleFile *file, size_t at) noexcept nogil
cdef int cycle_end(CycleFile *file, size_t tail) noexcept nogil
cdef int fallocate_all(int fd, size_t start, size_t end) noexcept nogil
