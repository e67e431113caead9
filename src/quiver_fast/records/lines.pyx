"""Whole lines of text to columns: the grammar of records, and nothing else.

Every line that ends in a newline is a record, a settlement, or malformed. A time is 1
to 19 digits that make an integer of 63 bits: no sign, no space, no carriage return. An
id is any bytes without a comma (:mod:`quiver_fast.records.ids`). It is empty only for a
receiver's message of others without an id. The arrow's own times have one unit, that of
the first time.
"""

import numpy

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.string cimport memchr, memcpy

from quiver_fast.records.columns cimport Column, EndRows, HashedRows
from quiver_fast.records.digits cimport MOST_DIGITS, decimal
from quiver_fast.records.id_hash cimport IdKey, hashed_id

from quiver_fast.records import formats
from quiver_fast.records.ids import key_or_own
from quiver_fast.records.transfers import Streamed

ctypedef const unsigned char *Text

cdef enum:
    SHORTEST_LINE = 3               # '@0\n'

cdef uint64_t EIGHT_ZEROS = 0x3030303030303030

# The last time of milliseconds and of microseconds (formats.UNIT_RANGES).
cdef int64_t LAST_MS = formats.UNIT_RANGES["ms"][1] - 1
cdef int64_t LAST_US = formats.UNIT_RANGES["us"][1] - 1


