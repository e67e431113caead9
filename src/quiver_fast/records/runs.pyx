"""Files of records as run-length records: neighbours that are equal become one row.

Above some 100,000 messages per second nearly every line repeats the one before, so that
a run costs one parsed line and a search for the first byte that differs.
"""

import os

import numpy

from cpython.object cimport PyObject
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memchr

from quiver_fast.records.columns cimport Column, HashedRows
from quiver_fast.records.digits cimport decimal, load_text8
from quiver_fast.records.lines cimport (
    MS_RECEIVED_LINE, MS_SENT_LINE, RECEIVED, RECEIVED_WITH_ID, SENT, SENT_WITH_ID, UNKNOWN,
    LineParser, ms_time)
from quiver_fast.records.parser cimport LineBuffer

from quiver_fast.records import formats
from quiver_fast.records.sources import Place, is_compressed, open_place, open_source
from quiver_fast.records.transfers import RunBatch

ctypedef const unsigned char *Text

cdef enum:
    # A batch is handed over when it is this full; rows of one more read are cut off.
    ENOUGH_RUNS = 16384
    # The same for bytes of kept ids.
    ENOUGH_TEXT = 4194304
    # Room for batches is made in steps of so many numbers.
    ROOM_STEP = 16384
    # Batches whose room is used again: the consumer has one or two, and so does a queue.
    MOST_ROOMS = 4
    # Bytes of a plain file between two checks of signals and progress.
    STEP = 8388608
    # An id of 19 digits may reach 2^63, beyond which it is a hash and no number.
    MOST_COUNTED_DIGITS = 18

MOST_RUNS = 32768
_LOOK_AHEAD = 4096


def instruction_sets() -> tuple[str, ...]:
    """Return the names of the scanners that run on this machine, the fastest first."""
    names = []
    while scanner_at(len(names)).name != NULL:
        names.append(scanner_at(len(names)).name.decode())
    return tuple(names)


