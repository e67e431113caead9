from libc.stdint cimport int64_t, uint32_t, uint64_t

from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.queuefile.live cimport Mark
from quiver_fast.queuefile.retention cimport Retention
from quiver_fast.queuefile.tailer cimport Tailer
from quiver_fast.server.messages.messages cimport Chain, Message, Part
from quiver_fast.server.model.structures cimport Container, Entry, Link, Queue

cdef class Restorer:
    cdef Appender appender
    cdef dict unfinished
    cdef list whole
    cdef list loose
    cdef dict bytes

    cdef Message *take(
        self, Tailer tailer, const char *start, size_t size, int64_t index, bint meta,
        int64_t now) except? NULL
    cdef Message *take_entry(
        self, Tailer tailer, const char *start, size_t size, int64_t index,
        int64_t now) except? NULL
    cdef Message *take_part(
        self, Tailer tailer, size_t at, Part *part, int64_t index, int64_t now) except? NULL
    cdef Chain *chain_for(self, const Part *part) except? NULL
    cdef Message *take_reference(
        self, const char *bytes, int64_t index, int64_t now) except? NULL
    cdef Message *made_whole(
        self, Chain *chain, uint32_t format, int64_t index, int64_t now) except? NULL
    cdef int hold(self, Retention retention) except -1

cdef bint accept_later(Link *link, uint32_t id) noexcept nogil
cdef void forget_pending(Link *link) noexcept nogil

cdef class Store:
    cdef Queue *queue
    cdef Container *container
    # Its name in the data directory.
    cdef readonly bytes name
    cdef const char *name_start
    cdef size_t name_size
    cdef Appender appender
    cdef Retention retention
    # Removed entries whose removal is not in the file yet.
    cdef uint64_t *removed
    cdef size_t removed_count
    cdef size_t removed_capacity
    # It has removals to write; then it is in the container's list.
    cdef bint dirty
    cdef void *next_dirty
    # Entries were removed since the last search for files to delete.
    cdef bint untidy
    # It has something to sync, or files to close; then it is in that list.
    cdef bint unsynced
    cdef void *next_unsynced
    # It waits for a sync to open its files; then it is in that list.
    cdef bint waits
    cdef void *next_shut
    # The file that was ended last and is not on disk yet, and its last index; -1 for none.
    cdef int ended_fd
    cdef int64_t ended_cycle
    cdef int64_t ended_last
    # Descriptors of deleted files, to be closed.
    cdef list deleted
    cdef bint has_deleted
    # A transaction's work is being written here; then it is in its list. The first entry of it.
    cdef bint joined
    cdef void *next_joined
    cdef int64_t joined_from
    # The mark of a transaction's end that could not be written; nothing may come before it.
    cdef Mark owed
    # The last append failed, and that was reported.
    cdef bint failing

    cdef int fill(self, Queue *queue, object committed) except -1
    cdef int restore(self, Queue *queue, object committed) except -1
    cdef bint wants_sync(self) noexcept nogil
    cdef bint has_old(self) noexcept nogil
    cdef int let_ended_go(self) noexcept nogil

cdef void note_failure(const Entry *entry) noexcept nogil
cdef bint is_stored(const Queue *queue, const Message *message) noexcept nogil
cdef void forget_shut(Container *container, void *store) noexcept nogil
cdef bint must_open_later(Queue *queue) noexcept nogil
cdef bint is_scarce(const Queue *queue) noexcept nogil
cdef void report_scarce(Container *container, object what) noexcept
cdef bint store_append(Queue *queue, Message *message) noexcept nogil
cdef bint store_part(Queue *queue, Message *message, bint last) noexcept nogil
cdef void store_remove(Queue *queue, const Message *message) noexcept nogil
cdef void store_forget(Queue *queue) noexcept nogil
cdef void note_message(Store store, const Message *message) noexcept nogil
cdef void report(Store store) noexcept nogil
cdef bint flush_removals(Store store) noexcept nogil
cdef bint write_owed(Store store) noexcept nogil
cdef void mark_dirty(Container *container, void *store) noexcept nogil
cdef bint must_wait(const Queue *queue, const Message *message) noexcept nogil
cdef void stores_flush(Container *container) noexcept nogil
cdef void store_leave(Container *container, void *store) noexcept nogil
cdef void stores_finish(Container *container) noexcept nogil
cdef void synced(void *container) noexcept nogil
