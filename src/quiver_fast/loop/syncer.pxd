from libc.stdint cimport int64_t, uint32_t, uint64_t

from quiver_fast.loop.reactor cimport Watch
from quiver_fast.queuefile.appender cimport Appender

# A file to sync and to close, or only to close, and the result: 0 or an errno.
cdef struct SyncJob:
    int fd
    bint sync
    # The appender's descriptor, and whether this job returns it.
    bint lent
    bint returns
    # Bytes that the file must have; 0 for any.
    int64_t size
    int error
    # The Appender of the file; NULL if none is to be told.
    void *appender
    # The last index that this sync covers.
    int64_t last

cdef class Syncer:
    # Becomes readable when the jobs are done.
    cdef Watch watch
    cdef int epoll
    cdef int request
    cdef bint stopping
    cdef object thread
    # The jobs of the thread while `busy`, otherwise the jobs of the next batch.
    cdef SyncJob *jobs
    cdef size_t count
    cdef size_t capacity
    cdef bint busy
    # For metrics: batches and files that were synced or closed, and the time for them (ns).
    cdef uint64_t batches
    cdef uint64_t files
    cdef int64_t spent
    cdef int64_t began
    # Appenders whose files go with the next batch, after those that the owner adds to it.
    cdef list wanted
    cdef size_t owned
    # The functions for `call_between`.
    cdef list between
    cdef void (*finished)(void *owner) noexcept nogil
    cdef void *owner

    cdef bint add(self, SyncJob job) noexcept nogil
    cdef bint add_file(self, Appender appender) noexcept nogil
    cdef void want(self, Appender appender) noexcept nogil
    cdef void start_wanted(self) noexcept nogil
    cdef void finish_all(self) noexcept nogil
    cdef void start(self) noexcept nogil
    cdef void end_batch(self) noexcept nogil
    cdef void between_batches(self) noexcept nogil
    cdef void wait(self) noexcept nogil

cdef void finish_sync(Appender appender, int64_t last, int error) noexcept nogil
cdef int event_descriptor() noexcept nogil
cdef bint await_event(int fd) noexcept nogil
cdef void raise_event(int fd) noexcept nogil
