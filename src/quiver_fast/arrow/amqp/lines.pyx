"""Many connections in one loop: it reads the ready ones and writes those with output.

A *line* is a connection in this loop. An idle line takes no time and has no buffers: lines that
are read or written borrow the buffers of the loop.
"""

from libc.errno cimport errno
from libc.stdint cimport INT64_MAX, int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from posix.unistd cimport close

import os

from quiver_fast.amqp.data_plane cimport amqp_output_waiting, amqp_plane_t
from quiver_fast.amqp.tls cimport tls_close
from quiver_fast.arrow.amqp.connection cimport Connection
from quiver_fast.errors import PeerError
from quiver_fast.loop.heap cimport heap_first, heap_free, heap_put, heap_take
from quiver_fast.loop.interrupt cimport pending_count
from quiver_fast.loop.reactor cimport Watch, watch_add, watch_change, watch_remove
from quiver_fast.proton.libproton cimport (
    PN_LOCAL_CLOSED, PN_REMOTE_ACTIVE, PN_REMOTE_CLOSED, pn_connection_close,
    pn_connection_state, pn_session_close, pn_session_head, pn_session_next, pn_session_t,
)
from quiver_fast.proton.libsys cimport (
    EPOLL_CLOEXEC, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll_create1, epoll_event, epoll_wait,
    monotonic_ns,
)

cdef enum:
    # Descriptors of one epoll_wait; the next one returns the others first.
    BATCH = 256

cdef int64_t SECOND = 1000000000
# How long a peer may take to answer a close.
cdef int64_t CLOSE_TIMEOUT = 2 * SECOND


cdef int no_memory() except -1 nogil:
    with gil:
        raise MemoryError("no memory for what is due")


cdef void line_ready(Watch *watch, uint32_t events) noexcept nogil:
    """Take an event of epoll: the line is read and written after all events were taken."""
    cdef Line *line = <Line *>watch.owner
    if events & (EPOLLOUT | EPOLLERR | EPOLLHUP):
        line.has_room = True
    make_ready(line)


cdef void make_ready(Line *line) noexcept nogil:
    if not line.is_ready:
        line.is_ready = True
        line.next_ready = line.shared.ready
        line.shared.ready = line


