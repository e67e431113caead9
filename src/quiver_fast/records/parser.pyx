"""Files of records to columns of int64, whole or as they grow."""

import os

import numpy

from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memmove
from posix.unistd cimport read

from quiver_fast.records.columns cimport Column
from quiver_fast.records.lines cimport EXCERPT_SIZE, TEXT_MARGIN, UNKNOWN, LineParser
from quiver_fast.records.log_histogram cimport LogHistogram

from quiver_fast.records import formats
from quiver_fast.records.sampled_settlements import SampledSettlements
from quiver_fast.records.sources import PlainSource, open_source, skip_mark
from quiver_fast.records.transfers import TailBatch, Transfers

cdef enum:
    # Reads of this size stay in the cache between the kernel's copy and the parser.
    READ_SIZE = 262144
    # The longest record: an id of 1 MiB, all of it percent-encoded, with its times.
    LONGEST_LINE = 4194304

cdef int64_t LOW_HALF = 0xFFFFFFFF
PROGRESS_STEP = 32 * READ_SIZE


cdef class LineBuffer:
    """Bytes on their way from a file to a LineParser, which gets only whole lines."""

    def __cinit__(self):
        self._grow(READ_SIZE)

    def __dealloc__(self):
        free(self._memory)

    cdef int _grow(self, size_t capacity) except -1:
        cdef void *memory = realloc(self._memory, capacity + 2 * TEXT_MARGIN)
        if memory == NULL:
            raise MemoryError("no memory left for a line of records")
        self._memory = <unsigned char *>memory
        self._capacity = capacity
        return 0

    cdef bint cut(self, LineParser parser):
        """Say at the end of the text whether a record is incomplete.

        Bytes that cannot be the beginning of a record are a malformed line: they are too long,
        or have control characters, which the writer encodes.
        """
        cdef unsigned char *text = self._memory + TEXT_MARGIN
        cdef bint possible = not self._overlong
        cdef size_t index
        for index in range(self._used):
            possible = possible and text[index] >= c' '
        if not possible:
            parser.reject(text, text + self._used)
        return possible and self._used > 0

    cdef void clear(self) noexcept:
        """Forget the waiting bytes, to begin with other text."""
        self._used = 0
        self._overlong = False

    cdef Py_ssize_t feed(self, source, LineParser parser) except -1:
        """Read once and parse the new whole lines; return the number of bytes read."""
        cdef unsigned char *text = self._memory + TEXT_MARGIN
        cdef size_t room = self._capacity - self._used
        count = source.readinto(PyMemoryView_FromMemory(
            <char *>text + self._used, <Py_ssize_t>room, PyBUF_WRITE))
        self._used += <size_t>count
        if self._overlong:
            self._skip(text, parser)
        if not self._overlong:
            self._drop(<size_t>parser.parse(text, self._used))
            if self._used == self._capacity:
                self._make_room()
        return count

    cdef Py_ssize_t feed_file(
            self, int descriptor, size_t most, LineParser parser) except -1:
        """Parse up to ``most`` more bytes of a plain file, all of it without the GIL.

        Threads that take the GIL for every read mostly wait for each other. Stops if :meth:`feed`
        must do the next step, and at the end of the file. Returns the number of bytes read.
        """
        cdef unsigned char *text = self._memory + TEXT_MARGIN
        cdef size_t room, total = 0
        cdef ssize_t count
        if parser._layout == UNKNOWN or self._overlong:
            return 0
        with nogil:
            while total < most and self._used < self._capacity and not parser.full():
                room = min(self._capacity - self._used, most - total)
                count = read(descriptor, text + self._used, room)
                if count <= 0:
                    break
                total += <size_t>count
                self._used += <size_t>count
                self._drop(<size_t>parser.parse_known(text, self._used))
        if self._used == self._capacity:
            self._make_room()
        return <Py_ssize_t>total

    cdef int _make_room(self) except -1:
        """Keep a long line, or the excerpt of a line that is too long."""
        if self._capacity < LONGEST_LINE:
            return self._grow(2 * self._capacity)
        self._overlong = True
        self._used = EXCERPT_SIZE
        return 0

    cdef void _skip(self, unsigned char *text, LineParser parser) noexcept:
        """Skip the rest of an overlong line; at its end reject it by its excerpt."""
        cdef unsigned char *newline = <unsigned char *>memchr(
            text + EXCERPT_SIZE, c'\n', self._used - EXCERPT_SIZE)
        if newline == NULL:
            self._used = EXCERPT_SIZE
            return
        parser.reject(text, text + EXCERPT_SIZE)
        self._overlong = False
        self._drop(newline + 1 - text)

    cdef void _drop(self, size_t size) noexcept nogil:
        self._used -= size
        memmove(self._memory + TEXT_MARGIN, self._memory + TEXT_MARGIN + size, self._used)


