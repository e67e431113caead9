from libc.stdint cimport int64_t, uint32_t

from quiver_fast.queuefile.cyclefile cimport CycleFile

cdef enum:
    CHECKPOINT_MAX = 96

cdef uint32_t add_document(
    uint32_t crc, uint32_t header, const char *content, size_t size) noexcept nogil
cdef size_t put_checkpoint(
    char *out, int64_t sequence, size_t position, uint32_t crc) noexcept nogil
cdef void next_covered(
    const CycleFile *file, size_t at, size_t *start, size_t *end) noexcept nogil
