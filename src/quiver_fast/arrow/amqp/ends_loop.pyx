"""Many ends in one process: one loop over all their connections.

    epoll ── ready lines ── read, events ──┐
    heap of wake times ────────────────────┼── queue of ends ── turn ── touched lines ── write
    room in a socket, wrapper, signals ────┘

An *end* is a link with a session of its own, on one of the lines (`lines.pyx`). It gets a turn
(`Endpoint.turn`) after an event of its session, at its wake time, or because it has more to send.
"""

from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport calloc, free

from quiver_fast.amqp.data_plane cimport (
    AMQP_ARRIVAL, AMQP_CREDIT, AMQP_NOTHING, AMQP_NO_MEMORY, AMQP_OUTCOME, amqp_event,
    amqp_link_end_t, amqp_output_waiting, amqp_plane_next, amqp_plane_t, amqp_wait_yield,
)
from quiver_fast.arrow.amqp.connection cimport Connection
from quiver_fast.arrow.amqp.lines cimport Line, Lines, no_memory
from quiver_fast.arrow.amqp.link cimport Endpoint
from quiver_fast.arrow.amqp.receiver cimport Receiver
from quiver_fast.arrow.amqp.sender cimport Sender
from quiver_fast.arrow.run.control cimport Control
from quiver_fast.arrow.run.course cimport OVER, Course, Limits, flush_and_report
from quiver_fast.errors import LinkError, PeerError
from quiver_fast.loop.heap cimport heap_first, heap_free, heap_put, heap_take
from quiver_fast.loop.interrupt cimport pending_count
from quiver_fast.proton.libsys cimport monotonic_ns

cdef int64_t SECOND = 1000000000
# The least time that peers have to give the first credit.
cdef int64_t CREDIT_TIMEOUT = 60 * SECOND
# After this, links with credit do not wait for links without.
cdef int64_t CREDIT_GRACE = SECOND
# A sleeper may take this long to wake on a virtual machine whose core went idle.
cdef int64_t AWAKE = 100 * 1000
# A line with more output than this is written before the next turn of its ends.
cdef size_t FULL_LINE = 32768


