# What connections make the server hold besides queues' contents, which have limits of their
# own: messages and documents that are not complete, what arrived and is not read yet, open
# transactions, replies that nobody reads. A counter follows it; nothing is walked for that.

from libc.stdint cimport int64_t, uint32_t

from quiver_fast.loop.heap cimport Heap
from quiver_fast.loop.reactor cimport Hook, Reactor

cdef enum:
    # Its rank is looked at again when so many bytes more or less are held.
    RANK_STEP = 4096

# A connection of either protocol, in which its owner embeds it.
cdef struct Holder:
    # In the heap of those that are read or of those that are not; has to be the first member.
    uint32_t place
    size_t bytes
    # Its bytes when its place was found.
    size_t ranked
    # It is not read.
    bint slowed
    # It was refused; what it still holds goes with it, and counts no more.
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
    # Connections that wait for memory; one of them went on in this turn.
    size_t starving
    bint fed
    # The next one goes on whatever is held.
    bint forced
    # Enough was given back that the system may have it.
    bint freed
    # By bytes, the largest first.
    Heap read
    Heap slowed

# One for all modules.
cdef Account *account

# Why a connection ended.
cdef const char *OVER_LIMIT

cdef void holder_add(Holder *holder, int64_t bytes) noexcept nogil
cdef void holder_end(Holder *holder) noexcept nogil
cdef bint memory_fits(size_t size) noexcept nogil
cdef bint memory_ever_fits(size_t size) noexcept nogil


cdef inline void hold(Holder *holder, size_t *counted, size_t bytes) noexcept nogil:
    """Count a thing that has ``bytes`` now, of which ``counted`` were counted before."""
    if counted[0] != bytes:
        holder_add(holder, <int64_t>(bytes - counted[0]))
        counted[0] = bytes


cdef class MemoryLimit:
    cdef Hook hook
    # Since when too much is held, or the last one was refused (monotonic ns); 0: it is not.
    cdef int64_t since
    # When to give freed memory back to the system (monotonic ns); 0 for nothing to give.
    cdef int64_t trim_at

    cdef int64_t keep(self, int64_t now) noexcept nogil
    cdef int64_t trim(self, int64_t now) noexcept nogil
