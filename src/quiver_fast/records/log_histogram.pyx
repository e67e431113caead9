"""Percentiles of many latencies in constant memory, each to within 0.2 %."""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from quiver_fast.records.columns cimport Column

cdef extern from * nogil:
    """
    static inline int quiver_highest_bit(uint64_t word) { return 63 - __builtin_clzll(word); }
    """
    int highest_bit "quiver_highest_bit"(uint64_t word)

cdef enum:
    # Latencies of up to 2^9 ticks have a cell each. Beyond, each power of two has 2^8 cells.
    FINE_BITS = 8
    FINE = 1 << FINE_BITS
    # Cells of the latencies from 0 to 2^63 - 1; as many again are for those below 0.
    SIDE = (63 - FINE_BITS) * FINE + FINE


cdef inline size_t cell_of(uint64_t magnitude) noexcept nogil:
    """Return the cell of ``magnitude``, below 2^63: linear at first, then logarithmic."""
    if magnitude < 2 * FINE:
        return <size_t>magnitude
    cdef int shift = highest_bit(magnitude) - FINE_BITS
    return (<size_t>shift << FINE_BITS) + <size_t>(magnitude >> shift)


cdef inline size_t place_of(int64_t latency) noexcept nogil:
    """Return the index of the cell of ``latency``: first negative ones, the lowest first."""
    if latency >= 0:
        return SIDE + cell_of(<uint64_t>latency)
    return SIDE - 1 - cell_of(<uint64_t>~latency)


cdef double middle_of(size_t cell) noexcept nogil:
    """Return the middle of a cell."""
    if cell < 2 * FINE:
        return <double>cell
    cdef int shift = <int>(cell >> FINE_BITS) - 1
    cdef uint64_t lowest = <uint64_t>(cell - (<size_t>shift << FINE_BITS)) << shift
    return <double>lowest + <double>((<uint64_t>1 << shift) - 1) / 2


cdef class LogHistogram:
    """Counts latencies, also negative ones, and returns their percentiles.

    Attributes:
        count: Latencies since the last :meth:`clear`.

    Raises:
        MemoryError: There is no memory for the cells, 228 kB.
    """

    def __cinit__(self):
        self._cells = <int64_t *>calloc(2 * SIDE, sizeof(int64_t))
        if self._cells == NULL:
            raise MemoryError("no memory for a histogram of latencies")

    def __dealloc__(self):
        free(self._cells)

    cdef void add_latencies(self, Column sent, Column received) noexcept nogil:
        """Count received minus sent of each row."""
        cdef size_t index
        cdef int64_t latency
        for index in range(received.size):
            # A peer may send any time, so the difference may wrap.
            latency = <int64_t>(<uint64_t>received.numbers()[index]
                                - <uint64_t>sent.numbers()[index])
            self._cells[place_of(latency)] += 1
        self.count += received.size

    cdef void add_one(self, int64_t latency) noexcept nogil:
        """Count a latency."""
        self._cells[place_of(latency)] += 1
        self.count += 1

    def add(self, const int64_t[:] latencies) -> None:
        """Count latencies.

        Args:
            latencies: int64[n], signed ticks.
        """
        cdef Py_ssize_t index
        for index in range(latencies.shape[0]):
            self._cells[place_of(latencies[index])] += 1
        self.count += latencies.shape[0]

    def merge(self, LogHistogram other) -> None:
        """Add the latencies of another histogram."""
        cdef size_t cell
        for cell in range(2 * SIDE):
            self._cells[cell] += other._cells[cell]
        self.count += other.count

    def percentile(self, double rank) -> float | None:
        """Return a latency such that ``rank`` percent of all are not above it.

        Args:
            rank: From 0 to 100.

        Returns:
            float: Ticks, the middle of the cell with the latency of that rank; within
            0.2 % of it. None without a latency.
        """
        if self.count == 0:
            return None
        cdef double needed = max(rank / 100 * self.count, 1)
        cdef int64_t seen = 0
        cdef size_t cell = 0
        while True:
            seen += self._cells[cell]
            if seen >= needed:
                break
            cell += 1
        if cell >= SIDE:
            return middle_of(cell - SIDE)
        return -1 - middle_of(SIDE - 1 - cell)

    def counts_up_to(self, bounds: Sequence[float]) -> list[int]:
        """Return how many latencies are at or below each bound.

        A cell counts for a bound if its middle is at or below it, so a bound is exact to
        within 0.2 %.

        Args:
            bounds: Ticks, ascending and not below 0.

        Returns:
            list[int]: A count for each bound.
        """
        cdef int64_t seen = 0
        cdef size_t cell = 0
        cdef double bound
        found = []
        for bound in bounds:
            while cell < 2 * SIDE and (cell < SIDE or middle_of(cell - SIDE) <= bound):
                seen += self._cells[cell]
                cell += 1
            found.append(seen)
        return found

    def cells(self) -> list[tuple[int, int]]:
        """Return the middle of each cell with latencies, in whole ticks, and their number."""
        found = []
        for place in range(2 * SIDE):
            if self._cells[place]:
                middle = middle_of(place - SIDE) if place >= SIDE else (
                    -1 - middle_of(SIDE - 1 - place))
                found.append((int(middle), self._cells[place]))
        return found

    def clear(self) -> None:
        """Forget all latencies."""
        memset(self._cells, 0, 2 * SIDE * sizeof(int64_t))
        self.count = 0
