from libc.stdint cimport int64_t, uint32_t, uint64_t

from quiver_fast.amqp.data_plane cimport amqp_event, amqp_plane_t
from quiver_fast.arrow.amqp.lines cimport Line, Lines
from quiver_fast.loop.heap cimport Heap
from quiver_fast.records.writer cimport RecordWriter
from quiver_fast.arrow.run.control cimport Control

# One of the ends: a link with a session of its own.
cdef struct End:
    # In the heap of wake times, by `due`; first, as that of a line.
    uint32_t place
    # It has a turn soon.
    bint is_queued
    # It has nothing more to do.
    bint is_over
    int64_t due
    # Which end of its side it is.
    int64_t number
    # Its messages that are in `EndsLoop.transferred`.
    int64_t counted
    # The last round in which it received.
    uint64_t round
    # A Sender or Receiver, to which the loop has a reference.
    void *endpoint
    Line *line
    End *next

cdef class EndsLoop(Lines):
    cdef bint sends
    # Messages are transferred in the turns of the ends.
    cdef bint counts_turns
    # Schedules are kept awake, not asleep.
    cdef bint is_exact
    cdef RecordWriter writer
    # The number of the first end.
    cdef int64_t first_number
    # What the wrapper says; and what the ends are told.
    cdef Control control
    cdef Control inner
    cdef list endpoints
    cdef End *ends
    cdef readonly int end_count
    cdef int end_capacity
    cdef Heap wakes
    # Ends that have a turn, in this order.
    cdef End *first
    cdef End *last
    cdef uint64_t round
    # Ends that are not over.
    cdef readonly int live
    cdef readonly int64_t transferred
    # Messages with which receivers have all, together.
    cdef int64_t goal
    cdef int signals
    cdef int64_t next_flush
    cdef int64_t next_look

    cdef amqp_event take_arrivals(
        self, amqp_plane_t *plane) except? amqp_event.AMQP_NO_MEMORY nogil
    cdef int tell(self, End *end) except -1 nogil
    cdef int queue(self, End *end) noexcept nogil
    cdef int queue_line(self, Line *line) noexcept nogil
    cdef int queue_all(self) noexcept nogil
    cdef int fire(self, int64_t now) except -1 nogil
    cdef int notice(self, int64_t now) except -1 nogil
    cdef int turn_ends(self, int64_t now) except -1 nogil
    cdef int turn_end(self, End *end, int64_t now) except -1 nogil
    cdef int count(self, End *end) noexcept nogil
    cdef int judge_waiting(self, int64_t now) except -1 nogil
    cdef int have_credit(self) noexcept nogil
    cdef int await_credit(self) except -1 nogil
    cdef int await_start(self) except -1 nogil
    cdef int start(self) except -1 nogil
    cdef int loop(self) except -1 nogil
