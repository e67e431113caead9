from quiver_fast.queuefile.cyclefile cimport CycleFile

cdef enum:
    # Files end at a multiple of this, whatever the system's page is (A.12).
    FILE_UNIT = 4096

# The disk space of the writer's file.
cdef struct Space:
    # Bytes of the file with disk space, and the next step.
    size_t reserved
    size_t step
    # Bytes of the file that the writer has brought into memory.
    size_t populated
    # Pages before this place are not mapped any more.
    size_t mapped

cdef void space_begin(Space *space, const CycleFile *file, size_t tail) noexcept nogil
cdef int space_reserve(Space *space, CycleFile *file, size_t end) noexcept nogil
cdef void space_populate(
    Space *space, const CycleFile *file, size_t tail, size_t end) noexcept nogil
