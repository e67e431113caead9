"""Disk space and memory for the next entries (specification A.12)."""

from libc.errno cimport EIO, errno
from posix.stat cimport fstat, struct_stat
from posix.unistd cimport pwrite

from quiver_fast.queuefile.cyclefile cimport CycleFile, cycle_remap
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

cdef enum:
    # Bytes that are brought into memory after the next entry.
    POPULATED = 65536

# A queue of one small message takes little of the disk; one that grows takes larger steps.
cdef size_t STEP_MIN = 1 << 14
cdef size_t STEP_MAX = 64 << 20
cdef char[POPULATED] ZEROS


cdef void space_begin(Space *space, const CycleFile *file, size_t tail) noexcept nogil:
    """Begin with a file after recovery: it has holes after the tail's page."""
    space.reserved = min(file.size, round_up(tail, PAGE))
    space.populated = 0
    if space.step == 0:
        space.step = STEP_MIN


cdef bint is_short(const CycleFile *file) noexcept nogil:
    """Say whether another process truncated the file."""
    cdef struct_stat status
    return fstat(file.fd, &status) != 0 or <size_t>status.st_size < file.size


cdef int space_reserve(Space *space, CycleFile *file, size_t end) noexcept nogil:
    """Allocate disk space up to ``end``, so that a full disk is an error and no SIGBUS.

    Returns 0 or the error's number: EIO for a file that another process truncated.
    """
    cdef size_t least = round_up(end, PAGE)
    cdef size_t target = round_up(end, space.step)
    cdef int error
    if is_short(file):
        # Allocating more would fill the missing part with zeros.
        return EIO
    error = fallocate_all(file.fd, space.reserved, target)
    while error and target > least:
        # Perhaps there is room for a smaller step.
        target = max(least, (end + (target - end) // 2) // PAGE * PAGE)
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
    cdef size_t start = tail // PAGE * PAGE
    cdef size_t size = min(round_up(end, PAGE) + POPULATED, space.reserved) - start
    cdef size_t fresh = max(space.populated, start + PAGE)
    cdef size_t written = min(start, <size_t>2 * POPULATED)
    if not is_short(file):
        # A page that is written whole costs less than one that is read, cleared and then changed.
        pwrite(file.fd, ZEROS, min(start + size - fresh, <size_t>POPULATED), fresh)
    # A kernel before 5.14 does not know it; faults do the same.
    madvise(file.base + start, size, MADV_POPULATE_WRITE)
    space.populated = start + size
    # Earlier pages stay in the system's memory, but are not mapped any more.
    madvise(file.base + start - written, written, MADV_DONTNEED)
