from libc.stdint cimport int64_t, uint8_t, uint32_t

from quiver_fast.amqp.data_plane cimport amqp_input_t
from quiver_fast.arrow.amqp.connection cimport Connection
from quiver_fast.loop.heap cimport Heap
from quiver_fast.loop.reactor cimport Watch

# The loop's list of ready lines, which the callback of epoll fills.
cdef struct Shared:
    Line *ready

# One of the connections.
cdef struct Line:
    # Its place in the heap of idle time-outs, by `due`. The first field: the heap has its address.
    uint32_t place
    # It is in the list of lines to read, and in that of lines to write.
    bint is_ready
    bint is_touched
    # The socket has room again after it was full.
    bint has_room
    # epoll reports when the socket has room.
    bint awaits_room
    int64_t due
    Watch watch
    # A Connection, to which the loop has a reference.
    void *connection
    Shared *shared
    # Its ends, and the one that has the first turn when there is room; it changes each time.
    void *ends
    int count
    int first
    Line *next_ready
    Line *next_touched

cdef class Lines:
    cdef int epoll
    cdef list connections
    cdef Shared shared
    cdef Line *lines
    cdef readonly int line_count
    cdef int line_capacity
    cdef Heap ticks
    cdef Line *touched
    # The buffers that lines borrow to be read, and to be written.
    cdef amqp_input_t input
    cdef uint8_t *output
    cdef size_t output_capacity

    cdef Line *add_line(self, Connection connection) except NULL
    cdef int watch_line(self, Line *line, Connection connection) except -1
    cdef int take_events(self, Line *line) except -1 nogil
    cdef int line_changed(self, Line *line) except -1 nogil
    cdef bint writes_soon(self, Line *line) noexcept nogil
    cdef int sleep(self, int64_t until) noexcept nogil
    cdef int gather(self) noexcept nogil
    cdef int serve_lines(self) except -1 nogil
    cdef int read_line(self, Line *line) except -1 nogil
    cdef int lend_input(self, Line *line) noexcept nogil
    cdef int lend_output(self, Line *line) noexcept nogil
    cdef int return_input(self, Line *line) noexcept nogil
    cdef int return_output(self, Line *line) noexcept nogil
    cdef int touch(self, Line *line) noexcept nogil
    cdef int write_lines(self) except -1 nogil
    cdef int write_line(self, Line *line) except -1 nogil
    cdef bint is_busy(self) noexcept nogil
    cdef int keep_time_outs(self, int64_t now) except -1 nogil
    cdef int exchange(self, int64_t until) except -1 nogil
    cdef int close_lines(self, bint ended) except -1
    cdef int await_closes(self, bint sessions) except -1 nogil
    cdef bint is_done(self, Line *line, bint sessions) noexcept nogil

cdef int no_memory() except -1 nogil
cdef void make_ready(Line *line) noexcept nogil
