# The targets of cids: appenders, and tailers with their waiting requests.

from libc.stdint cimport int64_t

from quiver_fast.remote.serve.readers cimport Cursor
from quiver_fast.remote.wire.wire cimport Tid

cdef enum TargetKind:
    APPENDER
    TAILER

# A hasNext that waits for its turn, or for an entry.
cdef struct Wait:
    Wait *next
    Tid tid
    bint has_index
    int64_t index
    int64_t batch
    int64_t deadline        # monotonic ns

cdef struct Target:
    TargetKind kind
    int64_t cid             # 0: addressed by csp alone
    void *queue             # store.Queue, which the store keeps alive
    void *session           # session.Session, its owner
    int64_t last_index      # appender: the last index written, or -1
    int64_t position        # tailer: the next index
    Cursor cursor           # tailer: its place in the files
    Wait *first             # tailer: waiting requests, in order of arrival
    Wait *last
    # Neighbours among the targets with waits, of the queue and of the session.
    Target *queue_next
    Target *queue_previous
    Target *session_next
    Target *session_previous
    bint listed
    int slot                # in the timers' heap, or -1

# Targets by the deadline of their first wait: a binary heap.
cdef struct Timers:
    Target **heap
    int count
    int capacity

# The live cids of a connection, ascending, because cids are.
cdef struct Targets:
    Target **items
    int count
    int capacity

cdef Target *new_target(
    TargetKind kind, int64_t cid, void *queue, void *session) noexcept nogil
cdef void free_target(Target *target) noexcept nogil
cdef bint add_wait(Target *target, const Wait *wait) noexcept nogil
cdef void pop_wait(Target *target) noexcept nogil

cdef bint set_timer(Timers *timers, Target *target) noexcept nogil
cdef void clear_timer(Timers *timers, Target *target) noexcept nogil

cdef bint add_target(Targets *targets, Target *target) noexcept nogil
cdef Target *find_target(const Targets *targets, int64_t cid) noexcept nogil
cdef void remove_target(Targets *targets, Target *target) noexcept nogil
