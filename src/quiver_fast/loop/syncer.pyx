"""A thread that syncs files to disk, and closes large ones, while the loop goes on.

fdatasync takes milliseconds, and far longer on a busy disk; so does the last close of a large
deleted file. The loop gives the thread a batch of files, and a descriptor tells the loop when all
of them are done; entries that come meanwhile go with the next batch. One thread syncs for all
protocols, because the system reports a failure once for each open file: a second thread could
take a failed sync for a good one.
"""

from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset
from posix.stat cimport fstat, struct_stat
from posix.unistd cimport close, read, write

import os
import threading

from quiver_fast.loop.reactor cimport Reactor, Watch, watch_add, watch_remove
from quiver_fast.proton.libsys cimport EPOLLIN, monotonic_ns
from quiver_fast.queuefile.appender cimport Appender

cdef extern from "<unistd.h>" nogil:
    int fdatasync(int fd)

cdef extern from "<sys/eventfd.h>" nogil:
    int eventfd(unsigned int count, int flags)
    const int EFD_CLOEXEC


cdef class Syncer:
    """The thread, and its batch of files.

    Args:
        reactor: the loop that is told.

    Raises:
        OSError: the system has no descriptors left.
    """

    def __cinit__(self) -> None:
        self.request = self.watch.fd = -1

    def __init__(self, reactor: Reactor) -> None:
        self.wanted = []
        self.between = []
        self.request = event_descriptor()
        self.watch.fd = event_descriptor()
        self.watch.owner = <void *>self
        self.watch.ready = on_done
        self.epoll = reactor.epoll
        if self.request < 0 or self.watch.fd < 0 or watch_add(
                self.epoll, &self.watch, EPOLLIN) != 0:
            raise OSError(errno, os.strerror(errno))
        self.thread = threading.Thread(target=self.run, name="sync", daemon=True)
        self.thread.start()

    def __dealloc__(self) -> None:
        free(self.jobs)
        for fd in (self.request, self.watch.fd):
            if fd >= 0:
                close(fd)

    def run(self) -> None:
        """Sync one batch after the other, until `stop`."""
        cdef size_t i
        with nogil:
            while await_event(self.request) and not self.stopping:
                for i in range(self.count):
                    self.jobs[i].error = sync_file(&self.jobs[i])
                    if not self.jobs[i].lent:
                        close(self.jobs[i].fd)
                raise_event(self.watch.fd)

    def stop(self) -> None:
        """Sync the last files and end the thread; the loop is no longer told."""
        if self.thread is None:
            return
        self.finish_all()
        watch_remove(self.epoll, &self.watch)
        self.stopping = True
        raise_event(self.request)
        self.thread.join()
        self.thread = None

    cdef bint add(self, SyncJob job) noexcept nogil:
        """Add a file to the next batch, which must not be under way; False without memory.

        The descriptor is the batch's from then on, unless it is lent.
        """
        cdef SyncJob *grown
        if self.count == self.capacity:
            grown = <SyncJob *>realloc(self.jobs, (2 * self.capacity + 8) * sizeof(SyncJob))
            if grown == NULL:
                return False
            self.jobs = grown
            self.capacity = 2 * self.capacity + 8
        job.error = 0
        self.jobs[self.count] = job
        self.count += 1
        return True

    def add_wanted(self) -> None:
        """Add the wanted files to the batch; those without memory stay for the next."""
        cdef Appender appender
        self.wanted = [appender for appender in self.wanted if not self.add_file(appender)]

    cdef bint add_file(self, Appender appender) noexcept nogil:
        """Add the appended entries so far to the next batch, as `add`.

        The appender lends its descriptor, because a copy may fail for lack of descriptors.
        """
        cdef SyncJob job
        if appender.shut:
            # They were synced before their files were closed.
            return True
        memset(&job, 0, sizeof(job))
        job.sync = True
        job.lent = True
        # It may be in the batch for another protocol already.
        job.returns = not appender.lent
        job.appender = <void *>appender
        job.last = prepare_sync(appender)
        job.size = appender.tail
        job.fd = appender.file.fd
        if not self.add(job):
            # No sync was tried, so the file has not failed.
            return False
        appender.lent = True
        return True

    cdef void want(self, Appender appender) noexcept nogil:
        """Sync the appended entries with the next batch."""
        with gil:
            self.wanted.append(appender)

    cdef void start_wanted(self) noexcept nogil:
        """Begin a batch of the wanted files, unless one is under way: its end begins the next."""
        cdef bint begins
        with gil:
            begins = not self.busy and len(self.wanted) > 0
        if begins:
            self.count = 0
            self.start()

    cdef void start(self) noexcept nogil:
        """Give the batch to the thread, with the files of other users."""
        self.owned = self.count
        with gil:
            self.add_wanted()
        self.busy = True
        self.began = monotonic_ns()
        raise_event(self.request)

    cdef void end_batch(self) noexcept nogil:
        """Note that the batch is done."""
        self.busy = False
        self.batches += 1
        self.files += self.count
        self.spent += monotonic_ns() - self.began

    cdef void finish_all(self) noexcept nogil:
        """Sync all wanted files, and wait for it."""
        self.start_wanted()
        while self.busy:
            self.wait()

    def call_between(self, caller: Callable[[], object]) -> None:
        """Call a function between two batches, at once if none is under way.

        A file's writer can be closed then: the thread has none of its descriptors.
        """
        if self.busy:
            self.between.append(caller)
        else:
            caller()

    cdef void between_batches(self) noexcept nogil:
        """Call the functions that waited for the end of the batch."""
        with gil:
            callers, self.between = self.between, []
            for caller in callers:
                caller()

    cdef void wait(self) noexcept nogil:
        """Wait for the batch that is under way, if any, and take its results."""
        if self.busy:
            on_done(&self.watch, 0)