cdef class Lines:
    """The loop over connections. A subclass takes their events.

    Args:
        connections: number of connections.

    Raises:
        MemoryError, OSError: the system has no room for them.
    """

    def __cinit__(self, *arguments: object, **options: object) -> None:
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll < 0:
            raise OSError(errno, f"epoll: {os.strerror(errno)}")

    def __init__(self, int connections) -> None:
        self.connections = []
        self.line_capacity = connections
        self.lines = <Line *>calloc(connections, sizeof(Line))
        if self.lines == NULL:
            raise MemoryError(f"no memory for {connections} connections")

    def __dealloc__(self) -> None:
        if self.epoll >= 0:
            close(self.epoll)
        heap_free(&self.ticks)
        free(self.lines)
        free(self.input.buffer)
        free(self.output)

    def fileno(self) -> int:
        """Return a descriptor that is readable while a connection is ready."""
        return self.epoll

    cdef Line *add_line(self, Connection connection) except NULL:
        """Take over an open connection.

        Raises PeerError if the system cannot watch its socket.
        """
        cdef Line *line = &self.lines[self.line_count]
        line.shared = &self.shared
        line.watch.owner = line
        line.watch.ready = line_ready
        self.watch_line(line, connection)
        self.connections.append(connection)
        self.line_count += 1
        return line

    cdef int watch_line(self, Line *line, Connection connection) except -1:
        """Read and write a line's connection from now on."""
        line.connection = <void *>connection
        line.watch.fd = connection.fd
        line.has_room = line.awaits_room = False
        if watch_add(self.epoll, &line.watch, EPOLLIN) != 0:
            raise PeerError(f"{connection.peer}: cannot be watched: {os.strerror(errno)}")
        self.return_input(line)
        self.return_output(line)
        # epoll reports nothing that was read before.
        make_ready(line)
        return 0

    # ---- hooks of subclasses ---------------------------------------------------------

    cdef int take_events(self, Line *line) except -1 nogil:
        """Take the events of all bytes that were read from a line."""
        return 0

    cdef int line_changed(self, Line *line) except -1 nogil:
        """Note that a line was cut, or that its socket has room again."""
        return 0

    cdef bint writes_soon(self, Line *line) noexcept nogil:
        """Say whether this round writes a line without `touch`."""
        return False

    cdef int sleep(self, int64_t until) noexcept nogil:
        """Wait for lines until ``until`` (monotonic ns), or until the subclass has work."""
        return 0

    # ---- reading ---------------------------------------------------------------------

    cdef int gather(self) noexcept nogil:
        """Find the lines that are ready, without waiting."""
        cdef epoll_event[BATCH] events
        cdef Watch *watch
        cdef int count = epoll_wait(self.epoll, events, BATCH, 0)
        cdef int i
        for i in range(count):
            watch = <Watch *>events[i].data.ptr
            watch.ready(watch, events[i].events)
        return 0

    cdef int serve_lines(self) except -1 nogil:
        """Read once from each line that is ready, and take its events."""
        self.gather()
        cdef Line *line = self.shared.ready
        cdef Line *following
        self.shared.ready = NULL
        while line != NULL:
            following = line.next_ready
            line.is_ready = False
            self.read_line(line)
            line = following
        return 0

    cdef int read_line(self, Line *line) except -1 nogil:
        cdef int got
        if line.has_room:
            line.has_room = False
            (<Connection>line.connection).write()
            if not (<Connection>line.connection).blocked:
                self.line_changed(line)
        self.lend_input(line)
        got = (<Connection>line.connection).read()
        self.take_events(line)
        # At once, so that the next line can use the buffer.
        self.return_input(line)
        (<Connection>line.connection).tick()
        if (<Connection>line.connection).cut:
            self.line_changed(line)
            # epoll would report a socket at its end for ever.
            watch_remove(self.epoll, &line.watch)
        elif got and (<Connection>line.connection).tls != NULL:
            # epoll does not report bytes within TLS.
            make_ready(line)
        return 0 if self.writes_soon(line) else self.touch(line)

    cdef int lend_input(self, Line *line) noexcept nogil:
        cdef amqp_plane_t *plane = &(<Connection>line.connection).plane
        if plane.input.buffer == NULL:
            plane.input = self.input
            memset(&self.input, 0, sizeof(self.input))
        return 0

    cdef int lend_output(self, Line *line) noexcept nogil:
        cdef amqp_plane_t *plane = &(<Connection>line.connection).plane
        if plane.output.buffer == NULL:
            plane.output.buffer = self.output
            plane.output.capacity = self.output_capacity
            self.output = NULL
            self.output_capacity = 0
        return 0

    cdef int return_input(self, Line *line) noexcept nogil:
        """Take an empty input buffer back from a line: idle lines have no buffers."""
        cdef amqp_plane_t *plane = &(<Connection>line.connection).plane
        if plane.input.buffer != NULL and plane.input.start == plane.input.to:
            free(self.input.buffer)
            self.input = plane.input
            self.input.start = self.input.to = 0
            memset(&plane.input, 0, sizeof(plane.input))
        return 0

    cdef int return_output(self, Line *line) noexcept nogil:
        """Take an empty output buffer back from a line."""
        cdef amqp_plane_t *plane = &(<Connection>line.connection).plane
        if plane.output.buffer != NULL and amqp_output_waiting(&plane.output) == 0:
            free(self.output)
            self.output = plane.output.buffer
            self.output_capacity = plane.output.capacity
            plane.output.buffer = NULL
            plane.output.capacity = 0
        return 0

    cdef int touch(self, Line *line) noexcept nogil:
        """Let the line be written at the end of the round."""
        if not line.is_touched:
            line.is_touched = True
            line.next_touched = self.touched
            self.touched = line
        return 0

    cdef int write_lines(self) except -1 nogil:
        cdef Line *line
        while self.touched != NULL:
            line = self.touched
            self.touched = line.next_touched
            line.is_touched = False
            self.write_line(line)
        return 0

    cdef int write_line(self, Line *line) except -1 nogil:
        cdef bint blocked
        cdef int64_t due
        (<Connection>line.connection).write()
        self.return_output(line)
        blocked = (<Connection>line.connection).blocked
        if blocked != line.awaits_room and not (<Connection>line.connection).cut:
            line.awaits_room = blocked
            watch_change(self.epoll, &line.watch, EPOLLIN | (EPOLLOUT if blocked else 0))
        due = (<Connection>line.connection).next_tick
        if due != INT64_MAX and (line.place == 0 or due < line.due):
            heap_take(&self.ticks, &line.place)
            line.due = due
            if not heap_put(&self.ticks, due, &line.place):
                no_memory()
        return 0

    # ---- rounds ----------------------------------------------------------------------

    cdef bint is_busy(self) noexcept nogil:
        """Say whether a line is ready already."""
        return self.shared.ready != NULL

    cdef int keep_time_outs(self, int64_t now) except -1 nogil:
        """Check the idle time-outs that are due."""
        cdef Line *line
        while self.ticks.count and heap_first(&self.ticks) <= now:
            line = <Line *>self.ticks.slots[0].place
            heap_take(&self.ticks, &line.place)
            self.lend_input(line)
            (<Connection>line.connection).tick()
            # The tick may have read.
            self.take_events(line)
            self.return_input(line)
            if (<Connection>line.connection).cut:
                self.line_changed(line)
            self.touch(line)
        return 0

    cdef int exchange(self, int64_t until) except -1 nogil:
        """Wait until ``until`` (0: not at all), then read, check time-outs, and write."""
        if until and not self.is_busy():
            self.sleep(until)
        self.serve_lines()
        self.keep_time_outs(monotonic_ns())
        return self.write_lines()

    # ---- the end ---------------------------------------------------------------------

    cdef int close_lines(self, bint ended) except -1:
        """Close all connections, and wait for the peers' answers up to CLOSE_TIMEOUT."""
        cdef Connection connection
        cdef pn_session_t *session
        for connection in self.connections:
            if connection.abandoned:
                continue
            connection.closing = True
            session = pn_session_head(connection.connection, 0) if ended else NULL
            while session != NULL:
                pn_session_close(session)
                session = pn_session_next(session, 0)
        if ended:
            with nogil:
                self.await_closes(True)
        for connection in self.connections:
            pn_connection_close(connection.connection)
        with nogil:
            self.await_closes(False)
        for connection in self.connections:
            if connection.tls != NULL and not connection.abandoned:
                tls_close(connection.tls)
            connection.sock.close()
        return 0

    cdef int await_closes(self, bint sessions) except -1 nogil:
        """Wait until the peers have ended the sessions, or closed the connections."""
        cdef int64_t now = monotonic_ns()
        cdef int64_t deadline = now + CLOSE_TIMEOUT
        cdef int left = self.line_count + 1
        cdef int rest
        cdef int i
        for i in range(self.line_count):
            if not (<Connection>self.lines[i].connection).abandoned:
                self.touch(&self.lines[i])
        self.write_lines()
        while now < deadline and pending_count() < 2:
            rest = 0
            for i in range(self.line_count):
                rest += not self.is_done(&self.lines[i], sessions)
            if rest == 0:
                break
            if rest < left:
                left = rest
                deadline = now + CLOSE_TIMEOUT
            self.exchange(deadline)
            now = monotonic_ns()
        return 0

    cdef bint is_done(self, Line *line, bint sessions) noexcept nogil:
        if (<Connection>line.connection).cut:
            return True
        if pn_connection_state((<Connection>line.connection).connection) & PN_REMOTE_CLOSED:
            return True
        return sessions and pn_session_head(
            (<Connection>line.connection).connection, PN_LOCAL_CLOSED | PN_REMOTE_ACTIVE) == NULL
