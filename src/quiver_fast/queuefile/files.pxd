from libc.stdint cimport int64_t, uint32_t

from quiver_fast.queuefile.cyclefile cimport CycleFile
from quiver_fast.queuefile.space cimport Space

cdef int64_t openings

cdef class QueueFiles:
    cdef readonly object directory  # type: Path
    cdef readonly object roll  # type: RollCycle
    cdef object lock
    cdef object table
    # The files are closed until the next use; and `openings` at the last use.
    cdef readonly bint shut
    cdef int64_t used
    cdef CycleFile file
    cdef int64_t cycle
    cdef int shift
    cdef int64_t capacity
    # Realtime ms at which the next cycle begins.
    cdef int64_t cycle_end
    cdef size_t tail
    cdef int64_t sequence
    cdef Space space
    # The file has its end mark, and the next one could not be made yet: no append is possible.
    cdef bint ended
    # A syncer has the file's descriptor, and closes it if the file ends meanwhile.
    cdef bint lent
    # errno of the last failure; a failed sync ends all writing. The thread of the policy
    # `interval` uses these while the writer goes on, so they are read and written atomically, as
    # are the last index, the synced index and the flag of a due checkpoint.
    cdef int error
    cdef bint broken
    cdef int64_t last
    # The beginning of the next checkpoint's sum, and the sum so far; a due checkpoint is
    # written before the next document.
    cdef size_t summed_from
    cdef uint32_t sum
    cdef bint checkpoint_due

    cdef int open_again(self) except -1
    cdef int open_cycle(self, int64_t cycle) except -1
    cdef void leave_file(self) noexcept nogil
    cdef void fail(self, int error) noexcept nogil
