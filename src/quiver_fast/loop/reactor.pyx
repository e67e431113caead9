"""The server's one event loop: epoll, then a round of hooks, without the GIL.

All ready descriptors are served first. Then the hooks do the work that is cheaper once
for all: dispatch, sync, write, and timers. So messages that came in together go out
together.
"""

from libc.errno cimport EINTR, errno
from libc.stdint cimport INT64_MAX, int64_t, uint32_t
from posix.unistd cimport close

import os

from quiver_fast.loop.interrupt cimport pending_count, wake_descriptor
from quiver_fast.proton.libsys cimport (
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, epoll_create1,
    epoll_ctl, epoll_event, epoll_wait, monotonic_ns,
)

# The most descriptors of a turn. The system gives the others first in the next one. With more, a
# turn reads so much before the hooks pass it on that it leaves the processor's caches; with fewer,
# many consumers of one queue get small writes.
cdef enum:
    BATCH = 64
cdef int64_t MILLISECOND = 1000000


cdef void ignore(Watch *watch, uint32_t events) noexcept nogil:
    # The pipe of the signal handler, which only has to wake the loop.
    return


cdef Watch signals
signals.ready = ignore


cdef int watch_control(int epoll, int operation, Watch *watch, uint32_t events) noexcept nogil:
    cdef epoll_event event
    event.events = events
    event.data.ptr = watch
    return epoll_ctl(epoll, operation, watch.fd, &event)


cdef int watch_add(int epoll, Watch *watch, uint32_t events) noexcept nogil:
    """Add a descriptor, level-triggered; return -1, with errno, if the system refuses it."""
    return watch_control(epoll, EPOLL_CTL_ADD, watch, events)


cdef void watch_change(int epoll, Watch *watch, uint32_t events) noexcept nogil:
    """Wait for other events of a descriptor from now on."""
    watch_control(epoll, EPOLL_CTL_MOD, watch, events)


cdef void watch_remove(int epoll, Watch *watch) noexcept nogil:
    """Remove a descriptor, before it is closed."""
    watch_control(epoll, EPOLL_CTL_DEL, watch, 0)


cdef class Reactor:
    """An event loop over any number of descriptors.

    An owner may free a Watch only in a hook, never in a `ready` callback: other
    events of the same turn may still point to it.
    """

    def __cinit__(self) -> None:
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll < 0:
            raise OSError(errno, f"epoll: {os.strerror(errno)}")
        self.now = monotonic_ns()

    def __init__(self) -> None:
        signals.fd = wake_descriptor()
        if signals.fd >= 0:
            watch_add(self.epoll, &signals, EPOLLIN)

    def __dealloc__(self) -> None:
        if self.epoll >= 0:
            close(self.epoll)

    cdef void add_hook(self, Hook *hook) noexcept nogil:
        """Call ``hook`` at the end of every turn, after those added before it."""
        cdef Hook **place = &self.hooks
        while place[0] != NULL:
            place = &place[0].next
        hook.next = NULL
        place[0] = hook

    cdef void stop(self) noexcept nogil:
        self.stopping = True

    cdef int turn(self, int64_t wait_until) except -1 nogil:
        """Wait until ``wait_until`` (monotonic ns), serve ready descriptors, run the hooks."""
        cdef epoll_event[BATCH] events
        cdef Watch *watch
        cdef int count
        cdef int i
        count = epoll_wait(self.epoll, events, BATCH, milliseconds_until(wait_until))
        if count < 0 and errno != EINTR:
            with gil:
                raise OSError(errno, f"epoll: {os.strerror(errno)}")
        self.now = monotonic_ns()
        if self.now_ms != NULL:
            self.now_ms[0] = self.now // MILLISECOND
        for i in range(count):
            watch = <Watch *>events[i].data.ptr
            watch.ready(watch, events[i].events)
        return 0

    cdef int64_t round(self) noexcept nogil:
        """Run all hooks; return the earliest time of a next call."""
        cdef int64_t earliest = INT64_MAX
        cdef Hook *hook = self.hooks
        while hook != NULL:
            earliest = min(earliest, hook.turn(hook.owner, self.now))
            hook = hook.next
        return earliest

    def run(self) -> None:
        """Run until `stop` is called or a signal comes.

        Raises:
            OSError: the system refused to wait.
        """
        cdef int64_t until
        with nogil:
            until = self.round()
            while not self.stopping and pending_count() == 0:
                self.turn(until)
                until = self.round()


cdef int milliseconds_until(int64_t time) noexcept nogil:
    """Return epoll's time-out for ``time``, rounded up so that it is over on waking."""
    cdef int64_t rest
    if time == INT64_MAX:
        return -1
    rest = time - monotonic_ns()
    if rest <= 0:
        return 0
    return <int>min((rest + MILLISECOND - 1) // MILLISECOND, <int64_t>60000)
