"""The course of a run, in whichever protocol: its clock, when it ends, flushing, signals."""

cimport cython
from libc.stdint cimport INT64_MAX, INT64_MIN, UINT64_MAX, int64_t

from quiver_fast.arrivals cimport Arrivals
from quiver_fast.arrow.run.control cimport Control
from quiver_fast.arrow.run.delays cimport Delays
from quiver_fast.arrow.run.pacer cimport Pacer, PoissonPacer, Schedule, SharePacer, SteppedPacer
from quiver_fast.loop.interrupt cimport pending_count, pending_signal
from quiver_fast.proton.libsys cimport PR_SET_TIMERSLACK, monotonic_ns, prctl, realtime_ns
from quiver_fast.records.formats import FLUSHES_PER_SECOND, UNITS_PER_SECOND
from quiver_fast.records.writer cimport RecordWriter

cdef int64_t SECOND = 1000000000
cdef int64_t FLUSH_PERIOD = SECOND // FLUSHES_PER_SECOND
# How often a busy loop reads the control socket.
cdef int64_t READ_PERIOD = SECOND // 20
# The clocks of both ends of a run start at slightly different times.
cdef int64_t END_TOLERANCE = SECOND
# After a signal: how long to wait for messages and outcomes on their way.
cdef int64_t SIGNAL_TIMEOUT = SECOND
# A larger difference between wall clock and monotonic clock is a step.
cdef int64_t CLOCK_TOLERANCE = SECOND // 1000
# Larger times are in microseconds, and in nanoseconds.
cdef int64_t MICROSECONDS = 10**14
cdef int64_t NANOSECONDS = 10**17
# A finer unit makes a time 1000 times as large; a wrong clock makes it less than 30 times.
UNIT_FACTOR = 30
# In a burst 16 messages take about 5 us, which changes no digit of a millisecond; 4 take
# about one. In nanoseconds each message has its own.
CLOCK_BLOCKS = {"ms": 16, "us": 4, "ns": 1}


cdef class Limits:
    """When a run begins and ends, and how fast it goes.

    Args:
        count: messages to transfer; 0 for no limit.
        duration: seconds to run, from when both ends are ready; 0 for no limit.
        schedule: when messages are due, as `quiver_fast.rate_steps.schedule_of` has it; empty
            for as fast as can be.
        arrivals: seed and stream of messages that come at random distances at the rates of the
            schedule, see `quiver_fast.rate_steps.parse_arrivals`; None for even distances.
        run_start: epoch milliseconds; a message with an earlier SendTime is not of this run.
            0 when nobody knows.
        clock_base: nanoseconds that are added to the monotonic clock to get the run's wall clock;
            see `quiver_fast.wall_clock`.
        control: the control socket.
        reconnects: a lost connection does not end the run, also at its end.
    """

    def __init__(self, *, count: int, duration: float, schedule: Sequence[Piece],
                 run_start: int, clock_base: int, control: Control, reconnects: bool = False,
                 arrivals: Seed | None = None) -> None:
        self.count = count
        self.duration_ns = <int64_t>(duration * SECOND)
        self.arrivals = arrivals
        if schedule and arrivals is not None:
            self.steps = SteppedPacer(schedule)
            self.pacer = self.arrivals_at(0, 1)
        elif len(schedule) == 1 and isinstance(schedule[0].rate, int):
            self.pacer = Pacer(schedule[0].rate)
        elif schedule:
            self.pacer = SteppedPacer(schedule)
        self.run_start_ms = run_start
        self.clock_base = clock_base
        self.control = control
        self.reconnects = reconnects
        self.warnings = []
        self.delays = None if self.pacer is None else Delays()

    def share_of_none(self) -> Limits:
        """Return these limits without the count."""
        cdef Limits part = self.share(0, 1, self.control)
        part.count = 0
        return part

    def share(self, number: int, ends: int, control: Control) -> Limits:
        """Return the limits of one of several ends, which share these limits.

        Shares of a count differ by one at most, the first ones being larger. Of a schedule, the
        ends take its messages in turns: message ``i`` is that of end ``i % ends``. Arrivals at
        random are independent of each other.

        Args:
            number: which end, from 0.
            ends: how many there are; a count is 0 or at least so many.
            control: the control of the end.
        """
        cdef Limits part = Limits(
            count=self.count // ends + (number < self.count % ends), duration=0, schedule=(),
            run_start=self.run_start_ms, clock_base=self.clock_base, control=control,
            reconnects=self.reconnects)
        part.duration_ns = self.duration_ns
        part.warnings = self.warnings
        part.delays = self.delays
        if self.steps is not None:
            part.pacer = self.arrivals_at(number, ends)
        elif self.pacer is not None:
            part.pacer = SharePacer(self.pacer, number, ends)
        return part

    cdef Pacer arrivals_at(self, int64_t number, int64_t ends):
        seed, stream = self.arrivals
        return PoissonPacer(self.steps, Arrivals(seed, stream + number, number == 0), ends)


