"""Many connections that are opened and stay idle, without a link."""

from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from quiver_fast.amqp.data_plane cimport amqp_output_waiting
from quiver_fast.arrow.amqp.attempts cimport STEP_BEGIN, STEP_CLOSE, Attempt, Attempts, Tick
from quiver_fast.arrow.amqp.connection cimport PEER_CLOSED, Connection
from quiver_fast.arrow.amqp.transport cimport no_memory
from quiver_fast.arrow.run.delays cimport DelayHistogram
from quiver_fast.loop.heap cimport Heap, heap_first, heap_free, heap_put, heap_take
from quiver_fast.proton.libproton cimport pn_connection_close
from quiver_fast.proton.libsys cimport monotonic_ns

# Connections that are being opened at a time: more would not fit the backlog of a listener.
MOST_OPENING = 64

cdef int64_t SECOND = 1000000000
# How long a peer may take to answer a close.
cdef int64_t CLOSE_TIMEOUT = 2 * SECOND


cdef class Hold(Attempts):
    """Idle connections: call `open`, `keep` and `close`, in this order.

    Args:
        common: the arguments of Attempts.
        count: number of connections.
    """

    cdef int64_t count
    cdef int64_t begun
    cdef bint is_closing
    cdef dict held
    # The attempts of `held`, by the times of their idle time-outs.
    cdef Heap ticks
    cdef readonly int64_t opened
    cdef readonly int64_t lost
    cdef readonly dict losses
    # From the begin of a connection to its open frame.
    cdef readonly DelayHistogram latency

    def __init__(self, *common: object, count: int) -> None:
        super().__init__(*common)
        self.count = count
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
        for one in list(self.held) + list(self.pending):
            self.pending[one] = None
            one.deadline = monotonic_ns() + CLOSE_TIMEOUT
            if one.step != STEP_BEGIN:
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

    cdef bint has_passed(self, Attempt one) except -1:
        if one.step == STEP_CLOSE:
            return one.connection.check() == PEER_CLOSED
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
