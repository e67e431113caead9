"""A loop over many ends whose connections may be lost, and come back."""

from libc.stdint cimport int64_t

from quiver_fast.arrow.amqp.connection cimport Connection
from quiver_fast.arrow.amqp.ends_loop cimport End, EndsLoop
from quiver_fast.arrow.amqp.lines cimport Line, make_ready
from quiver_fast.arrow.amqp.link cimport Endpoint
from quiver_fast.errors import LinkError, PeerError
from quiver_fast.loop.heap cimport heap_take
from quiver_fast.loop.reactor cimport watch_remove
from quiver_fast.proton.libproton cimport PN_REMOTE_CLOSED, pn_connection_state


cdef class LastingLoop(EndsLoop):
    """A loop that goes on without the lines that were lost, until they are put back.

    An error leaves the loop. Then `take_lost` takes its line out, and all others that are lost by
    then: many are lost at one moment.
    """

    # The line that is served: an error is its.
    cdef Line *present
    # Called every now and then while lines are away; returns after how many nanoseconds to do so.
    cdef object tend
    cdef int away
    cdef int64_t next_look
    # The clock of all ends has begun.
    cdef bint has_begun

    cdef int start(self) except -1 nogil:
        EndsLoop.start(self)
        self.has_begun = True
        return 0

    def go_on(self, tend: Callable[[], int]) -> None:
        """Go on after `take_lost`; see `run`."""
        self.tend = tend
        self.next_look = 0
        with nogil:
            if not self.has_begun:
                self.begin()
            self.loop()

    cdef int read_line(self, Line *line) except -1 nogil:
        self.present = line
        return EndsLoop.read_line(self, line)

    cdef int turn_end(self, End *end, int64_t now) except -1 nogil:
        self.present = end.line
        return EndsLoop.turn_end(self, end, now)

    cdef int notice(self, int64_t now) except -1 nogil:
        EndsLoop.notice(self, now)
        return self.tend_lines(now)

    cdef int judge_waiting(self, int64_t now) except -1 nogil:
        EndsLoop.judge_waiting(self, now)
        return self.tend_lines(now)

    cdef int tend_lines(self, int64_t now) except -1 nogil:
        if self.away and now >= self.next_look:
            with gil:
                self.next_look = now + <int64_t>self.tend()
        return 0

    cdef int sleep(self, int64_t until) noexcept nogil:
        return EndsLoop.sleep(self, min(until, self.next_look) if self.away else until)

    def take_lost(self, reason: str) -> list[tuple[int, list[Endpoint], str]]:
        """Take the lines that are lost out of the loop.

        Returns their numbers, their ends that were not over, and why each was lost: that of the
        error for ``reason``.
        """
        cdef Line *line
        cdef int number
        cdef int i
        taken = []
        for number in range(self.line_count):
            line = &self.lines[number]
            if self.is_lost(line):
                why = reason if line == self.present else reason_of(line)
                taken.append((number, self.take_out(line), why))
        self.present = NULL
        self.away += len(taken)
        # The error left lists in which the rest of the lines and ends were.
        self.shared.ready = self.touched = NULL
        self.first = self.last = NULL
        for number in range(self.line_count):
            line = &self.lines[number]
            line.is_ready = line.is_touched = False
            if not (<Connection>line.connection).abandoned:
                make_ready(line)
                self.touch(line)
        for i in range(self.end_count):
            self.ends[i].is_queued = False
        self.queue_all()
        return taken

    cdef bint is_lost(self, Line *line) except -1:
        """Say whether a line has the error, or its peer ended what its ends use."""
        cdef Connection connection = <Connection>line.connection
        cdef bint gone = connection.cut or (
            pn_connection_state(connection.connection) & PN_REMOTE_CLOSED) != 0
        cdef End *end
        cdef int i
        if connection.abandoned or line == self.present:
            return not connection.abandoned
        for i in range(line.count):
            end = &(<End *>line.ends)[i]
            if not end.is_over and (gone or (<Endpoint>end.endpoint).is_ended()):
                return True
        return False

    cdef list take_out(self, Line *line):
        """Take a line out; return its ends that were not over. They are, until it is put back."""
        cdef End *end
        cdef int i
        ends = []
        heap_take(&self.ticks, &line.place)
        watch_remove(self.epoll, &line.watch)
        (<Connection>line.connection).abandon()
        for i in range(line.count):
            end = &(<End *>line.ends)[i]
            if not end.is_over:
                ends.append(<Endpoint>end.endpoint)
                end.is_over = end.is_away = True
                heap_take(&self.wakes, &end.place)
        return ends

    def put_back(self, int number, Connection connection) -> None:
        """Go on with a line over another connection, to which its ends are attached.

        Raises:
            PeerError: the system cannot watch the socket. The line is lost again.
        """
        cdef Line *line = &self.lines[number]
        cdef End *end
        cdef int i
        self.connections[number] = connection
        self.away -= 1
        for i in range(line.count):
            end = &(<End *>line.ends)[i]
            if end.is_away:
                end.is_over = end.is_away = False
                (<Endpoint>end.endpoint).end.session.user = end
                self.queue(end)
        self.present = line
        self.watch_line(line, connection)
        self.touch(line)

    def leave_out(self, int number) -> None:
        """Go on without a line, whose ends are over."""
        cdef int i
        self.away -= 1
        for i in range(self.lines[number].count):
            self.live -= (<End *>self.lines[number].ends)[i].is_away


cdef str reason_of(Line *line):
    """Return why a line is lost."""
    cdef int i
    try:
        for i in range(line.count):
            (<Endpoint>(<End *>line.ends)[i].endpoint).closed_by_peer()
    except (PeerError, LinkError) as error:
        return str(error)
    return f"{(<Connection>line.connection).peer}: the peer closed the connection"