@cython.final
cdef class Course:
    """When a run goes on and when it ends: of an endpoint of either protocol, or of many ends.

    Args:
        limits: when to stop.
        time_unit: ``ms``, ``us`` or ``ns``, of send times and of the records.
    """

    def __init__(self, limits: Limits, time_unit: str) -> None:
        self.limits = limits
        self.control = self.limits.control
        self.time_divisor = SECOND // UNITS_PER_SECOND[time_unit]
        self.clock_base = self.limits.clock_base
        self.clock_block = CLOCK_BLOCKS[time_unit]
        self.begin_run_at(self.limits.run_start_ms, UNITS_PER_SECOND[time_unit])
        self.deadline = INT64_MAX
        self.drain_deadline = INT64_MAX

    def begin_run_at(self, run_start_ms: int, units: int) -> None:
        """Set the SendTimes of this run: all times, if its start is unknown.

        Args:
            run_start_ms: see Limits.
            units: the unit of the run's times, in units per second.
        """
        start = run_start_ms * units // 1000
        self.run_start = self.given_start = start if start else INT64_MIN
        self.run_span = min(UNIT_FACTOR * start, INT64_MAX - start) if start else UINT64_MAX

    @property
    def sending_ns(self) -> int | None:
        """Nanoseconds from the begin of the schedule to the end of the sending; None without."""
        return None if self.schedule is None else self.schedule.passed_until(self.stopped_at)

    cdef int follow_schedule(self) except -1:
        """Have messages go out when the limits say; this is for a sender."""
        if self.limits.pacer is not None:
            self.schedule = Schedule(self.limits)
            # The kernel may wake a sleeper 50 us late to save power; a schedule must not wait.
            prctl(PR_SET_TIMERSLACK, 1)
        return 0

    # ---- the clock -------------------------------------------------------------------

    cdef int64_t send_time(self, int64_t index) noexcept nogil:
        """Return the time to put into message ``index`` (from 0), in the run's unit."""
        if self.schedule is None:
            return self.wall_time()
        return self.schedule.send_time(index) // self.time_divisor

    cdef bint is_timely_by_wall(self, int64_t send_time) noexcept nogil:
        """Say whether a SendTime is of this run, though the wall clock may have been set back.

        A sender of another implementation reads that clock. Messages of an earlier run come first
        out of a queue.
        """
        cdef int64_t back
        if self.is_timely(send_time):
            return True
        back = monotonic_ns() + self.clock_base - realtime_ns()
        if back > CLOCK_TOLERANCE:
            self.run_start = min(self.run_start, self.given_start - back // self.time_divisor)
        return self.is_timely(send_time)

    cdef bint is_older(self, int64_t send_time) noexcept nogil:
        """Say whether a SendTime is before this run; its size shows its unit."""
        cdef int64_t start = self.limits.run_start_ms
        if send_time >= MICROSECONDS:
            start *= 1000
        if send_time >= NANOSECONDS:
            start *= 1000
        return send_time < start

    cdef int prepare_clock(self) noexcept nogil:
        """Begin to flush records, before `start_clock` begins the duration of the run."""
        self.next_flush = next_flush_after(monotonic_ns())
        return 0

    cdef int start_clock(self) noexcept nogil:
        """Begin the duration of the run: both ends are ready."""
        self.prepare_clock()
        return self.begin_at(monotonic_ns())

    cdef int begin_at(self, int64_t start) noexcept nogil:
        """Begin the duration of the run at ``start`` (monotonic ns)."""
        self.started = start
        if self.limits.duration_ns:
            self.deadline = start + self.limits.duration_ns
        return 0

    cdef int join_clock(self, int64_t start) noexcept nogil:
        """Begin the run at ``start`` (monotonic ns), together with other ends.

        The loop of all ends flushes the records and reads the control socket.
        """
        self.started = start
        self.next_flush = INT64_MAX
        self.next_read = INT64_MAX
        if self.limits.duration_ns and self.deadline != INT64_MAX:
            self.deadline = start + self.limits.duration_ns
        return 0

    cdef bint near_the_end(self, int64_t now) noexcept nogil:
        """Say whether a peer with the same duration may have ended already."""
        return self.started != 0 and self.limits.duration_ns != 0 and (
            not self.limits.reconnects) and (
            now >= self.started + self.limits.duration_ns - END_TOLERANCE)

    # ---- the end ---------------------------------------------------------------------

    cdef bint is_over(self, int64_t now, int64_t transferred) noexcept nogil:
        """Say whether time, count or wrapper end the run."""
        return self.control.stopped or now >= self.deadline or (
            transferred >= self.control.total) or 0 < self.limits.count <= transferred

    cdef int start_draining(self, int64_t now) noexcept nogil:
        """Begin to end the run; wait for the rest for ``patience``."""
        if not self.stopping:
            self.stopping = True
            self.stopped_at = min(now, self.deadline)
        self.drain_deadline = now + self.patience
        return 0

    cdef bint notice(self, int64_t now, RecordWriter writer) except? -1 nogil:
        """Flush the records and read the control socket if that is due; see `notice_signals`."""
        if now >= self.next_flush:
            self.next_flush = flush_and_report(writer, self.control)
        if now >= self.next_read:
            self.control.read_lines()
            self.next_read = now + READ_PERIOD
        return self.notice_signals(now)

    cdef bint notice_signals(self, int64_t now) noexcept nogil:
        """Begin to end at the first signal, and say so; end at once at the second."""
        if self.interrupted == 0 and pending_count():
            self.interrupted = pending_signal()
            self.start_draining(now)
            self.drain_deadline = now + SIGNAL_TIMEOUT
            return True
        if pending_count() > 1:
            self.drain_deadline = now
        return False


cdef int64_t next_flush_after(int64_t now) noexcept nogil:
    """Return when to flush next: both ends on a machine flush at the same times."""
    return now - now % FLUSH_PERIOD + FLUSH_PERIOD


cdef int64_t flush_and_report(RecordWriter writer, Control control) except -1 nogil:
    """Write the records, report that to the wrapper, and return when to flush next."""
    cdef int64_t now = monotonic_ns()
    writer.flush()
    control.say_flushed(now, <int64_t>writer._bytes_written)
    return next_flush_after(now)
