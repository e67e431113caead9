"""How late messages went after they were due, and why.

A sender that cannot send waits for its peer: for credit or a session's window, for room in the
socket, or for outcomes. It says so when a wait begins and ends (`Waits.become`). The delay of a
message, from when it was due until it went, is divided by these waits; the rest is the sender's
own: it woke late, or had too much to do.

    due ──── waits for credit ────┬─ own ─┬── waits for room ──┬─ own ── goes

A message that is due after the last wait costs one comparison more than without all this.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memmove, memset

cdef int64_t SECOND = 1000000000
cdef int SUB_COUNT = 32
# Percentiles that are reported, by their names.
RANKS = {"p50": 50, "p99": 99, "p99.9": 99.9}


cdef inline int bucket_of(int64_t delay) noexcept nogil:
    cdef int shift = 0
    if delay < SUB_COUNT:
        return <int>delay
    while (delay >> shift) >= 2 * SUB_COUNT:
        shift += 1
    return (shift + 1) * SUB_COUNT + <int>((delay >> shift) - SUB_COUNT)


cdef inline int64_t bucket_limit(int bucket) noexcept nogil:
    cdef int shift = bucket // SUB_COUNT - 1
    if shift < 0:
        return bucket
    return ((<int64_t>(bucket % SUB_COUNT) + SUB_COUNT + 1) << shift) - 1


cdef class DelayHistogram:
    """Delays in nanoseconds, log-linear: 32 buckets an octave, error below 3.2 %."""

    def __cinit__(self) -> None:
        for i in range(2048):
            self.counts[i] = 0

    cdef void add(self, int64_t delay) noexcept nogil:
        if delay < 0:
            delay = 0
        self.counts[bucket_of(delay)] += 1
        self.total += 1
        if delay > self.largest:
            self.largest = delay

    def record(self, delay_ns: int) -> None:
        """Add one delay in nanoseconds; a negative one counts as 0."""
        self.add(delay_ns)

    def percentile(self, percent: float) -> int:
        """Return the upper limit, in nanoseconds, of the bucket that holds ``percent``."""
        cdef int64_t seen = 0
        wanted = self.total * percent / 100
        for i in range(2048):
            seen += self.counts[i]
            if seen >= wanted and seen > 0:
                return min(bucket_limit(i), self.largest)
        return 0


cdef class Waits:
    """The waits of one sender: the time waited until each begin and end of a wait, by cause."""

    cdef void become(self, Cause cause, int64_t now) noexcept nogil:
        """Begin to wait for ``cause`` at ``now`` (monotonic ns), or for nothing: ITSELF."""
        if cause == self.cause:
            return
        if self.cause != ITSELF:
            self.add(self.cause, self.since, now)
        self.cause = cause
        self.since = now

    cdef void add(self, Cause cause, int64_t begin, int64_t end) noexcept nogil:
        """Add a wait. No two waits are at one time: of a second one the rest counts."""
        begin = max(begin, self.newest)
        if end <= begin:
            return
        if self.count + 2 > KNOTS:
            self.make_room()
        self.put_knot(begin)
        self.put_knot(end).waited[<int>cause] += end - begin
        self.newest = end

    cdef void be_away(self, int64_t since, int64_t now) noexcept nogil:
        """End the wait at ``since``: from then until ``now`` the sender did not run.

        It had asked to be woken at ``since``; whatever it waited for may have come long ago.
        """
        cdef Cause cause = self.cause
        self.become(ITSELF, since)
        if self.newest < now:
            if self.count + 1 > KNOTS:
                self.make_room()
            self.put_knot(now)
            self.newest = now
        self.become(cause, now)

    cdef Knot *put_knot(self, int64_t time) noexcept nogil:
        """Add a knot until which nothing more was waited."""
        cdef Knot *knot = &self.knots[self.count]
        if self.count:
            knot[0] = self.knots[self.count - 1]
        knot.time = time
        self.count += 1
        return knot

    cdef void make_room(self) noexcept nogil:
        """Forget the knots that no message needs; of too many others keep each second one."""
        cdef int needed = max(self.first - 1, 0)
        cdef int kept = 0
        cdef int i
        self.count -= needed
        memmove(&self.knots[0], &self.knots[needed], self.count * sizeof(Knot))
        self.first = 0
        if self.count <= KNOTS // 2:
            return
        for i in range(self.count):
            # The oldest and the newest one stay.
            if i == 0 or (self.count - 1 - i) % 2 == 0:
                self.knots[kept] = self.knots[i]
                kept += 1
        self.count = kept

    cdef void divide(self, int64_t due, int64_t *parts) noexcept nogil:
        """Put the time that was waited since ``due`` into ``parts``, by cause.

        Messages come in the order in which they are due. Between two knots time was waited evenly:
        that is exact, unless `make_room` took a knot away.
        """
        cdef const Knot *after
        cdef const Knot *newest = &self.knots[self.count - 1]
        cdef double share
        cdef int cause
        # The first knot after `due`; the newest one is.
        while self.knots[self.first].time <= due:
            self.first += 1
        after = &self.knots[self.first]
        share = 0
        if self.first:
            share = (after.time - due) / <double>(after.time - (after - 1).time)
        for cause in range(CREDIT, CAUSES):
            parts[cause] = newest.waited[cause] - after.waited[cause]
            if share:
                parts[cause] += <int64_t>(
                    share * (after.waited[cause] - (after - 1).waited[cause]))

    def away(self, since: int, now: int) -> None:
        """Say that the sender did not run; see `be_away`."""
        self.be_away(since, now)

    def wait(self, cause: int, begin: int, end: int) -> None:
        """Add a wait, by the number of its cause: 1 credit, 2 socket, 3 outcomes."""
        self.add(<Cause><int>cause, begin, end)


cdef class Delays:
    """The delays of all messages of a process, in nanoseconds, and their course over the run."""

    def __cinit__(self) -> None:
        self.rows = <Row *>calloc(ROWS, sizeof(Row))
        if self.rows == NULL:
            raise MemoryError("no memory for the delays of a run")

    def __dealloc__(self) -> None:
        free(self.rows)

    def __init__(self) -> None:
        self.step = self.row_end = SECOND
        self.alone = DelayHistogram()
        self.whole = DelayHistogram()
        self.own = DelayHistogram()
        self.credit = DelayHistogram()
        self.socket = DelayHistogram()
        self.outcomes = DelayHistogram()

    cdef void add(self, int64_t delay, int64_t elapsed) noexcept nogil:
        """Add the delay of a message that waited for nothing, and went so long after the start."""
        cdef Row *row = self.row_at(elapsed)
        row.sent += 1
        row.alone = max(row.alone, delay)
        self.alone.add(delay)

    cdef void add_divided(
            self, Waits waits, int64_t due, int64_t now, int64_t elapsed) noexcept nogil:
        """Add that of a message that was due before the end of the last wait."""
        cdef int64_t[4] parts
        cdef Row *row = self.row_at(elapsed)
        cdef int cause
        waits.divide(due, parts)
        parts[<int>ITSELF] = now - due - (
            parts[<int>CREDIT] + parts[<int>SOCKET] + parts[<int>OUTCOMES])
        row.sent += 1
        row.whole = max(row.whole, now - due)
        for cause in range(CAUSES):
            row.parts[cause] = max(row.parts[cause], parts[cause])
        self.whole.add(now - due)
        self.credit.add(parts[<int>CREDIT])
        self.socket.add(parts[<int>SOCKET])
        self.outcomes.add(parts[<int>OUTCOMES])
        self.own.add(parts[<int>ITSELF])

    cdef Row *row_at(self, int64_t elapsed) noexcept nogil:
        """Return the row of a moment; moments do not go back."""
        while elapsed >= self.row_end:
            if self.row + 1 == ROWS:
                self.halve_rows()
            else:
                self.row += 1
                self.row_end += self.step
        return &self.rows[self.row]

    cdef void halve_rows(self) noexcept nogil:
        """Put two rows each into one, of steps that are twice as long."""
        cdef Row *row
        cdef Row *other
        cdef int i
        cdef int cause
        for i in range(ROWS // 2):
            row, other = &self.rows[2 * i], &self.rows[2 * i + 1]
            row.sent += other.sent
            row.alone = max(row.alone, other.alone)
            row.whole = max(row.whole, other.whole)
            for cause in range(CAUSES):
                row.parts[cause] = max(row.parts[cause], other.parts[cause])
            self.rows[i] = row[0]
        memset(&self.rows[ROWS // 2], 0, ROWS // 2 * sizeof(Row))
        self.row = ROWS // 2 - 1
        self.step *= 2

    def record(self, waits: Waits, due: int, sent: int) -> None:
        """Add the delay of a message; messages come in the order in which they are due."""
        if waits.newest > due:
            self.add_divided(waits, due, sent, sent)
        else:
            self.add(sent - due, sent)

    def late_us(self) -> dict[str, float]:
        """Return percentiles of how late messages went, and the maximum, in microseconds."""
        return percentiles(self.alone, self.whole)

    def late_by_us(self) -> dict[str, dict[str, float]]:
        """Return the same of each part of the delays, by its cause."""
        zeros = DelayHistogram()
        zeros.counts[0] = zeros.total = self.alone.total
        return {
            "credit": percentiles(zeros, self.credit),
            "socket": percentiles(zeros, self.socket),
            "outcomes": percentiles(zeros, self.outcomes),
            "itself": percentiles(self.alone, self.own),
        }

    def over_time(self) -> dict[str, object]:
        """Return for each step of the run the messages that went, and their largest delays.

        Keys: ``seconds`` (of a step), ``sent``, ``late_us`` and ``late_by_us``, as above.
        """
        found = {"sent": [], "late_us": []}
        parts = {"credit": [], "socket": [], "outcomes": [], "itself": []}
        for i in range(self.row + 1):
            row = self.rows[i]
            found["sent"].append(row.sent)
            found["late_us"].append(max(row.alone, row.whole) // 1000)
            parts["credit"].append(row.parts[<int>CREDIT] // 1000)
            parts["socket"].append(row.parts[<int>SOCKET] // 1000)
            parts["outcomes"].append(row.parts[<int>OUTCOMES] // 1000)
            parts["itself"].append(max(row.alone, row.parts[<int>ITSELF]) // 1000)
        return {"seconds": self.step // SECOND, **found, "late_by_us": parts}


cdef dict percentiles(DelayHistogram one, DelayHistogram other):
    """Return those of two histograms together, in microseconds."""
    cdef DelayHistogram both = DelayHistogram()
    for i in range(2048):
        both.counts[i] = one.counts[i] + other.counts[i]
    both.total = one.total + other.total
    both.largest = max(one.largest, other.largest)
    found = {name: both.percentile(percent) / 1000 for name, percent in RANKS.items()}
    return found | {"max": both.largest / 1000.0}
