"""The inner loops of the analysis, for records that hardly repeat."""

import numpy

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t


cdef inline int64_t second_of(int64_t time, int64_t ticks) noexcept nogil:
    return time / ticks             # times are not negative


def second_latency_table(
        const int64_t[::1] sent, const int64_t[::1] received, const int64_t[::1] counts,
        int64_t ticks_per_second, int64_t most_cells,
) -> tuple[int, int, NDArray[np.int64]] | None:
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


def counts_per_second(
        const int64_t[::1] times, const int64_t[::1] counts, int64_t ticks_per_second,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add up neighbours of one second.

    Args:
        times: int64[n], 0 or later.
        counts: int64[n], messages at each.
        ticks_per_second: of the clock.

    Returns:
        (seconds, counts), int64[m], m <= n, in the order of the times; a second stands
        there again where another came between.
    """
    cdef Py_ssize_t index, last = -1, size = times.shape[0]
    cdef int64_t from_tick = 0, to_tick = 0
    made_seconds = numpy.empty(size, numpy.int64)
    made_counts = numpy.empty(size, numpy.int64)
    cdef int64_t[::1] seconds = made_seconds
    cdef int64_t[::1] sums = made_counts
    with nogil:
        for index in range(size):
            if times[index] >= to_tick or times[index] < from_tick:
                last += 1
                seconds[last] = second_of(times[index], ticks_per_second)
                sums[last] = 0
                from_tick = seconds[last] * ticks_per_second
                to_tick = from_tick + ticks_per_second
            sums[last] += counts[index]
    last += 1
    return made_seconds[:last].copy(), made_counts[:last].copy()


def arrivals_behind(
        const int64_t[::1] positions, const int64_t[::1] lengths or None,
        const int64_t[::1] counts or None, int64_t furthest) -> tuple[int, int]:
    """Count arrivals whose position is below that of an earlier one.

    Args:
        positions: int64[n], the first position of each row, which then counts up.
        lengths: int64[n], positions in each row, at least 1; None for 1 everywhere.
        counts: int64[n], arrivals at each position; None for 1 everywhere.
        furthest: the highest position of all before; the lowest int64 for none.

    Returns:
        (arrivals behind, the highest position now).
    """
    cdef Py_ssize_t index, size = positions.shape[0]
    cdef int64_t behind = 0, length, count = 1
    cdef bint long_rows = lengths is not None, weighted = counts is not None
    with nogil:
        if not long_rows:
            for index in range(size):
                if positions[index] < furthest:
                    behind += counts[index] if weighted else 1
                else:
                    furthest = positions[index]
        else:
            for index in range(size):
                length = lengths[index]
                if positions[index] < furthest:
                    if weighted:
                        count = counts[index]
                    # Unsigned: the difference of two int64 may need all 64 bits.
                    behind += count * <int64_t>min(
                        <uint64_t>furthest - <uint64_t>positions[index], <uint64_t>length)
                furthest = max(furthest, positions[index] + (length - 1))
    return behind, furthest


def falls(const int64_t[::1] times, int64_t highest) -> tuple[int, int, int]:
    """Find by how much times go back.

    Args:
        times: int64[n], in the order of a file; at least one.
        highest: the highest time before them; the lowest int64 for none.

    Returns:
        (the most by which a time is below an earlier one, the lowest time, the highest time now).
    """
    cdef Py_ssize_t index
    cdef int64_t largest = 0, lowest = times[0]
    with nogil:
        for index in range(times.shape[0]):
            if times[index] >= highest:
                highest = times[index]
            else:
                largest = max(largest, highest - times[index])
                lowest = min(lowest, times[index])
    return largest, lowest, highest


def joined_runs(
        const uint64_t[::1] firsts, const uint64_t[::1] lengths,
        labels: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.bool_] | None]:
    """Join runs of numbers with those before that they continue.

    Args:
        firsts: uint64[n], the first number of each run, which then counts up.
        lengths: uint64[n], numbers in each run, at least 1.
        labels: bool[n]; only runs of one label are joined. None for one label.

    Returns:
        (firsts, lengths, labels) of the m <= n runs; ``labels`` None as given.
    """
    cdef Py_ssize_t index, size = firsts.shape[0], last = -1
    cdef uint64_t first = 0, end = 0
    cdef bint labelled = labels is not None
    made_firsts = numpy.empty(size, numpy.uint64)
    made_lengths = numpy.empty(size, numpy.uint64)
    made_labels = numpy.empty(size if labelled else 0, numpy.uint8)
    cdef uint64_t[::1] new_firsts = made_firsts
    cdef uint64_t[::1] new_lengths = made_lengths
    cdef unsigned char[::1] new_labels = made_labels
    cdef const unsigned char[::1] old_labels = made_labels
    if labelled:
        old_labels = labels.view(numpy.uint8)
    with nogil:
        for index in range(size):
            if (last >= 0 and firsts[index] == end
                    and (not labelled or old_labels[index] == new_labels[last])):
                # In a register: adding to memory, each row would wait for the one before.
                end += lengths[index]
                continue
            if last >= 0:
                new_lengths[last] = end - first
            last += 1
            first = firsts[index]
            end = first + lengths[index]
            new_firsts[last] = first
            if labelled:
                new_labels[last] = old_labels[index]
        if last >= 0:
            new_lengths[last] = end - first
    last += 1
    found = made_labels[:last].view(numpy.bool_) if labelled else None
    return made_firsts[:last].copy(), made_lengths[:last].copy(), found


def located_pieces(
        const uint64_t[:] firsts, const uint64_t[:] lengths, const uint64_t[:] starts,
        const uint64_t[:] sizes,
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """Cut runs of numbers where runs of a table begin and end, and find each piece there.

    Args:
        firsts: uint64[n], the first number of each run of the table; they ascend and do
            not overlap.
        lengths: uint64[n], numbers in each, at least 1.
        starts: uint64[m], the first number of each run to find, in any order.
        sizes: uint64[m], numbers in each, at least 1.

    Returns:
        (pieces, sizes, origin, place), each [k], k >= m: the first number of each piece
        and its length, uint64; the run that it was cut from, and the row of the table that
        holds it, -1 for none, int64. Pieces of a run are in its order.
    """
    cdef Py_ssize_t found = 0, room = starts.shape[0]
    made = numpy.empty((4, room), numpy.int64)
    found = _locate(firsts, lengths, starts, sizes, made)
    if found > room:                # where rates are low few runs are cut
        made = numpy.empty((4, found), numpy.int64)
        _locate(firsts, lengths, starts, sizes, made)
    return (made[0, :found].view(numpy.uint64), made[1, :found].view(numpy.uint64),
            made[2, :found], made[3, :found])


cdef Py_ssize_t _locate(
        const uint64_t[:] firsts, const uint64_t[:] lengths, const uint64_t[:] starts,
        const uint64_t[:] sizes, int64_t[:, ::1] made) noexcept nogil:
    """Fill in as many pieces as there is room for; return how many there are."""
    cdef Py_ssize_t index, row = -1, found = 0, room = made.shape[1], rows = firsts.shape[0]
    cdef uint64_t number, stop, until
    cdef bint inside
    for index in range(starts.shape[0]):
        number = starts[index]
        stop = number + sizes[index]
        while number < stop:
            row = _row_at(firsts, row, number)
            inside = row >= 0 and number - firsts[row] < lengths[row]
            until = stop
            if inside:
                until = min(stop, firsts[row] + lengths[row])
            elif row + 1 < rows:
                until = min(stop, firsts[row + 1])
            if found < room:
                made[0, found] = <int64_t>number
                made[1, found] = <int64_t>(until - number)
                made[2, found] = index
                made[3, found] = row if inside else -1
            found += 1
            number = until
    return found


cdef inline Py_ssize_t _row_at(
        const uint64_t[:] firsts, Py_ssize_t row, uint64_t number) noexcept nogil:
    """Return the last row that begins at ``number`` or before, -1 for none.

    It is mostly the row that was found before, or the one after that.
    """
    cdef Py_ssize_t low = -1, high = firsts.shape[0], middle
    if row >= 0 and firsts[row] <= number:
        low = row
        for middle in range(row + 1, min(row + 4, firsts.shape[0])):
            if firsts[middle] > number:
                high = middle
                break
            low = middle
    while high - low > 1:
        middle = (low + high) // 2
        if firsts[middle] <= number:
            low = middle
        else:
            high = middle
    return low