cdef class LineParser:
    """Parses whole lines and appends their fields to its columns.

    Args:
        record_format: ``"v1"``, ``"v2"``, ``"v3"``, or None to detect it.
        operation: ``"send"``, ``"receive"``, or None to detect it.
        id_key: The key for hashing ids that are no numbers; None for the process's own.
        unit: Of the arrow's own times, ``"ms"``, ``"us"`` or ``"ns"``; None to detect it.

    Raises:
        ValueError: If an argument is unknown.
    """

    def __cinit__(self, record_format: str | None = None, operation: str | None = None,
                  id_key: bytes | None = None, unit: str | None = None) -> None:
        if record_format not in (None, *formats.RECORD_FORMATS):
            raise ValueError(f"no such record format: {record_format!r}")
        if operation not in (None, *formats.OPERATIONS):
            raise ValueError(f"no such operation: {operation!r}")
        if unit not in (None, *formats.UNIT_RANGES):
            raise ValueError(f"no such unit: {unit!r}")
        self.record_format = record_format
        self.operation = operation
        key = key_or_own(id_key)
        self._id_key = IdKey(
            int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little"))
        self._settle_unit(unit)
        self._width = MS_DIGITS
        self._prefix.text = EIGHT_ZEROS
        self.sent = Column()
        self.received = Column()
        self.ids = Column()
        self.id_hashes = HashedRows()
        self.ends = EndRows()
        self.settled_ids = Column()
        self.settled_id_hashes = HashedRows()
        self.settled_times = Column()
        self.settled_sampled = Column(True)
        self.stream_sent = Column()
        self.stream_first = Column()
        self.stream_time = Column()
        self.stream_bytes = Column()
        self.stream_whole = Column(True)
        if record_format is not None and operation is not None:
            self._settle_layout()

    cdef Py_ssize_t parse(self, const unsigned char *text, size_t size) except -1:
        """Parse the whole lines at the beginning of ``text``; return their bytes.

        ``TEXT_MARGIN`` bytes before and after the text must be readable.
        """
        cdef size_t done = 0
        if self._layout == UNKNOWN:
            done = self._detect(text, size)
            if self._layout == UNKNOWN:
                return <Py_ssize_t>done
        with nogil:
            done += <size_t>self.parse_known(text + done, size - done)
        return <Py_ssize_t>done

    cdef Py_ssize_t parse_known(
            self, const unsigned char *text, size_t size) except -1 nogil:
        """Parse the whole lines of known layout at the beginning of ``text``."""
        self._reserve(size / SHORTEST_LINE + 1)
        return <Py_ssize_t>self._parse_lines(text, size)

    cdef bint full(self) noexcept nogil:
        """Say whether the columns should be emptied before they take more."""
        return False

    cdef void clear(self) noexcept nogil:
        """Empty the columns; all other state stays."""
        self.sent.size = 0
        self.received.size = 0
        self.ids.size = 0
        self.id_hashes.clear()
        self.ends.clear()
        self.settled_ids.size = 0
        self.settled_id_hashes.clear()
        self.settled_times.size = 0
        self.settled_sampled.size = 0
        self.clear_streams()

    cdef void clear_streams(self) noexcept nogil:
        self.stream_sent.size = 0
        self.stream_first.size = 0
        self.stream_time.size = 0
        self.stream_bytes.size = 0
        self.stream_whole.size = 0
        self.body_bytes = 0

    def taken_streams(self) -> Streamed:
        """Return the streamed lines since the last clear; None if there are none."""
        if self.stream_sent.size == 0:
            return None
        return Streamed(
            sent=numpy.array(self.stream_sent),
            first=numpy.array(self.stream_first),
            time=numpy.array(self.stream_time),
            size=numpy.array(self.stream_bytes),
            whole=numpy.array(self.stream_whole))

    def first_malformed(self) -> tuple[int, str] | None:
        """Return the number (from 1) and beginning of the first malformed line, or None."""
        if self._first_malformed == 0:
            return None
        excerpt = self._excerpt[:self._excerpt_size]
        return self._first_malformed, excerpt.decode("utf-8", "backslashreplace")

    cdef void reject(self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        """Count a malformed line that ends, without its newline, at ``end``."""
        self.lines += 1
        self.malformed += 1
        if self._first_malformed == 0:
            self._first_malformed = self.lines
            self._excerpt_size = min(<size_t>(end - line), <size_t>EXCERPT_SIZE)
            memcpy(self._excerpt, line, self._excerpt_size)

    # ---- layout and unit of the file -------------------------------------------------

    cdef size_t _detect(self, const unsigned char *text, size_t size) except? 0:
        """Reject lines until one shows the layout; return the bytes of the rejected ones."""
        cdef Text line = text
        cdef Text end = text + size
        cdef Text newline
        while True:
            newline = <Text>memchr(line, c'\n', end - line)
            if newline == NULL:
                return line - text
            self._reserve_streams(1)
            self.ends.reserve(1)
            if self._parse_streamed(line, newline) or self._parse_end(line, newline):
                self.lines += 1
                line = newline + 1
                continue
            found = formats.detect(
                line[:newline - line], self.record_format, self.operation)
            if found is not None:
                break
            self.reject(line, newline)
            line = newline + 1
        if self.record_format is None and found == (formats.V1, formats.SEND):
            # A settlement may still come and make it v2.
            self._settlements = True
        self.record_format, self.operation = found
        self._settle_layout()
        return line - text

    cdef int _settle_layout(self) except -1:
        sending = self.operation == formats.SEND
        if formats.has_ids(self.record_format):
            self._layout = SENT_WITH_ID if sending else RECEIVED_WITH_ID
        else:
            self._layout = SENT if sending else RECEIVED
        if formats.has_settlements(self.record_format, self.operation):
            self._settlements = True
        return 0

    cdef void _settle_unit(self, unit) noexcept:
        """Accept only own times of this unit; None for the unit of the first."""
        self._first_own, self._last_own = 1, 0
        if unit is not None:
            self._own(max(formats.UNIT_RANGES[unit][0], 0))

    cdef bint _own(self, int64_t time) noexcept nogil:
        """Say whether an own time has the unit of the others; the first decides it."""
        if self._first_own <= time <= self._last_own:
            return True
        if self._first_own <= self._last_own:
            return False
        if time <= LAST_MS:
            self._first_own, self._last_own = 0, LAST_MS
        elif time <= LAST_US:
            self._first_own, self._last_own = LAST_MS + 1, LAST_US
        else:
            self._first_own, self._last_own = LAST_US + 1, INT64_MAX
        return True

    cdef bint _unit_differs(self, int64_t time, int64_t other) noexcept nogil:
        return (time <= LAST_MS) != (other <= LAST_MS) or (time <= LAST_US) != (other <= LAST_US)

    cdef bint _in_ms(self) noexcept nogil:
        """Say whether lines of 13 digits need no check of their unit."""
        return self._last_own == LAST_MS

    def unit(self) -> str | None:
        """Return the unit of the arrow's own times; None until the first one."""
        return formats.time_unit(self._last_own) if self._first_own <= self._last_own else None

    cdef int _reserve_streams(self, size_t lines) except -1 nogil:
        self.stream_sent.reserve(lines)
        self.stream_first.reserve(lines)
        self.stream_time.reserve(lines)
        self.stream_bytes.reserve(lines)
        self.stream_whole.reserve(lines)
        return 0

    cdef int _reserve(self, size_t lines) except -1 nogil:
        """Make room in every column for ``lines`` more lines of the layout."""
        self.sent.reserve(lines)
        self.ends.reserve(lines)
        self._reserve_streams(lines)
        if self._layout in (RECEIVED, RECEIVED_WITH_ID):
            self.received.reserve(lines)
        if self._layout in (SENT_WITH_ID, RECEIVED_WITH_ID):
            self.ids.reserve(lines)
            self.id_hashes.reserve(lines)
        if self._settlements:
            self.settled_ids.reserve(lines)
            self.settled_id_hashes.reserve(lines)
            self.settled_times.reserve(lines)
            self.settled_sampled.reserve(lines)
        return 0

    # ---- lines -----------------------------------------------------------------------

    cdef size_t _parse_lines(self, const unsigned char *text, size_t size) noexcept nogil:
        cdef Text line = text
        cdef Text end = text + size
        cdef Text newline
        while True:
            if self._layout == RECEIVED and self._in_ms():
                line = self._take_received(line, end)
            elif self._layout == SENT and self._in_ms():
                line = self._take_sent(line, end)
            newline = <Text>memchr(line, c'\n', end - line)
            if newline == NULL:
                return line - text
            if self._parse_line(line, newline):
                self.lines += 1
            else:
                self.reject(line, newline)
            line = newline + 1

    cdef const unsigned char *_take_sent(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        """Take the v3 sender's lines of fixed layout; return the first other line."""
        cdef int64_t *sent = self.sent.numbers() + self.sent.size
        cdef TimePrefix prefix = self._prefix
        cdef size_t count = 0
        while (end - line >= MS_SENT_LINE and line[13] == c',' and line[14] == c'0'
               and line[15] == c'\n' and ms_time(line, &prefix, sent + count)):
            count += 1
            line += MS_SENT_LINE
        self._prefix = prefix
        self.sent.size += count
        self.lines += count
        return line

    cdef const unsigned char *_take_received(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        """Take the v3 receiver's lines of fixed layout; return the first other line."""
        cdef int64_t *sent = self.sent.numbers() + self.sent.size
        cdef int64_t *received = self.received.numbers() + self.received.size
        cdef TimePrefix prefix = self._prefix
        cdef size_t count = 0
        while (end - line >= MS_RECEIVED_LINE and line[13] == c',' and line[27] == c'\n'
               and ms_time(line, &prefix, sent + count)
               and ms_time(line + 14, &prefix, received + count)):
            count += 1
            line += MS_RECEIVED_LINE
        self._prefix = prefix
        self.sent.size += count
        self.received.size += count
        self.lines += count
        return line

    cdef bint _parse_line(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        """Append one line, whatever its widths; False if it is malformed."""
        if end - line > 2 and line[1] == c',' and self._parse_streamed(line, end):
            return True
        if line[0] == c'@' and self._parse_end(line, end):
            return True
        if self._layout == SENT:
            return self._parse_sent(line, end)
        if self._layout == RECEIVED:
            return self._parse_received(line, end)
        if self._layout == SENT_WITH_ID:
            return self._parse_sent_with_id(line, end)
        return self._parse_received_with_id(line, end)

    cdef bint _parse_end(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        """Note the end of the next records; False if the line names none."""
        cdef int64_t number
        if end - line < 2 or line[0] != c'@' or not decimal(line + 1, end - line - 1, &number):
            return False
        self.ends.begin(self.sent.size, number)
        return True

    cdef bint _parse_streamed(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        """Add up a line of streaming mode; False if it is none."""
        cdef int64_t[4] fields
        cdef Text start = line + 2
        cdef Text comma
        cdef int i
        if end - line < 2 or line[0] not in (c'F', c'B') or line[1] != c',':
            return False
        for i in range(4):
            comma = <Text>memchr(start, c',', end - start)
            if (comma == NULL) != (i == 3):
                return False
            if comma == NULL:
                comma = end
            if not decimal(start, comma - start, &fields[i]):
                return False
            start = comma + 1
        # Both are the arrow's own times; only an accepted line may decide the unit.
        if self._unit_differs(fields[1], fields[2]) or not self._own(fields[2]):
            return False
        self.stream_sent.numbers()[self.stream_sent.size] = fields[0]
        self.stream_first.numbers()[self.stream_first.size] = fields[1]
        self.stream_time.numbers()[self.stream_time.size] = fields[2]
        self.stream_bytes.numbers()[self.stream_bytes.size] = fields[3]
        self.stream_whole.flags()[self.stream_whole.size] = line[0] == c'F'
        self.stream_sent.size += 1
        self.stream_first.size += 1
        self.stream_time.size += 1
        self.stream_bytes.size += 1
        self.stream_whole.size += 1
        self.body_bytes += fields[3]
        return True

    cdef bint _parse_sent(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        if end - line < 3 or (end - 2)[0] != c',' or (end - 1)[0] != c'0':
            return False
        if not decimal(line, end - 2 - line, self.sent.numbers() + self.sent.size):
            return False
        if not self._own(self.sent.numbers()[self.sent.size]):
            return False
        self.sent.size += 1
        return True

    cdef bint _parse_received(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        cdef Text comma = self._last_time(
            line, end, self.received.numbers() + self.received.size)
        if comma == NULL or (end - comma == 2 and comma[1] == c'0'):
            return False            # "<send-time>,0" is a sender's record
        if not decimal(line, comma - line, self.sent.numbers() + self.sent.size):
            return False
        if not self._own(self.received.numbers()[self.received.size]):
            return False
        self.sent.size += 1
        self.received.size += 1
        return True

    cdef bint _parse_sent_with_id(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        cdef int64_t id, high, time
        cdef Text comma = self._last_time(line, end, &time)
        cdef bint settlement = self._settlements and line[0] in (c'S', c's')
        # A sender knows the ids of its messages.
        if comma == NULL or comma == line + settlement:
            return False
        if not self._id(line + settlement, comma, &id, &high) or not self._own(time):
            return False
        if settlement:
            if high < 0:
                self.ids_hashed = True
                self.settled_id_hashes.add(self.settled_ids.size, high)
                if self.keep_texts:
                    self.settled_id_hashes.add_text(line + 1, comma)
            self.settled_ids.numbers()[self.settled_ids.size] = id
            self.settled_times.numbers()[self.settled_times.size] = time
            self.settled_sampled.flags()[self.settled_sampled.size] = line[0] == c'S'
            self.settled_ids.size += 1
            self.settled_times.size += 1
            self.settled_sampled.size += 1
            return True
        if high < 0:
            self.ids_hashed = True
            self.id_hashes.add(self.ids.size, high)
            if self.keep_texts:
                self.id_hashes.add_text(line, comma)
        self.ids.numbers()[self.ids.size] = id
        self.sent.numbers()[self.sent.size] = time
        self.ids.size += 1
        self.sent.size += 1
        return True

    cdef bint _parse_received_with_id(
            self, const unsigned char *line, const unsigned char *end) noexcept nogil:
        cdef int64_t id, high, sent, received
        cdef Text comma = self._last_time(line, end, &received)
        if comma == NULL:
            return False
        comma = self._last_time(line, comma, &sent)
        if comma == NULL or not self._id(line, comma, &id, &high) or not self._own(received):
            return False
        if high < 0:
            # A message without an id has an empty one: its hash means no id.
            self.ids_hashed |= comma > line
            self.id_hashes.add(self.ids.size, high)
            if self.keep_texts:
                self.id_hashes.add_text(line, comma)
        self.ids.numbers()[self.ids.size] = id
        self.sent.numbers()[self.sent.size] = sent
        self.received.numbers()[self.received.size] = received
        self.ids.size += 1
        self.sent.size += 1
        self.received.size += 1
        return True

    # ---- fields ----------------------------------------------------------------------

    cdef const unsigned char *_last_time(
            self, const unsigned char *line, const unsigned char *end,
            int64_t *time) noexcept nogil:
        """Read the time at the end of a line; return the comma before it, or NULL."""
        # Widths are mostly constant: try the place of the last comma first.
        cdef Text comma
        if end - line > <ptrdiff_t>self._width:
            comma = end - self._width - 1
            if comma[0] == c',' and (
                    ms_time(comma + 1, &self._prefix, time) if self._width == MS_DIGITS
                    else decimal(comma + 1, self._width, time)):
                return comma
        comma = end - 1
        while comma >= line and comma[0] != c',' and end - comma <= MOST_DIGITS:
            comma -= 1
        if comma < line or comma[0] != c',' or not decimal(comma + 1, end - comma - 1, time):
            return NULL
        self._width = end - comma - 1
        return comma

    cdef bint _id(
            self, const unsigned char *text, const unsigned char *end,
            int64_t *id, int64_t *high) noexcept nogil:
        """Read both halves of an id, any bytes but a comma; False if there is one."""
        cdef bint canonical = end - text == 1 or text[0] != c'0'
        high[0] = 0
        if canonical and decimal(text, end - text, id):
            return True
        if memchr(text, c',', end - text) != NULL:
            return False
        self._hashed_some = True
        id[0] = hashed_id(text, end, self._id_key, high)
        return True
