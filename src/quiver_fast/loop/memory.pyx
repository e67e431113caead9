"""The limit for the memory of all connections: the largest holders are slowed, then refused.

A large reply waits while it would exceed the limit. Above the limit the server does not read
the connection that holds most, and one more for each further sixteenth of the limit: the
others can complete their messages. If slowing or waiting has not ended within some seconds,
or an eighth more than the limit is held, the connection that holds most is closed.
"""

from libc.stdint cimport INT64_MAX, int64_t

import sys

from quiver_fast.loop.balance cimport HELD, counted
from quiver_fast.loop.heap cimport heap_first, heap_free, heap_put, heap_take
from quiver_fast.loop.reactor cimport Reactor
from quiver_fast.proton.libsys cimport malloc_trim

# How long slowed connections may hold their memory (ns).
cdef int64_t PATIENCE = 5000000000
# A connection that holds less than this share of the limit is not slowed.
cdef size_t SMALL_SHARE = 64
# The next connection is slowed after this further share of the limit.
cdef size_t STEP_SHARE = 16
# So many freed bytes at once go to the system, when they were unused for half a second.
cdef int64_t LARGE = 1048576
cdef int64_t TRIM = 500000000

cdef Account ACCOUNT
# One more connection is slowed above this; 0 for the limit itself.
cdef size_t slow_above = 0
account = &ACCOUNT
OVER_LIMIT = b"the server holds more than memory-limit, and most of it for this connection"


cdef void holder_add(Holder *holder, int64_t bytes) noexcept nogil:
    """Count bytes that the server holds for a connection, or frees."""
    cdef size_t change
    if holder.refused:
        return
    holder.bytes += bytes
    account.held += bytes
    counted(HELD, bytes)
    if bytes <= -LARGE:
        account.freed = True
    change = (
        holder.bytes - holder.ranked if holder.bytes > holder.ranked
        else holder.ranked - holder.bytes)
    if change >= RANK_STEP or holder.bytes == 0 and holder.ranked:
        rank(holder)


cdef void rank(Holder *holder) noexcept nogil:
    """Set a holder's place by its present bytes. Without memory it has none."""
    cdef Heap *heap = &account.slowed if holder.slowed else &account.read
    heap_take(heap, &holder.place)
    holder.ranked = holder.bytes
    if holder.bytes:
        heap_put(heap, -<int64_t>holder.bytes, &holder.place)


cdef void holder_end(Holder *holder) noexcept nogil:
    """Forget a holder without bytes."""
    heap_take(&account.slowed if holder.slowed else &account.read, &holder.place)


cdef bint memory_fits(size_t size) noexcept nogil:
    """Say whether so much more may be held. A small amount may slightly exceed the limit."""
    cdef size_t most = account.limit
    if account.forced:
        account.forced = False
        return True
    if size <= account.limit // SMALL_SHARE:
        most += account.limit // STEP_SHARE
    return account.limit == 0 or account.held + size <= most


cdef bint memory_ever_fits(size_t size) noexcept nogil:
    """Say whether so much may be held alone."""
    return account.limit == 0 or size <= account.limit


cdef inline Holder *first_of(const Heap *heap) noexcept nogil:
    # The place is a holder's first member.
    return <Holder *>heap.slots[0].place if heap.count else NULL


cdef void set_slowed(Holder *holder, bint slowed) noexcept nogil:
    holder_end(holder)
    holder.slowed = slowed
    rank(holder)
    holder.slow(holder)


cdef void refuse(Holder *holder) noexcept nogil:
    """End a connection; its bytes count as freed."""
    cdef size_t bytes = holder.bytes
    with gil:
        sys.stderr.write(
            f"quiver-server-pyfast: memory-limit: a connection that held {bytes:,} bytes of "
            f"{account.held:,} was closed\n")
    holder_add(holder, -<int64_t>bytes)
    holder.refused = True
    holder.refuse(holder)


cdef Holder *largest() noexcept nogil:
    """Return the connection that holds most; NULL if none holds anything."""
    if heap_first(&account.read) < heap_first(&account.slowed):
        return first_of(&account.read)
    return first_of(&account.slowed)


cdef void slow_largest() noexcept nogil:
    """Stop reading the connection that holds most among those that are read."""
    global slow_above
    slow_above = account.held + account.limit // STEP_SHARE
    if -heap_first(&account.read) >= <int64_t>(account.limit // SMALL_SHARE):
        set_slowed(first_of(&account.read), True)


cdef bint read_again() noexcept nogil:
    """Read all slowed connections again; return whether there were any."""
    global slow_above
    cdef bint any = account.slowed.count > 0
    slow_above = 0
    while account.slowed.count:
        set_slowed(first_of(&account.slowed), False)
    return any


cdef int64_t on_turn(void *owner, int64_t now) noexcept nogil:
    return min((<MemoryLimit>owner).keep(now), (<MemoryLimit>owner).trim(now))


cdef class MemoryLimit:
    """The hook that keeps the limit at the end of every turn.

    Args:
        reactor: the loop, whose other hooks come after this one's.
        limit: bytes that all connections together may hold.
    """

    def __init__(self, reactor: Reactor, limit: int) -> None:
        account.limit = limit
        self.hook.owner = <void *>self
        self.hook.turn = on_turn
        reactor.add_hook(&self.hook)

    def close(self) -> None:
        """Free the heaps; no connection may be left."""
        heap_free(&account.read)
        heap_free(&account.slowed)

    cdef int64_t keep(self, int64_t now) noexcept nogil:
        """Slow or refuse the largest holders; return when to check again."""
        cdef bint again = False
        if account.fed or account.starving == 0 and account.held <= account.limit:
            account.fed = False
            self.since = 0
        if account.held <= account.limit:
            again = read_again()
            if account.starving == 0:
                return now if again else INT64_MAX
        elif account.held > slow_above:
            slow_largest()
        if self.since == 0:
            self.since = now
        if largest() == NULL or now - self.since < PATIENCE and (
                account.held <= account.limit + account.limit // 8):
            return now if again else self.since + PATIENCE
        self.since = now
        if account.held <= account.limit and largest().bytes < account.limit // SMALL_SHARE:
            # Very many connections hold a little each: refuse none.
            account.forced = True
        else:
            refuse(largest())
        return now

    cdef int64_t trim(self, int64_t now) noexcept nogil:
        """Return freed memory to the system; return when that is due."""
        if account.freed:
            account.freed = False
            self.trim_at = self.trim_at or now + TRIM
        if self.trim_at and self.trim_at <= now:
            self.trim_at = 0
            malloc_trim(0)
        return self.trim_at or INT64_MAX
