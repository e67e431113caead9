# Memory that the server holds for connections outside queues, which have their own limits:
# incomplete messages and documents, unread bytes, open transactions, unread replies. Counters
# follow it; nothing is walked.

from libc.stdint cimport int64_t, uint32_t

from quiver_fast.loop.heap cimport Heap
from quiver_fast.loop.reactor cimport Hook, Reactor

cdef enum:
    # A holder's place is computed again when it holds so many bytes more or less.
    RANK_STEP = 4096

# A connection of either protocol; its owner embeds it.
cdef struct Holder:
    # In the heap of read or of unread connections; has to be the first member.
    uint32_t place
    size_t bytes
    # Its bytes when its place was computed.
    size_t ranked
    # The server does not read it.
    bint slowed
    # It was refused; its bytes will be freed with it, and no longer count.
    bint refused
    void *owner
    # Read the connection again, or do not.
    void (*slow)(Holder *holder) noexcept nogil
    # End the connection.
    void (*refuse)(Holder *holder) noexcept nogil

# All holders of the process.
cdef struct Account:
    size_t limit
    size_t held
    # Disk space of the files of streams that wait; no more than the limit.
    size_t spilled
    # Connections that wait for memory; and whether one of them went on in this turn.
    size_t starving
    bint fed
    # The next one may go on in any case.
    bint forced
    # Enough was freed to return it to the system.
    bint freed
    # By bytes, the largest first.
    Heap read
    Heap slowed

# One for all modules.
cdef Account *account

# The reason for the end of a connection.
cdef const char *OVER_LIMIT

cdef void holder_add(Holder *holder, int64_t bytes) noexcept nogil
cdef void holder_end(Holder *holder) noexcept nogil
cdef bint memory_fits(size_t size) noexcept nogil
cdef bint memory_ever_fits(size_t size) noexcept nogil


cdef inline void hold(Holder *holder, size_t *counted, size_t bytes) noexcept nogil:
    """Count a thing that has ``bytes`` now and had ``counted`` before."""
    if counted[0] != bytes:
        holder_add(holder, <int64_t>(bytes - counted[0]))
        counted[0] = bytes


cdef class MemoryLimit:
    cdef Hook hook
    # When too much began to be held, or the last refusal (monotonic ns); 0: neither.
    cdef int64_t since
    # When to return freed memory to the system (monotonic ns); 0 for never.
    cdef int64_t trim_at

    cdef int64_t keep(self, int64_t now) noexcept nogil
    cdef int64_t trim(self, int64_t now) noexcept nogil
