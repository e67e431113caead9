from libc.stdint cimport int64_t

from quiver_fast.queuefile.files cimport QueueFiles

# When an append is on disk, A.11.
cdef enum Durability:
    # When the system writes its page cache: an entry survives only a crash of the process.
    DURABLE_NEVER
    # Every so many ms, by a thread.
    DURABLE_INTERVAL
    # When sync() returned: the caller gathers appends and acknowledges none before.
    DURABLE_GROUP

cdef class Appender(QueueFiles):
    cdef object syncing
    # The open files of all queues of the directory; None if these stay open.
    cdef public object shared  # type: OpenFiles | None
    # Number of files that are kept, 0 for all; and the choice of old files.
    cdef int64_t retained
    cdef object expiry
    cdef readonly Durability policy  # type: int
    cdef readonly size_t max_entry
    # Several documents have to be in one file: the cycle may be over before it ends.
    cdef bint held
    # The caller that rolls the file also syncs it.
    cdef bint sync_elsewhere
    # The document between begin and commit.
    cdef size_t entry_size
    # Under `interval`: meta-data was written since the last checkpoint.
    cdef bint noted
    cdef int64_t first
    cdef int64_t synced
    # Called for every entry, for waiting readers in this process.
    cdef void (*on_entry)(void *listener) noexcept nogil
    cdef void *listener

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

    # Opens the files if they are closed. With ``waits``, EAGAIN says that a sync must end first.
    cdef bint use(self, bint waits) noexcept nogil
    cdef bint ready_for(self, size_t size) noexcept nogil
    cdef bint is_whole(self) noexcept nogil
    cdef bint due_to_roll(self, int64_t entries) noexcept nogil
    cdef bint reserve(self, size_t end) noexcept nogil
    cdef void publish(self, size_t size, bint meta) noexcept nogil
    cdef bint write_checkpoint(self) noexcept nogil
    cdef void cover_notes(self) noexcept nogil
    cdef int sync_file(self) noexcept nogil
    cdef int roll_over(self) except -1