cdef class RunParser(LineParser):
    """Parses whole lines and appends them, run by run, to its columns.

    Args:
        record_format: As for LineParser.
        operation: As for LineParser.
        id_key: As for LineParser.
        unit: As for LineParser.

    Raises:
        ValueError: If one of them is unknown.
    """

    def __cinit__(self, record_format: str | None = None, operation: str | None = None,
                  id_key: bytes | None = None, unit: str | None = None) -> None:
        self._scanner = scanner_at(0)
        self._rooms = []
        self.counts = Column()
        self.settled_counts = Column()

    cdef bint full(self) noexcept nogil:
        return max(
            self.sent.size, self.settled_ids.size, self.stream_sent.size) >= ENOUGH_RUNS or (
            self.id_hashes.text_size() + self.settled_id_hashes.text_size() >= ENOUGH_TEXT)

    cdef int _reserve(self, size_t lines) except -1 nogil:
        LineParser._reserve(self, lines)
        self.counts.reserve(lines)
        if self._settlements:
            self.settled_counts.reserve(lines)
        return 0

    cdef size_t _parse_lines(self, const unsigned char *text, size_t size) noexcept nogil:
        cdef Text line = text
        cdef Text end = text + size
        cdef Text following = line
        while following != NULL:
            line = self._take_lines(following, end)
            following = self._take_run(line, end)
        return line - text

    cdef TakeLines _taker(self) noexcept nogil:
        """Return the taker of the layout by vectors; NULL if there is none."""
        if self._layout == RECEIVED:
            return self._scanner.take_ms_received
        if self._layout == SENT:
            return self._scanner.take_ms_sent
        if self._layout == RECEIVED_WITH_ID:
            return self._scanner.take_id_received
        return self._scanner.take_id_sent

    cdef const unsigned char *_take_lines(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        """Take the lines in milliseconds by vectors; return the first other line."""
        cdef TakeLines take = self._taker()
        cdef int64_t *settled_ids = NULL
        cdef Rows rows
        if take == NULL or not self._in_ms():
            return line
        # The first row of an end continues none before it.
        if self.ends.begins_at(self.sent.size):
            return line
        # A hash is no number that the next id could continue.
        if self._hashed_some and self._ends_hashed():
            return line
        if self._settlements:
            settled_ids = self.settled_ids.numbers()
        rows = Rows(
            self.ids.numbers(), self.sent.numbers(), self.received.numbers(),
            self.counts.numbers(), self.sent.size,
            settled_ids, self.settled_times.numbers(), self.settled_counts.numbers(),
            self.settled_sampled.flags(), self.settled_ids.size, 0, self._scanner.successors)
        line = take(line, end, &rows)
        self.sent.size = self.counts.size = rows.size
        if self._layout == RECEIVED or self._layout == RECEIVED_WITH_ID:
            self.received.size = rows.size
        if self._layout == SENT_WITH_ID or self._layout == RECEIVED_WITH_ID:
            self.ids.size = rows.size
        if self._settlements:
            self.settled_ids.size = self.settled_times.size = rows.settled_size
            self.settled_sampled.size = self.settled_counts.size = rows.settled_size
        self.lines += rows.lines
        return line

    cdef bint _ends_hashed(self) noexcept nogil:
        return (self.id_hashes.ends_with(self.ids.size - 1)
                or self.settled_id_hashes.ends_with(self.settled_ids.size - 1))

    cdef const unsigned char *_take_run(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        """Take a line and those that continue it; return the end, or NULL."""
        cdef size_t transfers = self.sent.size, settlements = self.settled_ids.size
        cdef size_t streamed = self.stream_sent.size
        cdef int64_t ends = self.ends.lines
        cdef size_t width, more
        cdef Text following = self._take_line(line, end)
        if following == NULL:
            return NULL
        width = following - line
        if self.stream_sent.size > streamed or self.ends.lines > ends:
            self.lines += 1
            return following
        if self.sent.size == transfers and self.settled_ids.size == settlements:
            self.reject(line, following - 1)
            return following
        more = 0
        # At low rates lines differ, mostly in the last digits of a time.
        if (end - following >= <ptrdiff_t>width
                and load_text8(following + width - 8) == load_text8(line + width - 8)):
            if self._layout == SENT or self._layout == RECEIVED:
                more = self._scanner.repeats(line, width, end)
            else:
                more = self._successors(line, width, end)
        self.lines += 1 + more
        if self.sent.size > transfers:
            self._join_transfer(1 + more)
        else:
            self._join_settlement(1 + more)
        return following + more * width

    cdef const unsigned char *_take_line(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        """Parse a line if it is a whole record; return its end, NULL if it is incomplete."""
        cdef Text following = self._take_ms_line(line, end)
        cdef Text newline
        if following != NULL:
            return following
        newline = <Text>memchr(line, c'\n', end - line)
        if newline == NULL:
            return NULL
        self._parse_line(line, newline)
        return newline + 1

    cdef const unsigned char *_take_ms_line(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        """Take a v3 line of the fixed layout; NULL for another line."""
        if not self._in_ms():
            return NULL
        if self._layout == RECEIVED:
            if (end - line < MS_RECEIVED_LINE or line[13] != c',' or line[27] != c'\n'
                    or not ms_time(line, &self._prefix, self.sent.numbers() + self.sent.size)
                    or not ms_time(line + 14, &self._prefix,
                                   self.received.numbers() + self.received.size)):
                return NULL
            self.sent.size += 1
            self.received.size += 1
            return line + MS_RECEIVED_LINE
        if self._layout == SENT:
            if (end - line < MS_SENT_LINE or line[13] != c',' or line[14] != c'0'
                    or line[15] != c'\n'
                    or not ms_time(line, &self._prefix, self.sent.numbers() + self.sent.size)):
                return NULL
            self.sent.size += 1
            return line + MS_SENT_LINE
        return NULL

    cdef size_t _successors(
            self, const unsigned char *line, size_t width,
            const unsigned char *end) noexcept nogil:
        """Count the lines after a line with an id that differ only by counting it up."""
        cdef Text comma = <Text>memchr(line, c',', width)
        cdef Text id = line
        cdef int64_t value
        if self._settlements and line[0] in (c'S', c's'):
            id += 1
        # An id that is no number is a hash: its text may look as if it counted.
        if comma - id > MOST_COUNTED_DIGITS or not decimal(id, comma - id, &value):
            return 0
        if id[0] == c'0' and comma - id > 1:
            return 0
        return self._scanner.successors(line, width, id - line, comma - 1 - line, end)

    cdef void _join_transfer(self, int64_t count) noexcept nogil:
        """Set the count of the last row, or add it to the row that it continues."""
        cdef size_t last = self.sent.size - 1
        cdef int64_t *counts = self.counts.numbers()
        cdef bint with_ids = self._layout == SENT_WITH_ID or self._layout == RECEIVED_WITH_ID
        cdef bint receiving = self._layout == RECEIVED or self._layout == RECEIVED_WITH_ID
        if (last == 0 or self.ends.begins_at(last)
                or self.sent.numbers()[last] != self.sent.numbers()[last - 1]
                or (receiving
                    and self.received.numbers()[last] != self.received.numbers()[last - 1])
                or (with_ids and (hashed(self.id_hashes, last)
                                  or not continues(self.ids.numbers(), counts, last)))):
            counts[last] = count
            self.counts.size = last + 1
            return
        counts[last - 1] += count
        self.sent.size = last
        if receiving:
            self.received.size = last
        if with_ids:
            self.ids.size = last

    cdef void _join_settlement(self, int64_t count) noexcept nogil:
        """Set the count of the last row of settlements, or add it to the row before."""
        cdef size_t last = self.settled_ids.size - 1
        cdef int64_t *counts = self.settled_counts.numbers()
        if (last == 0
                or self.settled_times.numbers()[last] != self.settled_times.numbers()[last - 1]
                or self.settled_sampled.flags()[last] != self.settled_sampled.flags()[last - 1]
                or hashed(self.settled_id_hashes, last)
                or not continues(self.settled_ids.numbers(), counts, last)):
            counts[last] = count
            self.settled_counts.size = last + 1
            return
        counts[last - 1] += count
        self.settled_ids.size = last
        self.settled_times.size = last
        self.settled_sampled.size = last

    cdef void restart(self, record_format, operation, unit) noexcept:
        """Begin with another split and empty columns; detect the unknown properties."""
        self.record_format, self.operation = record_format, operation
        if record_format is None or operation is None:
            self._layout = UNKNOWN
            self._settlements = False
        self._settle_unit(unit)
        self.ends.forget()
        self.ids_hashed = self._hashed_some = False
        self.lines = self._lines_taken = 0
        self.malformed = self._malformed_taken = 0
        self._first_malformed = 0

    def take(self, bint truncated, bint final):
        """Return the runs so far as batches and forget them.

        The last run of each table stays, unless this is the end, because it may grow.
        """
        ends = self.ends.taken(rows_to_take(self.sent, final))
        ids_high, texts = self.id_hashes.taken(rows_to_take(self.ids, final))
        settled_ids_high, settled_texts = self.settled_id_hashes.taken(
            rows_to_take(self.settled_ids, final))
        sent, counts, received, ids = self._taken_together(
            [self.sent, self.counts, self.received, self.ids], final)
        settled_sampled = taken(self.settled_sampled, final)
        settled_ids, settled_times, settled_counts = self._taken_together(
            [self.settled_ids, self.settled_times, self.settled_counts], final)
        streamed = self.taken_streams()
        self.clear_streams()
        record_format = self.record_format
        if self._settlements and len(settled_ids) > 0:
            record_format = formats.V2
        receiving = self.operation == formats.RECEIVE
        with_ids = record_format is not None and formats.has_ids(record_format)
        batches = []
        for start in range(0, max(len(sent), len(settled_ids), 1), MOST_RUNS):
            part = slice(start, start + MOST_RUNS)
            batches.append(RunBatch(
                record_format=record_format,
                operation=self.operation,
                sent=sent[part],
                received=received[part] if receiving else None,
                count=counts[part],
                ids=ids[part] if with_ids else None,
                settled_ids=settled_ids[part],
                settled_times=settled_times[part],
                settled_sampled=settled_sampled[part],
                settled_count=settled_counts[part],
                ids_hashed=self.ids_hashed,
                lines=self.lines - self._lines_taken,
                malformed=self.malformed - self._malformed_taken,
                first_malformed=self.first_malformed(),
                truncated=truncated,
                streamed=streamed if start == 0 else None,
                ends=None if ends is None else ends[part],
                next_end=self.ends.following(),
                ids_high=None if ids_high is None else ids_high[part],
                settled_ids_high=(
                    None if settled_ids_high is None else settled_ids_high[part]),
                id_texts=texts_of(texts, ids_high, part),
                settled_id_texts=texts_of(settled_texts, settled_ids_high, part)))
            self._lines_taken = self.lines
            self._malformed_taken = self.malformed
        return batches

    cdef list _taken_together(self, list columns, bint final):
        """Copy the complete rows of columns of equal length, or empty, and forget them."""
        cdef Column column
        cdef size_t count = rows_to_take(columns[0], final), end = 0
        room = self._room(len(columns) * count)
        copies = []
        for column in columns:
            if column.size == 0:
                copies.append(room[:0])
                continue
            values = numpy.asarray(column)
            copy = room[end:end + count]
            copy[:] = values[:count]
            copies.append(copy)
            end += count
            column.size -= count
            if column.size:
                values[:1] = values[count:]
        return copies

    cdef object _room(self, size_t size):
        """Return an int64 array of at least ``size``, to which no batch refers any more.

        New arrays would need new pages, which cost as much as parsing.
        """
        cdef size_t steps = (size + ROOM_STEP - 1) // ROOM_STEP
        for room in self._rooms:
            # The list, this loop and each view of it refer to it.
            if (<PyObject *>room).ob_refcnt == 2 and <size_t>room.size >= size:
                return room
        room = numpy.empty(steps * ROOM_STEP, numpy.int64)
        self._rooms = [room, *self._rooms[:MOST_ROOMS - 1]]
        return room


cdef inline bint continues(
        const int64_t *ids, const int64_t *counts, size_t last) noexcept nogil:
    """Say whether an id continues the ids of the run before it."""
    return <uint64_t>ids[last] == <uint64_t>ids[last - 1] + <uint64_t>counts[last - 1]


cdef inline bint hashed(HashedRows hashes, size_t last) noexcept nogil:
    """Say whether an id or the one before is a hash, which continues nothing."""
    return hashes.ends_with(last) or hashes.ends_with(last - 1)


cdef texts_of(texts, highs, part):
    """Return the kept ids of a part's rows that are hashes; None if there are none."""
    if not texts:
        return None
    before = int(numpy.count_nonzero(highs[:part.start]))
    return texts[before:before + int(numpy.count_nonzero(highs[part]))]


cdef size_t rows_to_take(Column column, bint final) noexcept:
    """Return how many rows are complete: all except an open last one."""
    return column.size if final or column.size == 0 else column.size - 1


cdef taken(Column column, bint final):
    """Copy the complete rows of a column and forget them."""
    cdef size_t count = rows_to_take(column, final)
    values = numpy.array(column)
    column.size -= count
    if column.size:
        numpy.asarray(column)[:1] = values[count:]
    return values[:count]


cdef line_start(file, offset, size):
    """Return the beginning of the first line at ``offset`` or later."""
    if offset <= 0 or offset >= size:
        return min(max(offset, 0), size)
    # A line begins at the offset itself if a newline is before it.
    file.seek(offset - 1)
    position = offset - 1
    while text := file.read(_LOOK_AHEAD):
        newline = text.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        position += len(text)
    return size


def scan_runs(
        path: Place, *, start: int = 0, end: int | None = None,
        record_format: str | None = None, operation: str | None = None,
        progress: Callable[[int, int], None] | None = None,
        instruction_set: str | None = None, id_key: bytes | None = None, unit: str | None = None,
        keep_texts: bool = False) -> Iterator[RunBatch]:
    """Yield the run-length records of a file, or of a split of it, in constant memory.

    A split of a plain file owns the lines that begin in it, so that neighbouring splits
    share no line and miss none. A split of a zstd file begins and ends with a frame
    (:meth:`quiver_fast.records.frames.OpenRecords.splits`); any other compressed file is one split.
    Malformed and truncated lines are counted as
    :func:`quiver_fast.records.parser.read_transfers` does.

    Args:
        path: The file, plain or compressed; it must be seekable. Or a function that opens it
            (:data:`quiver_fast.records.sources.Place`).
        start: Offset of the split in the file, in bytes.
        end: Offset of its end; None for the end of the file.
        record_format: ``"v1"``, ``"v2"`` or ``"v3"``; by default the first line of the
            split that fits one decides.
        operation: ``"send"`` or ``"receive"``; by default that line decides too.
        progress: Called now and then, and at the end, with the present offset and the size
            of the file.
        instruction_set: The scanner, one of :func:`instruction_sets`; by default the first.
        id_key: Key of 16 bytes for hashing ids that are no numbers; by default the process's
            own. Only ids with the same key can be compared.
        unit: Of the arrow's own times: ``"ms"``, ``"us"`` or ``"ns"``; lines with one in
            another unit are malformed. By default the first of the split decides.
        keep_texts: Whether batches also have the text of ids that are no numbers.

    Yields:
        quiver_fast.records.transfers.RunBatch: at least one, the last with the facts of
        the whole split.

    Raises:
        OSError: If the file cannot be read.
        RecordError: If compressed data is damaged.
        ValueError: If a format, operation, unit or instruction set is unknown.
    """
    splits = scan_splits(
        path, [(start, end)], record_format=record_format, operation=operation,
        progress=progress, instruction_set=instruction_set, id_key=id_key,
        unit=unit, keep_texts=keep_texts)
    for batch in splits:
        if batch is not None:
            yield batch


def scan_splits(
        path: Place, splits: Iterable[tuple[int, int | None]], *,
        record_format: str | None = None, operation: str | None = None,
        progress: Callable[[int, int], None] | None = None,
        instruction_set: str | None = None, id_key: bytes | None = None, unit: str | None = None,
        keep_texts: bool = False) -> Iterator[RunBatch | None]:
    """Yield the batches of several splits, as :func:`scan_runs` does, and None after each.

    The splits share the memory of one.

    Args:
        path: As for :func:`scan_runs`.
        splits: (start, end) of each.
        record_format: As there; and so are the others.
        operation: As there.
        progress: As there.
        instruction_set: As there.
        id_key: As there.
        unit: As there.
        keep_texts: As there.
    """
    cdef LineBuffer buffer = LineBuffer()
    cdef RunParser parser = RunParser(record_format, operation, id_key, unit)
    parser.keep_texts = keep_texts
    if instruction_set is not None:
        parser._scanner = scanner_at(instruction_sets().index(instruction_set))
    with open_place(path) as file:
        for split in splits:
            yield from scan_split(file, *split, parser, buffer, progress)
            yield None
            parser.restart(record_format, operation, unit)
            buffer.clear()


def scan_split(file, start, end, RunParser parser, LineBuffer buffer, progress):
    """Yield the batches of one split of an open file."""
    size = file.seek(0, os.SEEK_END)
    limit = None if end is None or end >= size else end
    if not is_compressed(file):
        start = line_start(file, start, size)
        limit = None if limit is None else max(start, line_start(file, limit, size))
    source = open_source(file, start, limit)
    reported = start
    while buffer.feed(source, parser) > 0:
        if source.descriptor is not None:
            source.skip(buffer.feed_file(
                source.descriptor, min(<size_t>source.left, <size_t>STEP), parser))
        if progress is not None and file.tell() - reported >= STEP:
            reported = file.tell()
            progress(reported, size)
        if parser.full():
            yield from parser.take(False, False)
    if progress is not None:
        progress(file.tell(), size)
    cut = buffer.cut(parser)
    yield from parser.take(cut or source.truncated, True)
