"""Disk space and memory for the next entries (specification A.12)."""

from libc.errno cimport EIO, errno
from posix.stat cimport fstat, struct_stat

from quiver_fast.queuefile.cyclefile cimport CycleFile, cycle_remap, round_up, system_page
from quiver_fast.queuefile.recovery cimport fallocate_all

cdef extern from "<sys/mman.h>" nogil:
    """
    #ifndef MADV_POPULATE_WRITE
    #define MADV_POPULATE_WRITE 23
    #endif
    """
    int madvise(void *address, size_t size, int advice)
    const int MADV_DONTNEED
    const int MADV_POPULATE_WRITE

# Bytes that are brought into memory after the next entry.
cdef size_t POPULATED = 1 << 16
# Bytes before the next entry that stay mapped: to unmap many at once costs less than a few.
cdef size_t MAPPED = 4 << 20
# A queue of one small message takes little of the disk; one that grows takes larger steps.
cdef size_t STEP_MIN = 1 << 14
cdef size_t STEP_MAX = 64 << 20


cdef void space_begin(Space *space, const CycleFile *file, size_t tail) noexcept nogil:
    """Begin with a file after recovery: it may have holes after the tail's 4 KiB.

    The first store into a larger page allocates all of it, so all of it is reserved first.
    """
    space.reserved = min(file.size, round_up(tail, FILE_UNIT) // system_page * system_page)
    space.populated = 0
    space.mapped = space.reserved // system_page * system_page
    if space.step == 0:
        space.step = STEP_MIN


cdef int space_reserve(Space *space, CycleFile *file, size_t end) noexcept nogil:
    """Allocate disk space up to ``end``, so that a full disk is an error and no SIGBUS.

    Returns 0 or the error's number: EIO for a file that another process truncated.
    """
    cdef size_t least = round_up(end, system_page)
    cdef size_t target = round_up(end, max(space.step, system_page))
    cdef struct_stat status
    cdef int error
    if fstat(file.fd, &status) != 0:
        return errno
    if <size_t>status.st_size < file.size:
        # Allocating more would fill the missing part with zeros.
        return EIO
    error = fallocate_all(file.fd, space.reserved, target)
    while error and target > least:
        # Perhaps there is room for a smaller step.
        target = max(least, (end + (target - end) // 2) // system_page * system_page)
        space.step = STEP_MIN
        error = fallocate_all(file.fd, space.reserved, target)
    if error == 0 and cycle_remap(file) != 0:
        error = errno
    if error == 0:
        space.reserved = target
        space.step = min(2 * space.step, STEP_MAX)
    return error


cdef void space_populate(
        Space *space, const CycleFile *file, size_t tail, size_t end) noexcept nogil:
    """Bring the next pages into memory: one call costs less than a fault for each."""
    cdef size_t start = tail // system_page * system_page
    cdef size_t size = min(round_up(end, system_page) + POPULATED, space.reserved) - start
    # A kernel before 5.14 does not know it; faults do the same.
    madvise(file.base + start, size, MADV_POPULATE_WRITE)
    space.populated = start + size
    if start > space.mapped + MAPPED:
        # Earlier pages stay in the system's memory, but count no more as the server's.
        madvise(file.base + space.mapped, start - space.mapped, MADV_DONTNEED)
        space.mapped = start
