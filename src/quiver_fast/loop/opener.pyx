"""A thread that opens queues' files, and makes those of new queues, while the loop goes on.

A new queue's files and folders are on disk before anything is written to them, which
takes milliseconds for each of several syncs. The loop names the queue and goes on; it is
told by a descriptor when the queue's writer is there, or why it is not. Whoever wants
a queue that is being opened already is told together with the first.
"""

from libc.errno cimport errno
from libc.stdint cimport uint32_t
from posix.unistd cimport close

import os
import threading
from collections import deque
from queue import SimpleQueue

from quiver_fast.loop.reactor cimport Reactor, Watch, watch_add, watch_remove
from quiver_fast.loop.syncer cimport event_descriptor, give, take
from quiver_fast.proton.libsys cimport EPOLLIN

# Queues that are taken over in one turn, so that others have theirs.
cdef int STEP = 16


cdef class Opener:
    """The thread, and those who wait for a queue.

    Args:
        reactor: the loop that is told.
        files: the data directory. Of the queues that are being opened only the thread
            asks it for the writer.

    Raises:
        OSError: the system has no descriptors left.
    """

    def __cinit__(self) -> None:
        self.watch.fd = -1

    def __init__(self, reactor: Reactor, files: object) -> None:
        self.files = files
        self.callers = {}
        self.wanted = SimpleQueue()
        self.opened = deque()
        self.watch.fd = event_descriptor()
        self.watch.owner = <void *>self
        self.watch.ready = on_opened
        self.epoll = reactor.epoll
        if self.watch.fd < 0 or watch_add(self.epoll, &self.watch, EPOLLIN) != 0:
            raise OSError(errno, os.strerror(errno))
        self.thread = threading.Thread(target=self.run, name="open", daemon=True)
        self.thread.start()

    def __dealloc__(self) -> None:
        if self.watch.fd >= 0:
            close(self.watch.fd)

    def want(self, address: str, caller: object) -> None:
        """Have a queue opened, made if it does not exist.

        Args:
            caller: called by the loop as ``caller(address, error)``; None for no error.
        """
        callers = self.callers.setdefault(address, [])
        callers.append(caller)
        if len(callers) == 1:
            self.wanted.put(address)

    def is_opening(self, address: str) -> bool:
        """Say whether somebody waits for a queue."""
        return address in self.callers

    def pending(self) -> int:
        """Return how many queues are waited for."""
        return len(self.callers)

    def run(self) -> None:
        """Open one queue after the other, until `stop`."""
        while (address := self.wanted.get()) is not None and not self.stopping:
            error = None
            try:
                self.files.appender(address)
            except Exception as failure:
                error = failure
            self.opened.append((address, error))
            give(self.watch.fd)

    def stop(self) -> None:
        """End the thread behind the queue that it is at; nobody is told of others any more."""
        watch_remove(self.epoll, &self.watch)
        self.stopping = True
        self.wanted.put(None)
        self.thread.join()

    cdef int tell(self) except -1:
        """Tell of some of the queues that were opened."""
        for _ in range(STEP):
            if not self.opened:
                return 0
            address, error = self.opened.popleft()
            for caller in self.callers.pop(address):
                caller(address, error)
        # The rest in the next turn.
        give(self.watch.fd)
        return 0


cdef void on_opened(Watch *watch, uint32_t events) noexcept nogil:
    take(watch.fd)
    with gil:
        (<Opener>watch.owner).tell()
