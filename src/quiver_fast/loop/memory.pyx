"""The mark for the memory of all connections: the largest holders are slowed, then refused.

A large reply waits while it would go beyond the mark. Above the mark the connection that
holds most is not read, and one more for each sixteenth of the mark that comes all the
same: others can finish what they began. If that does not help within some seconds,
whether it is too much or somebody waits, or an eighth more than the mark is held, the
connection that holds most is closed.
"""

from libc.stdint cimport INT64_MAX, int64_t

import sys

from quiver_fast.loop.balance cimport HELD, counted
from quiver_fast.loop.heap cimport heap_first, heap_free, heap_put, heap_take
from quiver_fast.loop.reactor cimport Reactor
from quiver_fast.proton.libsys cimport malloc_trim

# How long those that are slowed may hold what they have (ns).
cdef int64_t PATIENCE = 5000000000
# A connection that holds less than this share of the mark is not slowed.
cdef size_t SMALL_SHARE = 64
# The next connection is slowed when this share of the mark has come on top.
cdef size_t STEP_SHARE = 16
# Given back at once, it goes to the system, when it has had no use for half a second.
cdef int64_t LARGE = 1048576
cdef int64_t TRIM = 500000000

cdef Account ACCOUNT
# One more connection is slowed above this; 0 for the mark.
cdef size_t slow_above = 0
account = &ACCOUNT
OVER_LIMIT = b"the server holds more than memory-limit, and most of it for this connection"


cdef void holder_add(Holder *holder, int64_t bytes) noexcept nogil:
    """Count bytes that a connection makes the server hold, or that it gives back."""
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
    """Give a holder its place by what it holds now. Without memory it has none."""
    cdef Heap *heap = &account.slowed if holder.slowed else &account.read
    heap_take(heap, &holder.place)
    holder.ranked = holder.bytes
    if holder.bytes:
        heap_put(heap, -<int64_t>holder.bytes, &holder.place)


cdef void holder_end(Holder *holder) noexcept nogil:
    """Forget a holder that has given everything back."""
    heap_take(&account.slowed if holder.slowed else &account.read, &holder.place)


cdef bint memory_fits(size_t size) noexcept nogil:
    """Say whether so much more may be held. What is small may go a little beyond the mark."""
    cdef size_t most = account.limit
    if account.forced:
        account.forced = False
        return True
    if size <= account.limit // SMALL_SHARE:
        most += account.limit // STEP_SHARE
    return account.limit == 0 or account.held + size <= most


cdef bint memory_ever_fits(size_t size) noexcept nogil:
    """Say whether so much may be held if there is nothing else."""
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
    """End a connection; what it holds is as good as given back."""
    cdef size_t bytes = holder.bytes
    with gil:
        sys.stderr.write(
            f"quiver-server-pyfast: memory-limit: a connection that held {bytes:,} bytes of "
            f"{account.held:,} was closed\n")
    holder_add(holder, -<int64_t>bytes)
    holder.refused = True
    holder.refuse(holder)


cdef Holder *largest() noexcept nogil:
    """Return who holds most; NULL if nobody holds anything."""
    if heap_first(&account.read) < heap_first(&account.slowed):
        return first_of(&account.read)
    return first_of(&account.slowed)


cdef void slow_largest() noexcept nogil:
    """Do not read the connection that holds most of those that are read."""
    global slow_above
    slow_above = account.held + account.limit // STEP_SHARE
    if -heap_first(&account.read) >= <int64_t>(account.limit // SMALL_SHARE):
        set_slowed(first_of(&account.read), True)


cdef bint read_again() noexcept nogil:
    """Have all connections read that were not; return whether there were any."""
    global slow_above
    cdef bint any = account.slowed.count > 0
    slow_above = 0
    while account.slowed.count:
        set_slowed(first_of(&account.slowed), False)
    return any


cdef int64_t on_turn(void *owner, int64_t now) noexcept nogil:
    return min((<MemoryLimit>owner).keep(now), (<MemoryLimit>owner).trim(now))


cdef class MemoryLimit:
    """The hook that keeps the mark at the end of every turn.

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
        """Free what was needed to keep the mark; no connection may be left."""
        heap_free(&account.read)
        heap_free(&account.slowed)

    cdef int64_t keep(self, int64_t now) noexcept nogil:
        """Slow or refuse who holds most; return when that has to be looked at again."""
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
            # Very many hold a little each: nobody is to blame.
            account.forced = True
        else:
            refuse(largest())
        return now

    cdef int64_t trim(self, int64_t now) noexcept nogil:
        """Give freed memory back to the system; return when that is due."""
        if account.freed:
            account.freed = False
            self.trim_at = self.trim_at or now + TRIM
        if self.trim_at and self.trim_at <= now:
            self.trim_at = 0
            malloc_trim(0)
        return self.trim_at or INT64_MAX
