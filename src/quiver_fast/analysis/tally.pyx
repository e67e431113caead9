"""The inner loop of the latency histogram, for records that hardly repeat."""

import numpy

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t


cdef inline int64_t second_of(int64_t time, int64_t ticks) noexcept nogil:
    return time / ticks             # times are not negative


def second_latency_table(
        const int64_t[::1] sent, const int64_t[::1] received, const int64_t[::1] counts,
        int64_t ticks_per_second, int64_t most_cells):
    """Add up runs in a table of seconds by latencies.

    Args:
        sent: int64[n], send times, 0 or later; n at least 1.
        received: int64[n], receive times, likewise.
        counts: int64[n], messages in each run.
        ticks_per_second: of the clock.
        most_cells: the largest table that may be made.

    Returns:
        (first second, lowest latency, int64[seconds, latencies]); None if the table would
        be larger.
    """
    cdef Py_ssize_t index, size = sent.shape[0]
    cdef int64_t first = INT64_MAX, last = INT64_MIN, low = INT64_MAX, high = INT64_MIN
    cdef int64_t latency, from_tick = 0, to_tick = 0, width
    cdef int64_t[:, ::1] cells
    cdef int64_t *row = NULL
    with nogil:
        for index in range(size):
            latency = received[index] - sent[index]
            low = min(low, latency)
            high = max(high, latency)
            first = min(first, received[index])
            last = max(last, received[index])
    first = second_of(first, ticks_per_second)
    last = second_of(last, ticks_per_second)
    # In Python's integers, which do not overflow.
    if (int(last) - first + 1) * (int(high) - low + 1) > most_cells:
        return None
    width = high - low + 1
    table = numpy.zeros((last - first + 1, width), numpy.int64)
    cells = table
    with nogil:
        for index in range(size):
            # Neighbours are of one second: divide only when it ends.
            if received[index] >= to_tick or received[index] < from_tick:
                from_tick = second_of(received[index], ticks_per_second) * ticks_per_second
                to_tick = from_tick + ticks_per_second
                row = &cells[from_tick / ticks_per_second - first, 0]
            row[received[index] - sent[index] - low] += counts[index]
    return first, low, table
