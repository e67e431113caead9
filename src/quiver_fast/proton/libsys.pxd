# System calls of the event loops. Linux.

from libc.stdint cimport int64_t, uint32_t
from posix.time cimport clock_gettime, timespec, CLOCK_MONOTONIC, CLOCK_REALTIME

cdef extern from "<time.h>" nogil:
    # The time of the system's last tick: some ms old, at a tenth of the cost.
    const int CLOCK_REALTIME_COARSE

cdef extern from * nogil:
    # Fetch memory into the processor's caches; any address will do.
    void prefetch "__builtin_prefetch"(const void *address)

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
    const int SOCK_NONBLOCK
    const int SOCK_CLOEXEC
    const int SOL_SOCKET
    const int SO_KEEPALIVE
    const int SHUT_WR
    int shutdown(int fd, int how)
    int accept4(int fd, void *address, void *size, int flags)
    int setsockopt(int fd, int level, int option, const void *value, unsigned size)
    ssize_t recv(int fd, void *buffer, size_t size, int flags)
    ssize_t send(int fd, const void *buffer, size_t size, int flags)
    const int AF_INET
    const int AF_INET6
    const int AF_UNIX
    ctypedef unsigned int socklen_t
    struct sockaddr:
        pass
    struct sockaddr_storage:
        unsigned short ss_family
    int getpeername(int fd, sockaddr *address, socklen_t *size)

cdef extern from "<netinet/in.h>" nogil:
    const int IPPROTO_TCP
    struct in_addr:
        pass
    struct sockaddr_in:
        in_addr sin_addr
    struct in6_addr:
        pass
    struct sockaddr_in6:
        in6_addr sin6_addr

cdef extern from "<netinet/tcp.h>" nogil:
    const int TCP_NODELAY
    const int TCP_KEEPIDLE
    const int TCP_KEEPINTVL
    const int TCP_KEEPCNT

cdef extern from "<malloc.h>" nogil:
    int malloc_trim(size_t pad)

cdef extern from "<sys/mman.h>" nogil:
    const int MADV_DONTNEED
    int madvise(void *start, size_t size, int advice)

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

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        void *ptr
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    const int EPOLL_CLOEXEC
    const int EPOLL_CTL_ADD
    const int EPOLL_CTL_DEL
    const int EPOLL_CTL_MOD
    const uint32_t EPOLLIN
    const uint32_t EPOLLOUT
    const uint32_t EPOLLERR
    const uint32_t EPOLLHUP
    int epoll_create1(int flags)
    int epoll_ctl(int epoll, int operation, int fd, epoll_event *event)
    int epoll_wait(int epoll, epoll_event *events, int count, int timeout)
