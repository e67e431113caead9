# LineParser: whole lines of text -> columns. The grammar of records, and nothing else.

from libc.stdint cimport int64_t, uint64_t

from quiver_fast.records.columns cimport Column, EndRows, HashedRows
from quiver_fast.records.digits cimport are_digits, eight_digits, load_text8
from quiver_fast.records.id_hash cimport IdKey

# The fields of a line.
cdef enum Layout:
    UNKNOWN                         # until the first record
    SENT                            # v3: <send-time>,0
    RECEIVED                        # v3: <send-time>,<receive-time>
    SENT_WITH_ID                    # v1, v2: <id>,<send-time>; v2: S<id>,<settlement-time>
    RECEIVED_WITH_ID                # v1, v2: <id>,<send-time>,<receive-time>

cdef enum:
    EXCERPT_SIZE = 80               # bytes kept of the first malformed line
    TEXT_MARGIN = 8                 # readable bytes before and after the text (digits.pxd)
    MS_DIGITS = 13
    MS_SENT_LINE = 16               # 'ttttttttttttt,0\n'
    MS_RECEIVED_LINE = 28           # 'ttttttttttttt,ttttttttttttt\n'

# The first eight digits of the last millisecond time: they stay for 100 seconds.
cdef struct TimePrefix:
    uint64_t text                   # always digits
    uint64_t time                   # the first five digits, at their weight


cdef inline bint ms_time(
        const unsigned char *text, TimePrefix *prefix, int64_t *time) noexcept nogil:
    """Read a time of 13 digits, from its first eight and, overlapping, its last eight."""
    cdef uint64_t first = load_text8(text)
    cdef uint64_t last = load_text8(text + MS_DIGITS - 8)
    if first != prefix.text:
        if not are_digits(first):
            return False
        prefix.text = first
        prefix.time = eight_digits(first) / 1000 * 100000000
    time[0] = <int64_t>(prefix.time + eight_digits(last))
    return are_digits(last)


cdef class LineParser:
    cdef Layout _layout
    cdef bint _settlements          # S… and s… lines are settlements
    cdef size_t _width              # digits of the last time that was read backwards
    cdef TimePrefix _prefix
    # The range of the arrow's own times, which have one unit; 1 to 0 until the first time.
    cdef int64_t _first_own
    cdef int64_t _last_own
    cdef readonly object record_format  # type: str | None
    cdef readonly object operation  # type: str | None
    cdef Column sent
    cdef Column received
    cdef IdKey _id_key
    cdef Column ids                 # the lower halves (ids.py)
    cdef HashedRows id_hashes
    cdef EndRows ends
    cdef Column settled_ids
    cdef HashedRows settled_id_hashes
    cdef bint keep_texts            # keep the ids that are hashes
    cdef Column settled_times
    cdef Column settled_sampled
    cdef bint ids_hashed            # some id of a record is a hash, and not empty
    cdef bint _hashed_some          # some hash was made, be it of a line that is no record
    # Lines of streaming mode (formats.is_streamed) since clear(), a row each.
    cdef Column stream_sent
    cdef Column stream_first
    cdef Column stream_time
    cdef Column stream_bytes
    cdef Column stream_whole        # flags: the message is whole
    cdef int64_t body_bytes         # their sum
    cdef int64_t lines              # all lines, also malformed ones
    cdef int64_t malformed
    cdef int64_t _first_malformed   # its line number, from 1
    cdef char _excerpt[EXCERPT_SIZE]
    cdef size_t _excerpt_size

    cdef Py_ssize_t parse(self, const unsigned char *text, size_t size) except -1
    cdef Py_ssize_t parse_known(
        self, const unsigned char *text, size_t size) except -1 nogil
    cdef bint full(self) noexcept nogil
    cdef void reject(self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef void clear_streams(self) noexcept nogil

    cdef bint _parse_end(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef bint _parse_streamed(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef size_t _detect(self, const unsigned char *text, size_t size) except? 0
    cdef int _settle_layout(self) except -1
    cdef void _settle_unit(self, unit) noexcept
    cdef bint _own(self, int64_t time) noexcept nogil
    cdef bint _unit_differs(self, int64_t time, int64_t other) noexcept nogil
    cdef bint _in_ms(self) noexcept nogil
    cdef int _reserve(self, size_t lines) except -1 nogil
    cdef int _reserve_streams(self, size_t lines) except -1 nogil
    cdef size_t _parse_lines(self, const unsigned char *text, size_t size) noexcept nogil
    cdef const unsigned char *_take_sent(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef const unsigned char *_take_received(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef bint _parse_line(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef bint _parse_sent(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef bint _parse_received(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef bint _parse_sent_with_id(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef bint _parse_received_with_id(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef const unsigned char *_last_time(
        self, const unsigned char *line, const unsigned char *end,
        int64_t *time) noexcept nogil
    cdef bint _id(
        self, const unsigned char *text, const unsigned char *end,
        int64_t *id, int64_t *high) noexcept nogil
