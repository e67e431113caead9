"""The open-loop schedule: when each message is due.

A schedule is a pure function of the time elapsed. It does not know what was
sent, so a stalled sender cannot stretch it (no coordinated omission).
"""

cimport cython
from libc.stdlib cimport calloc, free

from quiver_fast.arrivals cimport Arrivals
from quiver_fast.arrow.run.delays cimport GLANCE, ITSELF, SLACK, Cause
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.rate_steps import billionths

cdef int64_t SECOND = 1000000000
# Parts of a message: rates are in billionths of a message a second, times in nanoseconds.
cdef int64_t PARTS = 1000000000000000000
# About 70 years in nanoseconds: later times are cut to this.
cdef int64_t NEVER = 1 << 61
# A unit of the positions of random arrivals, in parts of a message.
cdef int64_t MILLIONTH = PARTS // 1000000


cdef class Pacer:
    """A constant rate: message ``i`` is due at ``i / rate`` seconds.

    Args:
        rate: messages per second, 1 to 1,000,000,000.

    Raises:
        ValueError: the rate is out of range.
    """

    def __init__(self, rate: int) -> None:
        if not 1 <= rate <= SECOND:
            raise ValueError(f"rate must be 1 to {SECOND} messages per second, not {rate}")
        self.rate = rate

    cdef int64_t due(self, int64_t elapsed) noexcept nogil:
        # Whole seconds and the rest apart: their product with a rate fits 64 bits.
        cdef int64_t seconds = elapsed // SECOND
        cdef int64_t rest = elapsed - seconds * SECOND
        return seconds * self.rate + rest * self.rate // SECOND + 1

    cdef int64_t intended(self, int64_t index) noexcept nogil:
        cdef int64_t seconds = index // self.rate
        cdef int64_t rest = index - seconds * self.rate
        # Rounded up: a message is never due before due() counts it.
        return seconds * SECOND + (rest * SECOND + self.rate - 1) // self.rate

    def messages_due(self, elapsed_ns: int) -> int:
        """Return how many messages are due ``elapsed_ns`` nanoseconds after the start."""
        return self.due(elapsed_ns)

    def intended_ns(self, index: int) -> int:
        """Return when message ``index`` (from 0) is due, in nanoseconds after the start."""
        return self.intended(index)


