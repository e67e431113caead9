from libc.stdint cimport int64_t, uint32_t

# A descriptor in the loop. Its owner embeds it and finds itself through `owner`.
cdef struct Watch:
    int fd
    void *owner
    # Called with the events of the descriptor: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP.
    void (*ready)(Watch *watch, uint32_t events) noexcept nogil

# A call at the end of every turn. It returns the latest time of its next call, even if
# nothing becomes ready (monotonic ns); INT64_MAX for no limit.
cdef struct Hook:
    void *owner
    int64_t (*turn)(void *owner, int64_t now) noexcept nogil
    Hook *next

cdef class Reactor:
    cdef int epoll
    cdef Hook *hooks
    cdef bint stopping
    # The clock as of this turn's beginning (monotonic ns): one read serves all.
    cdef int64_t now
    # Number of users of the clock in ms.
    cdef int64_t *now_ms

    cdef void add_hook(self, Hook *hook) noexcept nogil
    cdef void stop(self) noexcept nogil
    cdef int turn(self, int64_t wait_until) except -1 nogil
    cdef int64_t round(self) noexcept nogil

cdef int watch_add(int epoll, Watch *watch, uint32_t events) noexcept nogil
cdef void watch_change(int epoll, Watch *watch, uint32_t events) noexcept nogil
cdef void watch_remove(int epoll, Watch *watch) noexcept nogil
