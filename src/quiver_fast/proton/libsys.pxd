# The operating system's calls that the event loops use. Linux.

from libc.stdint cimport int64_t, uint32_t
from posix.time cimport clock_gettime, timespec, CLOCK_MONOTONIC, CLOCK_REALTIME

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    const short POLLIN
    const short POLLOUT
    int ppoll(pollfd *fds, unsigned long count, const timespec *timeout, const void *sigmask)

cdef extern from "<sys/socket.h>" nogil:
    const int MSG_DONTWAIT
    const int MSG_NOSIGNAL
    ssize_t recv(int fd, void *buffer, size_t size, int flags)
    ssize_t send(int fd, const void *buffer, size_t size, int flags)

cdef extern from "<sys/prctl.h>" nogil:
    const int PR_SET_TIMERSLACK
    int prctl(int option, unsigned long argument)

cdef inline int64_t clock_ns(int clock) noexcept nogil:
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec

cdef inline int64_t monotonic_ns() noexcept nogil:
    return clock_ns(CLOCK_MONOTONIC)

cdef inline int64_t realtime_ns() noexcept nogil:
    return clock_ns(CLOCK_REALTIME)
