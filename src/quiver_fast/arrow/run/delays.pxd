from libc.stdint cimport int64_t

# Why a message goes late: its sender waited for something of the peer, or was late itself.
cdef enum Cause:
    ITSELF = 0
    CREDIT = 1
    SOCKET = 2
    OUTCOMES = 3
    CAUSES = 4

cdef enum:
    # Bounds the memory of a sender that waits often while messages are due.
    KNOTS = 128
    # The most steps of a run that are told apart.
    ROWS = 2048
    # A sender that waits looks up so often, in nanoseconds: a longer sleep is its own.
    GLANCE = 50000000
    # It may wake so late.
    SLACK = 2000000


cdef struct Knot:
    int64_t time
    # How long was waited until then, by cause.
    int64_t[4] waited


cdef class DelayHistogram:
    cdef int64_t[2048] counts
    cdef readonly int64_t total
    cdef readonly int64_t largest

    cdef void add(self, int64_t delay) noexcept nogil


cdef class Waits:
    cdef Knot[128] knots
    # The first knot that a message may need.
    cdef int first
    cdef int count
    # The end of the last wait.
    cdef int64_t newest
    # The wait that goes on, and its begin; ITSELF is none.
    cdef Cause cause
    cdef int64_t since

    cdef void become(self, Cause cause, int64_t now) noexcept nogil
    cdef void add(self, Cause cause, int64_t begin, int64_t end) noexcept nogil
    cdef void be_away(self, int64_t since, int64_t now) noexcept nogil
    cdef Knot *put_knot(self, int64_t time) noexcept nogil
    cdef void make_room(self) noexcept nogil
    cdef void divide(self, int64_t due, int64_t *parts) noexcept nogil


# What happened in a step of the run: messages that went, and their largest delays.
cdef struct Row:
    int64_t sent
    # Of messages that waited for nothing.
    int64_t alone
    # Of the others, and the parts of these by cause.
    int64_t whole
    int64_t[4] parts


cdef class Delays:
    # The steps of the run, the present one and its end (nanoseconds after the start).
    cdef Row *rows
    cdef int row
    cdef int64_t row_end
    cdef int64_t step
    # Of messages that waited for nothing.
    cdef DelayHistogram alone
    # Of the others, and the parts of these.
    cdef DelayHistogram whole
    cdef DelayHistogram own
    cdef DelayHistogram credit
    cdef DelayHistogram socket
    cdef DelayHistogram outcomes

    cdef void add(self, int64_t delay, int64_t elapsed) noexcept nogil
    cdef void add_divided(
        self, Waits waits, int64_t due, int64_t now, int64_t elapsed) noexcept nogil
    cdef Row *row_at(self, int64_t elapsed) noexcept nogil
    cdef void halve_rows(self) noexcept nogil