cdef class SteppedPacer(Pacer):
    """A rate that changes: `due` and `intended` are those of pieces of constant rate.

    Messages are counted in parts: so pieces add up without rounding, and a rate may be a fraction.

    Args:
        pieces: (begin in nanoseconds, messages per second) of each, the first at 0; see
            `quiver_fast.rate_steps`. The last one goes on.
    """

    def __cinit__(self, pieces) -> None:
        self.count = len(pieces)
        self.pieces = <PieceStart *>calloc(self.count, sizeof(PieceStart))
        if self.pieces == NULL:
            raise MemoryError("no memory for a schedule")

    def __init__(self, pieces: Sequence[tuple[int, int | Fraction]]) -> None:
        for number, (begin, rate) in enumerate(pieces):
            self.pieces[number].begin = begin
            self.pieces[number].rate = billionths(rate)
            if number:
                self.pieces[number].before = parts_due(&self.pieces[number - 1], begin)

    def __dealloc__(self) -> None:
        free(self.pieces)

    cdef int64_t due(self, int64_t elapsed) noexcept nogil:
        return <int64_t>(self.parts(elapsed) // PARTS) + 1

    cdef int64_t intended(self, int64_t index) noexcept nogil:
        return self.time_of(<int128>index * PARTS)

    @cython.final
    cdef inline int128 parts(self, int64_t elapsed) noexcept nogil:
        """Return the parts of messages that are due after a time."""
        while self.place + 1 < self.count and self.pieces[self.place + 1].begin <= elapsed:
            self.place += 1
        while self.place and self.pieces[self.place].begin > elapsed:
            self.place -= 1
        return parts_due(&self.pieces[self.place], elapsed)

    @cython.final
    cdef inline int64_t time_of(self, int128 parts) noexcept nogil:
        """Return the first time after which so many parts are due."""
        cdef const PieceStart *piece
        while self.place + 1 < self.count and parts >= self.pieces[self.place + 1].before:
            self.place += 1
        while self.place and parts < self.pieces[self.place].before:
            self.place -= 1
        piece = &self.pieces[self.place]
        parts = (parts - piece.before + piece.rate - 1) // piece.rate
        return piece.begin + <int64_t>min(parts, <int128>NEVER)


cdef class SharePacer(Pacer):
    """One end's share of a schedule: the messages whose number modulo `ends` is its own.

    Args:
        whole: the schedule of all ends.
        number: which end, from 0.
        ends: how many there are.
    """

    def __init__(self, whole: Pacer, number: int, ends: int) -> None:
        self.whole = whole
        self.number = number
        self.ends = ends

    cdef int64_t due(self, int64_t elapsed) noexcept nogil:
        cdef int64_t all_due = self.whole.due(elapsed)
        return (all_due - self.number + self.ends - 1) // self.ends if all_due > 0 else 0

    cdef int64_t intended(self, int64_t index) noexcept nogil:
        return self.whole.intended(index * self.ends + self.number)


cdef class PoissonPacer(Pacer):
    """Messages at random distances, whose mean rate is that of one end's share of a schedule.

    The schedule of all ends tells how fast the positions of arrivals pass. Ends do not depend on
    each other, and so their messages together come at random distances, too.

    Args:
        whole: the schedule of all ends.
        arrivals: those of this end.
        ends: how many there are.
    """

    def __init__(self, whole: SteppedPacer, arrivals: Arrivals, ends: int) -> None:
        self.whole = whole
        self.arrivals = arrivals
        self.unit = <int128>MILLIONTH * <int64_t>ends

    cdef int64_t due(self, int64_t elapsed) noexcept nogil:
        return self.arrivals.count(<int64_t>(self.whole.parts(elapsed) // self.unit))

    cdef int64_t intended(self, int64_t index) noexcept nogil:
        return self.whole.time_of(self.arrivals.position_of(index) * self.unit)


cdef inline int128 parts_due(const PieceStart *piece, int64_t elapsed) noexcept nogil:
    """Return the parts of messages that are due at a time of a piece, or at its end."""
    return piece.before + <int128>(elapsed - piece.begin) * piece.rate


cdef class Schedule:
    """A pacer with a start: the first call of `due`.

    Args:
        limits: of the run, or of one of its ends: with a pacer.
    """

    def __init__(self, limits) -> None:
        self.pacer = limits.pacer
        self.clock_base = limits.clock_base
        self.delays = limits.delays
        self.waits = Waits()

    cdef int begin(self, int64_t now) noexcept nogil:
        """Begin at ``now`` (monotonic ns), unless it began before."""
        if self.start == 0:
            self.start = now
        return 0

    cdef void note(self, Cause cause, int64_t now) noexcept nogil:
        """Note that a message waits for ``cause`` from ``now`` on; 0 is the present time."""
        if cause != self.waits.cause:
            self.waits.become(cause, now if now else monotonic_ns())

    cdef bint was_away(self, int64_t now) noexcept nogil:
        """Say whether the sender slept longer than it asked for, with `now` when it woke."""
        return 0 < self.wakes < now - SLACK

    cdef int64_t sleep_until(self, int64_t wake, int64_t now) noexcept nogil:
        """Return when to wake a sender that asks for ``wake``: soon if it waits for its peer."""
        if wake > 0 and self.waits.cause != ITSELF:
            wake = min(wake, now + GLANCE)
        self.wakes = wake
        return wake

    cdef int64_t due(self, int64_t now) noexcept nogil:
        """Return how many messages are due at ``now`` (monotonic ns), since the start."""
        if self.start == 0:
            self.begin(now)
        return self.pacer.due(now - self.start)

    cdef int64_t send_time(self, int64_t index) noexcept nogil:
        """Return when message ``index`` was due (epoch ns), and record its delay.

        That time goes into the message, so that waiting counts as latency.
        """
        cdef int64_t intended = self.wake(index)
        cdef int64_t now = monotonic_ns()
        if self.waits.newest > intended:
            self.delays.add_divided(self.waits, intended, now, now - self.start)
        else:
            self.delays.add(now - intended, now - self.start)
        return intended + self.clock_base

    cdef int64_t wake(self, int64_t index) noexcept nogil:
        """Return when message ``index`` is due (monotonic ns)."""
        return self.start + self.pacer.intended(index)

    cdef object passed_until(self, int64_t moment):
        """Return the nanoseconds from the start to a moment (monotonic ns); None before either."""
        return max(moment - self.start, 0) if self.start and moment else None


cdef class BacklogSchedule(Schedule):
    """A schedule that begins with the message after a backlog.

        message 0 … backlog - 1            as fast as can be; SendTime is when it goes
        message backlog, backlog + 1, …    due by the schedule, which begins then

    Args:
        limits: see Schedule.
        backlog: how many messages go before it.
    """

    def __init__(self, limits, backlog: int) -> None:
        super().__init__(limits)
        self.backlog = backlog

    cdef int64_t due(self, int64_t now) noexcept nogil:
        return self.backlog + (self.pacer.due(now - self.start) if self.start else 0)

    cdef int64_t send_time(self, int64_t index) noexcept nogil:
        cdef int64_t now
        if index >= self.backlog:
            return Schedule.send_time(self, index)
        now = monotonic_ns()
        if index == self.backlog - 1:
            self.begin(now)
        return now + self.clock_base

    cdef int64_t wake(self, int64_t index) noexcept nogil:
        return self.start + self.pacer.intended(index - self.backlog)
