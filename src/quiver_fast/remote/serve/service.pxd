from libc.stdint cimport int64_t, uint32_t

from quiver_fast.loop.memory cimport Holder
from quiver_fast.loop.reactor cimport Hook, Reactor, Watch
from quiver_fast.remote.serve.outbox cimport Room
from quiver_fast.remote.serve.session cimport Session
from quiver_fast.remote.serve.store cimport Store

# A connection: its session and its socket.
cdef class Peer(Session):
    cdef Watch watch
    cdef Holder holder
    cdef uint32_t events        # that the loop waits for
    cdef void *service          # Service, which owns this
    cdef bint cut               # the socket failed, or both sides closed it
    # Everything is sent; the peer's last bytes are dropped until it closes too.
    cdef bint lingering
    cdef int64_t linger_until
    # In the service's list of peers with output, or at their end.
    cdef bint dirty
    cdef void *next_dirty
    # All peers; and those that linger, by age.
    cdef void *previous
    cdef void *next
    cdef void *older
    cdef void *younger
    # In the service's list of peers that wait for memory, and the amount.
    cdef bint starving
    cdef size_t wanted
    cdef void *previous_starving
    cdef void *next_starving

    cdef void read(self, char *scratch, int64_t now) noexcept nogil
    cdef bint may_read(self) noexcept nogil
    cdef void count_held(self) noexcept nogil
    cdef bint send_some(self) noexcept nogil
    cdef void linger(self, int64_t now) noexcept nogil
    cdef void wait_for_events(self, int epoll) noexcept nogil

# A listening socket.
cdef class Door:
    cdef Watch watch
    cdef object sock
    cdef void *service
    cdef int64_t closed_until   # without descriptors: does not accept until then; 0: open

cdef class Service:
    cdef readonly Reactor reactor
    cdef readonly Store store
    cdef Hook hook
    cdef char *scratch
    cdef list doors
    cdef int paused             # number of doors that do not accept now
    cdef void *peers
    cdef readonly int count     # connections
    cdef int max_connections
    cdef int idle_seconds
    cdef void *dirty
    cdef void *oldest
    cdef void *youngest
    # The sessions that wait for memory, in order.
    cdef void *starving
    cdef void *last_starving

    cdef int64_t turn(self, int64_t now) noexcept nogil
    cdef void settle_dirty(self, int64_t now) noexcept nogil
    cdef void settle(self, void *peer, int64_t now) noexcept nogil
    cdef void start_lingering(self, void *peer, int64_t now) noexcept nogil
    cdef void end_lingering(self, int64_t now) noexcept nogil
    cdef void starve(self, void *peer, size_t wanted) noexcept nogil
    cdef void feed_starving(self, int64_t now) noexcept nogil
    cdef void unlink_starving(self, void *peer) noexcept nogil
    cdef int64_t reopen_doors(self, int64_t now) noexcept nogil
    cdef int64_t reopen(self, int64_t now) noexcept
    cdef int add_peer(self, int fd) noexcept
    cdef void bury(self, void *peer) noexcept nogil
    cdef void unlink(self, void *peer) noexcept nogil
    cdef void unlink_lingering(self, void *peer) noexcept nogil
