from libc.stdint cimport int64_t, uint32_t

from quiver_fast.queuefile.cyclefile cimport CycleFile
from quiver_fast.queuefile.space cimport Space

# When an append is on disk, A.11.
cdef enum Durability:
    # When the system writes its page cache: an entry survives only a crash of the process.
    DURABLE_NEVER
    # Every so many ms, by a thread.
    DURABLE_INTERVAL
    # When sync() returned: the caller gathers appends and acknowledges none before.
    DURABLE_GROUP

cdef class Appender:
    cdef readonly object directory
    cdef readonly object roll
    cdef object lock
    cdef object table
    cdef object syncing
    # Number of files that are kept, 0 for all; and the choice of old files.
    cdef int64_t retained
    cdef object expiry
    cdef readonly Durability policy
    cdef CycleFile file
    cdef int64_t cycle
    cdef int shift
    cdef int64_t capacity
    # Realtime ms at which the next cycle begins.
    cdef int64_t cycle_end
    cdef size_t tail
    cdef int64_t sequence
    cdef Space space
    cdef readonly size_t max_entry
    # Several documents have to be in one file: the cycle may be over before it ends.
    cdef bint held
    # The caller that rolls the file also syncs it.
    cdef bint sync_elsewhere
    # The file has its end mark, and the next one could not be made yet: no append is possible.
    cdef bint ended
    # A syncer has the file's descriptor, and closes it if the file ends meanwhile.
    cdef bint lent
    # The document between begin and commit.
    cdef size_t entry_size
    # errno of the last failure; a failed sync ends all writing. The thread of the policy
    # `interval` uses these while the writer goes on, so they are read and written atomically, as
    # are the last index, the synced index and the flag of a due checkpoint.
    cdef int error
    cdef bint broken
    cdef int64_t last
    cdef int64_t first
    cdef int64_t synced
    # Called for every entry, for waiting readers in this process.
    cdef void (*on_entry)(void *listener) noexcept nogil
    cdef void *listener
    # The beginning of the next checkpoint's sum, and the sum so far; a due checkpoint is
    # written before the next document.
    cdef size_t summed_from
    cdef uint32_t sum
    cdef bint checkpoint_due

    # Hot calls: -1 or NULL with `error` set, never an exception.
    cdef char *begin(self, size_t size) noexcept nogil
    cdef int64_t commit(self) noexcept nogil
    cdef int64_t append(self, const char *bytes, size_t size) noexcept nogil
    cdef char *begin_bytes(self, size_t size) noexcept nogil
    cdef int commit_meta(self) noexcept nogil
    cdef int append_meta(self, const char *bytes, size_t size) noexcept nogil
    cdef int sync(self) noexcept nogil
    cdef bint rolled(self) noexcept nogil
    cdef int64_t first_index(self) noexcept nogil
    cdef int64_t end_index(self) noexcept nogil
    cdef int64_t last_index(self) noexcept nogil

    cdef bint ready_for(self, size_t size) noexcept nogil
    cdef bint is_whole(self) noexcept nogil
    cdef void fail(self, int error) noexcept nogil
    cdef void leave_file(self) noexcept nogil
    cdef bint due_to_roll(self, int64_t entries) noexcept nogil
    cdef bint reserve(self, size_t end) noexcept nogil
    cdef void publish(self, size_t size, bint meta) noexcept nogil
    cdef bint write_checkpoint(self) noexcept nogil
    cdef int sync_file(self) noexcept nogil
    cdef int roll_over(self) except -1
    cdef int open_cycle(self, int64_t cycle) except -1
