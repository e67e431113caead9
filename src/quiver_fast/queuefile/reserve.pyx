"""Descriptors reserved for operations that must not fail, such as opening the next file of a queue.

Connections and new queues could take all descriptors of the process. So the process
limits itself to fewer (the soft limit of getrlimit(2)), and uses the rest only here.
"""

from libc cimport errno
from libc.errno cimport EMFILE
from posix.resource cimport RLIMIT_NOFILE, getrlimit, rlim_t, rlimit, setrlimit

import os

from quiver_fast.errors import OutputError
from quiver_fast.proton.libsys cimport SOCK_CLOEXEC, SOCK_NONBLOCK, accept4
from quiver_fast.queuefile.cyclefile cimport load, store

# Descriptors for making a queue: lock, file, folders, and two readers.
OF_NEW_QUEUE = 8

# Whether there is a reserve; the number of its users, which the loop reads without the GIL, and
# the limit without it.
cdef bint kept = False
cdef int users = 0
cdef rlim_t usual = 0
# The limit without the reserve, as this process set it.
cdef rlim_t ours = 0


def keep_descriptors(count: int) -> None:
    """Reserve so many descriptors, or a quarter of them if there are few."""
    global kept, ours
    cdef rlimit limit
    if getrlimit(RLIMIT_NOFILE, &limit) == 0:
        kept = True
        limit.rlim_cur = limit.rlim_max - min(<rlim_t>count, limit.rlim_max // 4)
        ours = limit.rlim_cur
        setrlimit(RLIMIT_NOFILE, &limit)


class NoDescriptorsError(OutputError):
    """The process has no descriptors left for a queue."""


def check_descriptors(reserved: bool = False) -> None:
    """Check that there are descriptors for a new queue, so that none is made half.

    Any thread may call it.

    Args:
        reserved: whether those of the reserve count. They do not if another process, such as
            prlimit(1), has lowered the limit.

    Raises:
        OSError: there are too few descriptors, and nothing was made.
    """
    held = []
    try:
        for _ in range(OF_NEW_QUEUE):
            fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            held.append(fd)
            # The limit is one of numbers of descriptors.
            if users and fd >= usual and not (reserved and usual == ours):
                raise OSError(EMFILE, os.strerror(EMFILE))
    finally:
        for fd in held:
            os.close(fd)


cdef void reserve_begin() noexcept nogil:
    """Let the caller's thread use the reserve until `reserve_end`."""
    global users, usual
    cdef rlimit limit
    with gil:
        store(&users, users + 1)
        if kept and users == 1 and getrlimit(RLIMIT_NOFILE, &limit) == 0:
            usual = limit.rlim_cur
            limit.rlim_cur = limit.rlim_max
            setrlimit(RLIMIT_NOFILE, &limit)


cdef void reserve_end() noexcept nogil:
    """End the use of the reserve."""
    global users
    cdef rlimit limit
    with gil:
        if kept and users == 1 and getrlimit(RLIMIT_NOFILE, &limit) == 0:
            limit.rlim_cur = usual
            setrlimit(RLIMIT_NOFILE, &limit)
        # Last: a loop that sees no user may accept.
        store(&users, users - 1)


cdef int accept_connection(int listener) noexcept nogil:
    """Accept a connection; return its descriptor, or -1 with errno.

    There is none as long as another thread uses the reserve, which connections must not get.
    """
    if kept and load(&users):
        errno.errno = EMFILE
        return -1
    return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)


cdef class Reserve:
    """The reserve, for the block of a `with`."""

    def __enter__(self) -> None:
        reserve_begin()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        reserve_end()
