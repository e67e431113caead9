"""Many connections that are opened and stay idle; they may have sessions and links."""

from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from quiver_fast.amqp.data_plane cimport AMQP_THEIRS, amqp_output_waiting
from quiver_fast.arrow.amqp.attempts cimport (
    STEP_ATTACH, STEP_BEGIN, STEP_CLOSE, Attempt, Attempts, Tick,
)
from quiver_fast.arrow.amqp.connection cimport PEER_CLOSED, Connection
from quiver_fast.arrow.amqp.transport cimport no_memory
from quiver_fast.arrow.run.delays cimport DelayHistogram
from quiver_fast.errors import LinkError, QuiverError
from quiver_fast.loop.heap cimport Heap, heap_first, heap_free, heap_put, heap_take
from quiver_fast.proton.conditions cimport condition_text
from quiver_fast.proton.libproton cimport (
    PN_REMOTE_CLOSED, PN_REMOTE_UNINIT, PN_UNSPECIFIED, pn_connection_close, pn_link_head,
    pn_link_next, pn_link_open, pn_link_remote_condition, pn_link_remote_source, pn_link_source,
    pn_link_state, pn_link_t, pn_receiver, pn_session, pn_session_head, pn_session_next,
    pn_session_open, pn_session_remote_condition, pn_session_state, pn_session_t,
    pn_terminus_get_type, pn_terminus_set_address,
)
from quiver_fast.proton.libsys cimport monotonic_ns

# Connections that are being opened at a time: more would not fit the backlog of a listener.
MOST_OPENING = 64

cdef int64_t SECOND = 1000000000
# How long a peer may take to answer a close.
cdef int64_t CLOSE_TIMEOUT = 2 * SECOND