cdef class EndsLoop(Lines):
    """The loop over all ends of a process: senders, or receivers.

    Args:
        writer: where the records go.
        limits: when all ends stop, and the control socket of the process.
        inner: the control that the ends see; this loop sets it.
        connections: number of connections.
        links: ends of each connection.
        sends: the ends are senders.
        first_number: the number of the first end among all ends of its side.
        goal: messages that end the run of all receivers together; 0 for none.
        exact: spin on a core until messages are due, instead of sleeping.
        counts_turns: ends transfer in their turns too, not only at events.

    Raises:
        MemoryError, OSError: the system has no room for them.
    """

    def __init__(self, RecordWriter writer, Limits limits, Control inner, *,
                 connections: int, links: int, sends: bool,
                 first_number: int = 0, goal: int = 0, exact: bool = False,
                 counts_turns: bool = False) -> None:
        self.writer = writer
        self.course = Course(limits, "ms")
        self.inner = inner
        self.sends = sends
        self.first_number = first_number
        self.counts_turns = counts_turns
        self.goal = goal if goal else INT64_MAX
        self.is_exact = exact
        super().__init__(connections)
        self.endpoints = []
        self.end_capacity = connections * links
        self.ends = <End *>calloc(self.end_capacity, sizeof(End))
        if self.ends == NULL:
            raise MemoryError(f"no memory for {self.end_capacity} ends")
        inner.was_given = self.course.control.was_given

    def __dealloc__(self) -> None:
        heap_free(&self.wakes)
        free(self.ends)

    def add(self, Connection connection, endpoints: Sequence[Endpoint]) -> None:
        """Take over an open connection and its attached ends.

        Raises:
            PeerError: the system cannot watch the socket.
        """
        cdef Line *line = self.add_line(connection)
        cdef Endpoint endpoint
        cdef End *end
        line.ends = &self.ends[self.end_count]
        line.count = len(endpoints)
        for endpoint in endpoints:
            end = &self.ends[self.end_count]
            end.endpoint = <void *>endpoint
            end.line = line
            end.number = self.first_number + endpoint.number
            endpoint.end.session.user = end
            self.end_count += 1
        self.endpoints.extend(endpoints)
        self.live += line.count

    def serve(self) -> None:
        """Keep connections alive that wait for the others; return at once.

        Raises:
            LinkError, PeerError: one of them has ended.
        """
        with nogil:
            self.exchange(0)
            self.judge_waiting(monotonic_ns())

    def run(self) -> None:
        """Transfer, until all ends are over.

        Raises:
            LinkError, PeerError, MessageError, OutputError: an end failed.
        """
        with nogil:
            self.begin()
            self.loop()

    # ---- events ----------------------------------------------------------------------

    cdef int take_events(self, Line *line) except -1 nogil:
        """Take the events of a line, and queue their ends."""
        cdef amqp_plane_t *plane = &(<Connection>line.connection).plane
        cdef amqp_event event = AMQP_CREDIT
        cdef bint is_told = False
        cdef End *end
        while (<Connection>line.connection).handle_event(event):
            event = amqp_plane_next(plane)
            while event == AMQP_ARRIVAL:
                event = self.take_arrivals(plane)
            if event == AMQP_OUTCOME or event == AMQP_CREDIT:
                end = <End *>plane.session.user if plane.session != NULL else NULL
                if end == NULL or end.is_over:
                    continue
                if event == AMQP_OUTCOME:
                    self.mark_records(end)
                    (<Endpoint>end.endpoint).take_disposition(&plane.disposition)
                self.queue(end)
            elif event != AMQP_NOTHING:
                is_told = True
        if is_told:
            self.queue_line(line)
        return 0

    cdef amqp_event take_arrivals(self, amqp_plane_t *plane) except? AMQP_NO_MEMORY nogil:
        """Take the arrivals of one link; return the first event that is none."""
        cdef amqp_link_end_t *link = plane.arrival.link
        cdef End *end = <End *>link.session.user
        cdef amqp_event event = AMQP_ARRIVAL
        if end == NULL or end.is_over:
            return amqp_plane_next(plane)
        if self.sends:
            self.mark_records(end)
            (<Endpoint>end.endpoint).take_reply(&plane.arrival)
            self.queue(end)
            return amqp_plane_next(plane)
        if end.round != self.round:
            end.round = self.round
            (<Receiver>end.endpoint).taken_since = 0
        self.mark_records(end)
        while event == AMQP_ARRIVAL and plane.arrival.link == link:
            if not (<Receiver>end.endpoint).take_plain(&plane.arrival):
                (<Receiver>end.endpoint).take_arrival(&plane.arrival)
            event = amqp_plane_next(plane)
        # Counted before any turn: a peer may close after the last message.
        self.count(end)
        self.queue(end)
        return event

    cdef int mark_records(self, End *end) except -1 nogil:
        """Begin the records of an end, where there are several ends."""
        if self.end_capacity > 1:
            self.writer.begin_end(end.number)
        return 0

    # ---- turns -----------------------------------------------------------------------

    cdef int queue(self, End *end) noexcept nogil:
        """Append an end to the queue for turns."""
        if end.is_queued or end.is_over:
            return 0
        end.is_queued = True
        end.next = NULL
        if self.last == NULL:
            self.first = end
        else:
            self.last.next = end
        self.last = end
        return 0

    cdef int queue_line(self, Line *line) noexcept nogil:
        """Queue all ends of a line, each time with another one first."""
        cdef int i
        line.first = (line.first + 1) % line.count
        for i in range(line.count):
            self.queue(&(<End *>line.ends)[(line.first + i) % line.count])
        return 0

    cdef int queue_all(self) noexcept nogil:
        cdef int i
        for i in range(self.end_count):
            self.queue(&self.ends[i])
        return 0

    cdef int line_changed(self, Line *line) except -1 nogil:
        return self.queue_line(line)

    cdef bint writes_soon(self, Line *line) noexcept nogil:
        return line.count == 1 and (<End *>line.ends).is_queued

    cdef int fire(self, int64_t now) except -1 nogil:
        """Queue the ends whose wake time has come."""
        cdef End *end
        while self.wakes.count and heap_first(&self.wakes) <= now:
            end = <End *>self.wakes.slots[0].place
            heap_take(&self.wakes, &end.place)
            self.queue(end)
        return 0

    cdef int notice(self, int64_t now) except -1 nogil:
        """Flush the records; pass the wrapper's messages and signals on to all ends."""
        self.course.notice(now, self.writer)
        self.inner.senders_ended = self.course.control.senders_ended
        if self.course.control.stopped and not self.inner.stopped:
            self.inner.stopped = True
            self.queue_all()
        if self.inner.total and not self.sends and (
                self.transferred >= min(self.goal, self.course.control.total)):
            # No receiver needs more messages.
            self.inner.total = 0
            self.queue_all()
        if pending_count() != self.signals:
            self.signals = pending_count()
            self.queue_all()
        return 0

    cdef int turn_ends(self, int64_t now) except -1 nogil:
        """Give each end that is queued one turn."""
        cdef End *end = self.first
        cdef End *following
        self.first = self.last = NULL
        while end != NULL:
            following = end.next
            end.is_queued = False
            if not end.is_over:
                self.turn_end(end, now)
            end = following
        return 0

    cdef int turn_end(self, End *end, int64_t now) except -1 nogil:
        cdef Line *line = end.line
        cdef int64_t wake
        self.lend_output(line)
        if amqp_output_waiting(&(<Connection>line.connection).plane.output) > FULL_LINE and (
                not (<Connection>line.connection).blocked):
            (<Connection>line.connection).write()
        if self.counts_turns:
            self.mark_records(end)
        wake = (<Endpoint>end.endpoint).turn(now)
        if self.counts_turns:
            self.count(end)
        if line.count == 1:
            # At once, so that the next line can use the buffer.
            self.write_line(line)
        else:
            self.touch(line)
        if wake == OVER:
            end.is_over = True
            self.live -= 1
            heap_take(&self.wakes, &end.place)
        elif wake == 0:
            # For a full socket, epoll reports when it has room.
            if not (<Connection>line.connection).blocked:
                self.queue(end)
        elif wake != INT64_MAX and (end.place == 0 or wake < end.due):
            # The heap keeps an earlier wake time: its turn then finds nothing to do.
            heap_take(&self.wakes, &end.place)
            end.due = wake
            if not heap_put(&self.wakes, wake, &end.place):
                no_memory()
        return 0

    cdef int count(self, End *end) noexcept nogil:
        cdef int64_t all
        if self.sends:
            all = (<Sender>end.endpoint).sent
        else:
            all = (<Receiver>end.endpoint).received
        self.transferred += all - end.counted
        end.counted = all
        return 0

    # ---- the course of the run -------------------------------------------------------

    cdef bint is_busy(self) noexcept nogil:
        return self.first != NULL or Lines.is_busy(self)

    cdef int sleep(self, int64_t until) noexcept nogil:
        """Wait for lines, wrapper and signals until an end is due, or until ``until``."""
        cdef int64_t now
        if self.wakes.count:
            until = min(until, heap_first(&self.wakes))
        if self.is_exact and self.wakes.count and until != INT64_MAX:
            now = monotonic_ns()
            if now >= until - AWAKE:
                # A sleeper wakes too late for records of microseconds.
                amqp_wait_yield()
                return 0
            until -= AWAKE
        if self.ticks.count:
            until = min(until, heap_first(&self.ticks))
        return self.course.control.wait(self.epoll, False, until)

    cdef int judge_waiting(self, int64_t now) except -1 nogil:
        """Before the run: raise LinkError if an end with an event has ended; drop the queue."""
        cdef End *end = self.first
        self.first = self.last = NULL
        while end != NULL:
            end.is_queued = False
            if (<Endpoint>end.endpoint).closed_by_peer():
                with gil:
                    endpoint = <Endpoint>end.endpoint
                    raise LinkError(f"{endpoint.connection.peer}: the peer closed the link to "
                                    f"'{endpoint.address}' before the run")
            end = end.next
        return 0

    cdef int begin(self) except -1 nogil:
        """Begin the run; senders begin together."""
        if self.sends:
            self.course.control.say_ready()
            self.await_credit()
            self.await_start()
        return self.start()

    cdef int have_credit(self) noexcept nogil:
        """Return how many ends have credit."""
        cdef int i
        cdef int found = 0
        for i in range(self.end_count):
            found += not self.ends[i].is_away and (
                (<Endpoint>self.ends[i].endpoint).end.counts.credit > 0)
        return found

    cdef int await_credit(self) except -1 nogil:
        """Wait until all ends have credit: the clock of the run begins then.

        Raises PeerError if no end gets credit.
        """
        cdef int64_t begin = monotonic_ns()
        cdef int64_t now = begin
        cdef int found = self.have_credit()
        while found < self.end_count and pending_count() == 0 and not self.course.control.stopped:
            if found and now >= begin + CREDIT_GRACE:
                break
            if now >= begin + CREDIT_TIMEOUT:
                with gil:
                    raise PeerError(
                        f"{(<Connection>self.lines[0].connection).peer}: the peer gave no credit")
            self.round += 1
            self.exchange(begin + CREDIT_GRACE if found else begin + CREDIT_TIMEOUT)
            now = monotonic_ns()
            self.judge_waiting(now)
            found = self.have_credit()
        return 0

    cdef int await_start(self) except -1 nogil:
        """Wait for the wrapper's `start`: then the senders of all processes are ready."""
        self.course.control.read_lines()
        while self.course.control.held and pending_count() == 0:
            self.round += 1
            self.exchange(monotonic_ns() + SECOND)
            self.judge_waiting(monotonic_ns())
        return 0

    cdef int start(self) except -1 nogil:
        """Begin the clock of all ends, and give each its first turn."""
        cdef int64_t now = monotonic_ns()
        cdef int i
        for i in range(self.end_count):
            (<Endpoint>self.ends[i].endpoint).course.join_clock(now)
            if (<Endpoint>self.ends[i].endpoint).course.schedule is not None:
                (<Endpoint>self.ends[i].endpoint).course.schedule.begin(now)
        self.course.prepare_clock()
        self.queue_all()
        if not self.sends:
            # Credit goes out before the wrapper reads that we are ready.
            self.turn_ends(now)
            self.write_lines()
            self.course.control.say_ready()
        return 0

    cdef int loop(self) except -1 nogil:
        cdef int64_t now
        while self.live:
            self.round += 1
            self.serve_lines()
            now = monotonic_ns()
            self.keep_time_outs(now)
            self.fire(now)
            self.notice(now)
            self.turn_ends(now)
            self.write_lines()
            if self.live and not self.is_busy():
                self.sleep(self.course.next_flush)
        flush_and_report(self.writer, self.course.control)
        return 0

    # ---- the end ---------------------------------------------------------------------

    def close(self, *, ended: bool = False) -> None:
        """Close all connections, and wait briefly for the peers' answers.

        Args:
            ended: see Connection.close.
        """
        cdef int i
        for i in range(self.end_count):
            self.ends[i].is_over = True
        self.first = self.last = NULL
        self.close_lines(ended)
