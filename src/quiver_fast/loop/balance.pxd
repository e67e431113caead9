# The number of live objects of each kind: made and not freed.

from libc.stdint cimport int64_t

cdef enum Kind:
    MESSAGE
    ENTRY
    STREAM
    LINK
    CONNECTION
    # An entry that a consumer has and has not settled.
    DELIVERY
    # An appender or tailer of a csp connection.
    TARGET
    # Bytes that connections hold.
    HELD
    KINDS

# One for all modules.
cdef int64_t *counts

cdef extern from "balance.h" nogil:
    void quiver_count(int64_t *counts, Kind kind, int64_t by)


cdef inline void made(Kind kind) noexcept nogil:
    quiver_count(counts, kind, 1)


cdef inline void counted(Kind kind, int64_t by) noexcept nogil:
    quiver_count(counts, kind, by)


cdef inline void freed(Kind kind) noexcept nogil:
    quiver_count(counts, kind, -1)