def read_transfers(
        path: str | os.PathLike[str], *, record_format: str | None = None,
        operation: str | None = None,
        progress: Callable[[int, int], None] | None = None) -> Transfers:
    """Read every record of a file, plain or compressed (by its first bytes).

    Malformed lines are counted and not fatal, and so are a last line without newline and
    unfinished compressed data (``truncated``).

    Args:
        path: The file; it must be seekable.
        record_format: ``"v1"``, ``"v2"`` or ``"v3"``; by default the first line that fits
            one decides (:func:`quiver_fast.records.formats.detect`).
        operation: ``"send"`` or ``"receive"``; by default that line decides too.
        progress: Called now and then, and at the end, with the number of bytes read and
            the size of the file.

    Returns:
        quiver_fast.records.transfers.Transfers.

    Raises:
        OSError: If the file cannot be read.
        RecordError: If compressed data is damaged.
        ValueError: If ``record_format`` or ``operation`` is unknown.
    """
    cdef LineBuffer buffer = LineBuffer()
    cdef LineParser parser = LineParser(record_format, operation)
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        source = open_source(file)
        reported = 0
        while buffer.feed(source, parser) > 0:
            if progress is not None and file.tell() - reported >= PROGRESS_STEP:
                reported = file.tell()
                progress(reported, size)
        if progress is not None:
            progress(file.tell(), size)
    return transfers_of(
        parser, record_format is None, buffer.cut(parser) or source.truncated)


cdef transfers_of(LineParser parser, bint detected, bint truncated):
    """Hand the columns over; nothing may be parsed after that."""
    receiving = parser.operation == formats.RECEIVE
    record_format = parser.record_format
    if detected and parser.settled_times.size > 0:
        record_format = formats.V2
    settling = record_format is not None and parser.operation is not None and (
        formats.has_settlements(record_format, parser.operation))
    has_ids = record_format is not None and formats.has_ids(record_format)
    return Transfers(
        record_format=record_format,
        operation=parser.operation,
        time_unit=parser.unit() or "ms",
        sent=array(parser.sent),
        received=array(parser.received) if receiving else None,
        ids=array(parser.ids) if has_ids else None,
        ids_hashed=parser.ids_hashed,
        settled_ids=array(parser.settled_ids) if settling else None,
        settled_times=array(parser.settled_times) if settling else None,
        settled_sampled=array(parser.settled_sampled) if settling else None,
        malformed=parser.malformed,
        first_malformed=parser.first_malformed(),
        truncated=truncated,
        streamed=parser.taken_streams(),
        ends=parser.ends.taken(parser.sent.size),
        ids_high=parser.id_hashes.taken(parser.ids.size)[0],
        settled_ids_high=parser.settled_id_hashes.taken(parser.settled_ids.size)[0])


cdef array(Column column):
    column.shrink()
    return numpy.asarray(column)


