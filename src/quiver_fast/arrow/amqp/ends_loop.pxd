from libc.stdint cimport int64_t, uint32_t, uint64_t

from quiver_fast.amqp.data_plane cimport amqp_event, amqp_plane_t
from quiver_fast.arrow.amqp.lines cimport Line, Lines
from quiver_fast.arrow.run.control cimport Control
from quiver_fast.arrow.run.course cimport Course
from quiver_fast.loop.heap cimport Heap
from quiver_fast.records.writer cimport RecordWriter

# One of the ends: a link with a session of its own.
cdef struct End:
    # Its place in the heap of wake times, by `due`; the first field, as that of a line.
    uint32_t place
    # It is in the queue for a turn.
    bint is_queued
    # Its run is over, or its line is away.
    bint is_over
    bint is_away
    int64_t due
    # Its number among all ends of its side.
    int64_t number
    # Its messages that `EndsLoop.transferred` counts.
    int64_t counted
    # The last round in which it received messages.
    uint64_t round
    # A Sender or Receiver, to which the loop has a reference.
    void *endpoint
    Line *line
    End *next


cdef class EndsLoop(Lines):
    cdef bint sends
    # Ends transfer in their turns too, not only at events.
    cdef bint counts_turns
    # Spin until a message is due, instead of sleeping.
    cdef bint is_exact
    cdef RecordWriter writer
    # The number of the first end.
    cdef int64_t first_number
    # Of all ends: it flushes their records, and reads the control socket.
    cdef Course course
    # The control that the ends see.
    cdef Control inner
    cdef list endpoints
    cdef End *ends
    cdef readonly int end_count
    cdef int end_capacity
    cdef Heap wakes
    # The queue of ends for turns.
    cdef End *first
    cdef End *last
    cdef uint64_t round
    # Ends that are not over.
    cdef readonly int live
    cdef readonly int64_t transferred
    # Messages that end the run of all receivers together.
    cdef int64_t goal
    cdef int signals

    cdef amqp_event take_arrivals(self, amqp_plane_t *plane) except? amqp_event.AMQP_NO_MEMORY nogil
    cdef int mark_records(self, End *end) except -1 nogil
    cdef int queue(self, End *end) noexcept nogil
    cdef int queue_line(self, Line *line) noexcept nogil
    cdef int queue_all(self) noexcept nogil
    cdef int fire(self, int64_t now) except -1 nogil
    cdef int notice(self, int64_t now) except -1 nogil
    cdef int turn_ends(self, int64_t now) except -1 nogil
    cdef int turn_end(self, End *end, int64_t now) except -1 nogil
    cdef int count(self, End *end) noexcept nogil
    cdef int judge_waiting(self, int64_t now) except -1 nogil
    cdef int begin(self) except -1 nogil
    cdef int have_credit(self) noexcept nogil
    cdef int await_credit(self) except -1 nogil
    cdef int await_start(self) except -1 nogil
    cdef int start(self) except -1 nogil
    cdef int loop(self) except -1 nogil