cdef void on_done(Watch *watch, uint32_t events) noexcept nogil:
    """The batch is done: tell the appenders, then the owner, who may start the next."""
    cdef void *syncer = watch.owner
    cdef SyncJob *job
    cdef size_t i
    await_event(watch.fd)
    (<Syncer>syncer).end_batch()
    for i in range((<Syncer>syncer).count):
        job = &(<Syncer>syncer).jobs[i]
        if job.appender != NULL:
            finish_sync(<Appender>job.appender, job.last, job.error)
        if job.returns:
            take_back(<Appender>job.appender, job.fd)
    if (<Syncer>syncer).finished != NULL:
        (<Syncer>syncer).finished((<Syncer>syncer).owner)
    (<Syncer>syncer).start_wanted()


cdef int sync_file(const SyncJob *job) noexcept nogil:
    """Do a job, in the thread; return 0 or an errno.

    If another process truncated the file, entries are missing although the sync succeeds.
    """
    cdef struct_stat status
    if not job.sync:
        return 0
    if fdatasync(job.fd) != 0 or fstat(job.fd, &status) != 0:
        return errno
    return EIO if status.st_size < job.size else 0


cdef void take_back(Appender appender, int fd) noexcept nogil:
    """Return an appender's descriptor; close it if its file has ended."""
    if appender.file.fd == fd:
        appender.lent = False
    else:
        close(fd)


cdef int64_t prepare_sync(Appender appender) noexcept nogil:
    """Write the checkpoint for a sync that begins now; return the last index that it covers."""
    if not appender.broken:
        appender.write_checkpoint()
    return appender.last


cdef void finish_sync(Appender appender, int64_t last, int error) noexcept nogil:
    """Take the result of the thread's sync of the appender's file (A.11)."""
    if error:
        appender.error = error
        appender.broken = True
    elif not appender.broken and appender.synced < last:
        appender.synced = last
        if appender.shut:
            return
        with gil:
            appender.table["chronicle.lastIndexMSynced"] = last


cdef int event_descriptor() noexcept nogil:
    """Return a new event descriptor; -1, with errno, if there is none."""
    return eventfd(0, EFD_CLOEXEC)


cdef bint await_event(int fd) noexcept nogil:
    """Wait until an event descriptor is readable, and reset it."""
    cdef uint64_t count
    cdef ssize_t n = read(fd, &count, sizeof(count))
    while n < 0 and errno == EINTR:
        n = read(fd, &count, sizeof(count))
    return n == sizeof(count)


cdef void raise_event(int fd) noexcept nogil:
    """Make an event descriptor readable."""
    cdef uint64_t one = 1
    write(fd, &one, sizeof(one))
