"""A thread that opens, makes and deletes queues' files, while the loop goes on.

A new queue's files and folders are synced before anything is written to them, which
takes milliseconds for each of several syncs. The loop names the queue and goes on; a
descriptor tells it when the queue's writer is open, or has failed. All callers that want
the same queue are told together.
"""

from libc.errno cimport errno
from libc.stdint cimport uint32_t
from posix.unistd cimport close

import os
import threading
from collections import deque
from queue import SimpleQueue

from quiver_fast.loop.reactor cimport Reactor, Watch, watch_add, watch_remove
from quiver_fast.loop.syncer cimport await_event, event_descriptor, raise_event
from quiver_fast.proton.libsys cimport EPOLLIN

# The most results of one turn, so that other hooks have theirs.
cdef int STEP = 16


cdef class Opener:
    """The thread, and the callers that wait for it.

    Args:
        reactor: the loop that is told.
        files: the data directory. Only the thread asks it for writers that are not open
            yet.

    Raises:
        OSError: the system has no descriptors left.
    """

    def __cinit__(self) -> None:
        self.watch.fd = -1

    def __init__(self, reactor: Reactor, files: "QueueDirectory") -> None:
        self.files = files
        self.callers = {}
        self.wanted = SimpleQueue()
        self.done = deque()
        self.watch.fd = event_descriptor()
        self.watch.owner = <void *>self
        self.watch.ready = on_done
        self.epoll = reactor.epoll
        if self.watch.fd < 0 or watch_add(self.epoll, &self.watch, EPOLLIN) != 0:
            raise OSError(errno, os.strerror(errno))
        self.thread = threading.Thread(target=self.run, name="open", daemon=True)
        self.thread.start()

    def __dealloc__(self) -> None:
        if self.watch.fd >= 0:
            close(self.watch.fd)

    def want(self, address: str, caller: Callable[[str, Exception | None], None]) -> None:
        """Open a queue, or make it if it does not exist.

        Args:
            caller: called by the loop as ``caller(address, error)``; None for no error.
        """
        callers = self.callers.setdefault(address, [])
        callers.append(caller)
        if len(callers) == 1:
            self.wanted.put((address, self.files.appender, callers))

    def do(self, name: str, work: Callable[[str], object],
           caller: Callable[[str, Exception | None], None]) -> None:
        """Do other work on files, after all earlier work.

        Args:
            name: of the queue.
            work: called by the thread as ``work(name)``; it may raise.
            caller: as of `want`.
        """
        self.wanted.put((name, work, [caller]))

    def is_opening(self, address: str) -> bool:
        """Say whether a caller waits for a queue."""
        return address in self.callers

    def pending(self) -> int:
        """Return how many queues are being opened."""
        return len(self.callers)

    def run(self) -> None:
        """Do one thing after the other, until `stop`."""
        while (wanted := self.wanted.get()) is not None and not self.stopping:
            name, work, callers = wanted
            error = None
            try:
                work(name)
            except Exception as failure:
                error = failure
            self.done.append((name, callers, error))
            raise_event(self.watch.fd)

    def stop(self) -> None:
        """End the thread after its present work; callers of the rest are not told."""
        watch_remove(self.epoll, &self.watch)
        self.stopping = True
        self.wanted.put(None)
        self.thread.join()

    cdef int tell(self) except -1:
        """Tell callers of some results."""
        for _ in range(STEP):
            if not self.done:
                return 0
            name, callers, error = self.done.popleft()
            if self.callers.get(name) is callers:
                del self.callers[name]
            for caller in callers:
                caller(name, error)
        # The rest in the next turn.
        raise_event(self.watch.fd)
        return 0


cdef void on_done(Watch *watch, uint32_t events) noexcept nogil:
    await_event(watch.fd)
    with gil:
        (<Opener>watch.owner).tell()