cdef class Hold(Attempts):
    """Idle connections: call `open`, `open_parts` if wanted, `keep` and `close`, in this order.

    Args:
        common: the arguments of Attempts.
        count: number of connections.
        address_at: returns the address of a link over an open connection.
        name: the prefix of the links' names.
    """

    cdef int64_t count
    cdef int64_t begun
    cdef bint is_closing
    cdef object address_at
    cdef str name
    # The sessions of each connection, or links of each session, that are being opened.
    cdef int64_t each
    # The parts of each connection that are being opened, and those that are open.
    cdef int64_t parts
    cdef int64_t answered
    # How many links were attached, for the number in a link's name.
    cdef int64_t attached
    cdef dict held
    # The attempts of `held`, by the times of their idle time-outs.
    cdef Heap ticks
    cdef readonly int64_t opened
    cdef readonly int64_t lost
    cdef readonly dict[str, int] losses
    # From the begin of a connection to its open frame.
    cdef readonly DelayHistogram latency

    def __init__(self, *common: Unpack[Common], count: int,
                 address_at: Callable[[Connection], str], name: str) -> None:
        super().__init__(*common)
        self.count = count
        self.address_at = address_at
        self.name = name
        self.held = {}
        self.losses = {}
        self.latency = DelayHistogram()

    def __dealloc__(self) -> None:
        heap_free(&self.ticks)

    def open(self) -> None:
        """Open all connections; count the reasons of those that fail."""
        while not self.is_stopped() and (self.begun < self.count or self.pending):
            while self.begun < self.count and len(self.pending) < MOST_OPENING:
                self.begun += 1
                self.connect(monotonic_ns())
            self.poll(INT64_MAX)
            self.keep_time_outs()

    def open_parts(self, part: str, each: int) -> int:
        """Open sessions over each connection, or links in each session; return how many are open.

        Links are receivers without credit: messages stay with the peer. A connection is lost if
        one of its parts is refused.

        Args:
            part: "session" or "link".
            each: how many.
        """
        cdef Attempt one
        waiting = list(self.held)
        self.each = each
        # Links are in the sessions of the step before.
        self.parts = each if part == "session" else self.parts * each
        self.answered = 0
        while (waiting or self.pending) and not self.is_stopped():
            while waiting and len(self.pending) < MOST_OPENING:
                one = waiting.pop()
                if one in self.held:
                    one.step = STEP_BEGIN if part == "session" else STEP_ATTACH
                    self.begin_parts(one)
            self.poll(INT64_MAX)
            self.keep_time_outs()
        return self.answered

    def keep(self, seconds: float) -> None:
        """Send and take heartbeats for so many seconds, or until no connection is left."""
        cdef int64_t end = monotonic_ns() + <int64_t>(seconds * SECOND)
        while self.held and monotonic_ns() < end and not self.is_stopped():
            self.poll(end)
            self.keep_time_outs()

    def close(self) -> None:
        """Close all connections, and wait briefly for the peer's answers."""
        cdef Attempt one
        self.is_closing = True
        for one in list(self.held | self.pending):
            self.pending[one] = None
            one.deadline = monotonic_ns() + CLOSE_TIMEOUT
            if one.step < STEP_BEGIN:
                self.release(one)
                continue
            one.step = STEP_CLOSE
            one.connection.closing = True
            pn_connection_close(one.connection.connection)
            self.serve(one)
        while self.pending:
            self.poll(INT64_MAX)

    cdef int keep_time_outs(self) except -1:
        """Check the idle time-outs that are due."""
        cdef Attempt one
        cdef int64_t now = monotonic_ns()
        while self.ticks.count and heap_first(&self.ticks) <= now:
            one = <Attempt>(<Tick *>self.ticks.slots[0].place).owner
            self.serve(one)
        return 0

    # ---- one connection --------------------------------------------------------------

    cdef int begin_step(self, Attempt one) except -1:
        if one.step == STEP_BEGIN:
            self.pending.pop(one)
            self.held[one] = None
            self.opened += 1
            (<DelayHistogram>self.latency).add(one.since - one.due)
        return 0

    cdef int begin_parts(self, Attempt one) except -1:
        self.pending[one] = None
        one.deadline = monotonic_ns() + self.patience
        try:
            if one.step == STEP_BEGIN:
                self.begin_sessions(one.connection)
            else:
                self.attach_links(one.connection)
        except QuiverError as error:
            return self.fail(one, error)
        return self.serve(one)

    cdef int begin_sessions(self, Connection connection) except -1:
        allowed = connection.sessions_allowed()
        if allowed < self.each:
            raise LinkError(f"the peer allows {allowed} sessions on a connection")
        for _ in range(self.each):
            pn_session_open(pn_session(connection.connection))
        return 0

    cdef int attach_links(self, Connection connection) except -1:
        cdef pn_session_t *session = pn_session_head(connection.connection, 0)
        cdef pn_link_t *link
        cdef int64_t allowed = connection.plane.endpoints.sessions.handle_max[<int>AMQP_THEIRS] + 1
        if allowed < self.each:
            raise LinkError(f"the peer allows {allowed} links in a session")
        node = self.address_at(connection).encode()
        while session != NULL:
            for _ in range(self.each):
                self.attached += 1
                link = pn_receiver(session, f"{self.name}-{self.attached}".encode())
                pn_terminus_set_address(pn_link_source(link), node)
                pn_link_open(link)
            session = pn_session_next(session, 0)
        return 0

    cdef bint has_parts(self, Attempt one) except -1:
        """Say whether the peer has answered all parts; raise LinkError if it has ended one."""
        cdef pn_session_t *session = pn_session_head(one.connection.connection, 0)
        cdef pn_link_t *link = pn_link_head(one.connection.connection, 0)
        cdef bint answered = True
        while session != NULL:
            if pn_session_state(session) & PN_REMOTE_CLOSED:
                why = condition_text(pn_session_remote_condition(session))
                raise LinkError(f"the peer ended the session{': ' if why else ''}{why}")
            answered = answered and not pn_session_state(session) & PN_REMOTE_UNINIT
            session = pn_session_next(session, 0)
        while link != NULL:
            if pn_link_state(link) & PN_REMOTE_CLOSED:
                why = condition_text(pn_link_remote_condition(link))
                raise LinkError(f"the peer detached the link{': ' if why else ''}{why}")
            # A null source refuses, and a detach with the reason follows (part 2.6.3).
            answered = answered and not pn_link_state(link) & PN_REMOTE_UNINIT and (
                pn_terminus_get_type(pn_link_remote_source(link)) != PN_UNSPECIFIED)
            link = pn_link_next(link, 0)
        return answered

    cdef bint has_passed(self, Attempt one) except -1:
        if one.step == STEP_CLOSE:
            return one.connection.check() == PEER_CLOSED
        if one in self.held and self.has_parts(one) and one in self.pending:
            self.pending.pop(one)
            self.answered += self.parts
        return Attempts.has_passed(self, one)

    cdef int flush(self, Attempt one) except -1:
        """Write, and free the buffers of an idle connection: they would be most of the memory."""
        cdef Connection connection = one.connection
        Attempts.flush(self, one)
        if one in self.held:
            heap_take(&self.ticks, &one.tick.place)
            one.tick.owner = <void *>one
            if not heap_put(&self.ticks, connection.next_tick, &one.tick.place):
                no_memory()
        if connection.plane.input.start == connection.plane.input.to:
            free(connection.plane.input.buffer)
            memset(&connection.plane.input, 0, sizeof(connection.plane.input))
        if amqp_output_waiting(&connection.plane.output) == 0:
            free(connection.plane.output.buffer)
            connection.plane.output.buffer = NULL
            connection.plane.output.capacity = 0
        return 0

    cdef int fail(self, Attempt one, object error) except -1:
        if self.is_closing:
            return self.release(one)
        if one not in self.held:
            return Attempts.fail(self, one, error)
        self.lost += 1
        self.release(one)
        return self.count_reason(self.losses, one, error)

    cdef int release(self, Attempt one) except -1:
        self.held.pop(one, None)
        heap_take(&self.ticks, &one.tick.place)
        return Attempts.release(self, one)
