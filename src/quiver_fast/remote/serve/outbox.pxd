from libc.stdint cimport int64_t

from quiver_fast.remote.serve.store cimport Store
from quiver_fast.remote.wire.buffer cimport Buffer
from quiver_fast.remote.wire.wire cimport Tid

# A reply that waits for a durable entry, or follows one that waits: `size` bytes of `held`.
cdef struct Held:
    void *queue         # NULL: ready as soon as it is the first
    int64_t index
    Tid tid
    size_t size

# Whether a reply may be made: now, when other connections have freed memory, or never.
cdef enum Room:
    ROOM
    ROOM_LATER
    ROOM_NEVER

cdef class Outbox:
    cdef Store store
    cdef Buffer output
    cdef Buffer held            # bytes of waiting replies
    cdef Buffer marks           # of Held
    cdef size_t held_size       # the part of `held` that has marks
    # In the store's list of sessions with waiting replies.
    cdef bint holding
    cdef void *next_holding
    cdef bint relieved          # marks were removed, perhaps without output: check for room
    cdef bint loss_reported     # of a submit without a tid, which ends the connection
    cdef readonly bint broken   # no memory for a reply: the connection must end

    cdef bint is_full(self) noexcept nogil
    cdef Buffer *replies(self) noexcept nogil
    cdef void replied(self, bint done) noexcept nogil
    cdef void hold(self, void *queue, int64_t index, const Tid *tid) noexcept nogil
    cdef void release_held(self) noexcept nogil
    cdef bint release_submit(self, const Held *held) noexcept nogil
    cdef void report_loss(self, const Tid *tid) noexcept nogil
    cdef void take_no_more(self) noexcept nogil
    cdef void output_ready(self) noexcept nogil
    cdef Room room_for(self, size_t size) noexcept nogil
    cdef void free_replies(self) noexcept nogil