cdef class TransferTail:
    """Follows a growing file of records without keeping them; each record counts once.

    Args:
        path: The file, plain, not compressed.
        operation: ``"send"`` or ``"receive"``.
        record_format: ``"v1"``, ``"v2"`` or ``"v3"``; by default detected.
        run_start: Epoch milliseconds. A receipt of a message that was sent before, or in
            another clock unit than the receiver's, is of an earlier run and is left out.
            None leaves nothing out.
        own_ids: Also leave out receipts whose id is no decimal number: the receiver records
            the ids of its run as numbers, and all others unchanged.
        settlements: Join the ``S`` lines of a sender to its sends.

    Raises:
        OSError: If the file cannot be opened.
        ValueError: If ``operation`` or ``record_format`` is unknown.
    """

    cdef LineBuffer _buffer
    cdef LineParser _parser
    cdef object _file
    cdef object _time_unit
    cdef object _run_start
    cdef object _settlements
    cdef LogHistogram _latencies    # of one call of read()
    cdef bint _selects              # receipts may be left out
    cdef int64_t _first_own         # send times of this run: from here ...
    cdef int64_t _end_own           # ... to below here
    cdef bint _own_ids              # ids of this run are numbers

    def __init__(self, path: str | os.PathLike[str], operation: str,
                 record_format: str | None = None, run_start: int | None = None,
                 own_ids: bool = False, settlements: bool = False) -> None:
        self._parser = LineParser(record_format, operation)
        self._buffer = LineBuffer()
        self._file = open(path, "rb", buffering=0)
        self._time_unit = None
        self._run_start = run_start
        self._selects = run_start is not None or own_ids
        self._settlements = SampledSettlements() if settlements else None
        self._latencies = LogHistogram()
        self._own_ids = own_ids

    def __enter__(self) -> TransferTail:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def latencies(self) -> LogHistogram:
        """The latencies of the last :meth:`read`, in ticks; valid until the next one."""
        return self._latencies

    def read(self, until: int | None = None) -> TailBatch:
        """Parse the lines that were completed since the last call.

        Args:
            until: Size up to which the file is read; None for all of it.

        Returns:
            quiver_fast.records.transfers.TailBatch.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If the tail is closed.
        """
        cdef LineParser parser = self._parser
        cdef Column times = (
            parser.received if parser.operation == formats.RECEIVE else parser.sent)
        cdef int64_t malformed = parser.malformed
        count = settled = latency_sum = body_bytes = 0
        sampled = sampled_sum = 0
        first_time = last_time = None
        if self._file.tell() == 0 and not skip_mark(self._file):
            until = 0
        source = PlainSource(self._file, until)
        self._latencies.clear()
        while self._buffer.feed(source, parser) > 0:
            if self._time_unit is None and parser.unit() is not None:
                self._set_unit(parser.unit())
            if self._selects and parser.operation == formats.RECEIVE:
                self._keep_own()
            if times.size > 0:
                if first_time is None:
                    first_time = times.numbers()[0]
                last_time = times.numbers()[times.size - 1]
            count += times.size
            settled += parser.settled_times.size
            latency_sum += sum_of_latencies(parser.sent, parser.received)
            with nogil:
                self._latencies.add_latencies(parser.sent, parser.received)
            body_bytes += parser.body_bytes
            if self._settlements is not None and parser.ids.size == parser.sent.size:
                found, found_sum = self._settlements.add(
                    copied(parser.ids), copied(parser.sent), copied(parser.settled_ids),
                    copied(parser.settled_times), copied(parser.settled_sampled),
                    parser.id_hashes.taken(parser.ids.size)[0],
                    parser.settled_id_hashes.taken(parser.settled_ids.size)[0])
                sampled += found
                sampled_sum += found_sum
            parser.clear()
        return TailBatch(
            count=count,
            first_time=first_time,
            last_time=last_time,
            latency_sum=latency_sum,
            settled=settled,
            malformed=parser.malformed - malformed,
            time_unit=self._time_unit or "ms",
            body_bytes=body_bytes,
            sampled=sampled,
            sampled_sum=sampled_sum)

    cdef _set_unit(self, unit):
        """Note the receiver's unit; times of this run have the same number of digits."""
        self._time_unit = unit
        ticks = formats.UNITS_PER_SECOND[unit] // 1000
        self._first_own = 0 if self._run_start is None else self._run_start * ticks
        limited = self._run_start is not None and unit != "ns"
        self._end_own = 10 ** (formats.TIME_DIGITS[unit] + 1) if limited else INT64_MAX

    cdef void _keep_own(self) noexcept:
        """Move the rows of this run's messages to the front, and drop the others."""
        cdef Column sent = self._parser.sent, received = self._parser.received
        cdef Column ids = self._parser.ids
        cdef bint by_ids = self._own_ids and ids.size == sent.size
        cdef size_t index, kept = 0, hashes = 0
        cdef bint hashed
        cdef int64_t time
        with nogil:
            for index in range(sent.size):
                time = sent.numbers()[index]
                hashed = self._parser.id_hashes.at(hashes, index)
                hashes += hashed
                if time < self._first_own or time >= self._end_own or (by_ids and hashed):
                    continue
                sent.numbers()[kept] = time
                received.numbers()[kept] = received.numbers()[index]
                kept += 1
        sent.size = received.size = kept


cdef copied(Column column):
    """Return a copy of the numbers of a column, which will be filled anew."""
    return numpy.array(column)


cdef sum_of_latencies(Column sent, Column received):
    """Return the exact sum: halves of 32 bits cannot overflow, whatever a peer sends."""
    cdef int64_t high = 0, low = 0, latency
    cdef size_t index
    with nogil:
        for index in range(received.size):
            latency = received.numbers()[index] - sent.numbers()[index]
            high += latency >> 32
            low += latency & LOW_HALF
    return (int(high) << 32) + low
