"""Record lines into one buffer, flushed when full and on request.

The hot methods (``sent``, ``received``, …; see the ``.pxd``) are for other compiled
modules and run without the GIL; the ``write_…`` methods are their Python twins.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer)
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strerror
from posix.unistd cimport write

from quiver_fast.errors import OutputError

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *descriptors, unsigned long count, int timeout)
    const short POLLOUT

cdef enum:
    # Room after an id: two times of 20 characters, two commas, the newline.
    LONGEST_END = 43
    SMALLEST_CAPACITY = 64
    TEXT_SIZE = 24                  # of TimeText.text
    TIME_AND_COMMA = 21
    ESCAPED_SIZE = 3                # '%2C'

cdef int64_t EIGHT_DIGITS = 100_000_000

# Every number of two digits.
cdef const char *PAIRS = (
    b"0001020304050607080910111213141516171819"
    b"2021222324252627282930313233343536373839"
    b"4041424344454647484950515253545556575859"
    b"6061626364656667686970717273747576777879"
    b"8081828384858687888990919293949596979899")
cdef const char *HEX = b"0123456789ABCDEF"


cdef inline void put_eight_digits(char *out, uint64_t number) noexcept nogil:
    """Write ``number`` (below 10**8) with leading zeros."""
    cdef uint64_t high = number / 10000
    cdef uint64_t low = number % 10000
    memcpy(out, PAIRS + 2 * (high / 100), 2)
    memcpy(out + 2, PAIRS + 2 * (high % 100), 2)
    memcpy(out + 4, PAIRS + 2 * (low / 100), 2)
    memcpy(out + 6, PAIRS + 2 * (low % 100), 2)


cdef void render_all(TimeText *text, int64_t time) noexcept nogil:
    """Write every digit of ``time``, and its sign, because a peer's time may be negative."""
    cdef char digits[TEXT_SIZE]
    cdef char *first = digits + TEXT_SIZE
    # Unsigned, so that the least int64 has a magnitude too.
    cdef uint64_t rest = 0 - <uint64_t>time if time < 0 else <uint64_t>time
    while rest >= 10:
        first -= 2
        memcpy(first, PAIRS + 2 * (rest % 100), 2)
        rest /= 100
    if rest > 0 or first == digits + TEXT_SIZE:
        first -= 1
        first[0] = <char>(c'0' + rest)
    if time < 0:
        first -= 1
        first[0] = c'-'
    text.size = digits + TEXT_SIZE - first
    memcpy(text.text, first, text.size)


cdef inline void render(TimeText *text, int64_t time) noexcept nogil:
    """Set ``text`` to ``time``, writing only its last eight digits if that is enough."""
    cdef int64_t high = time / EIGHT_DIGITS
    if high > 0 and high == text.high:
        put_eight_digits(text.text + text.size - 8, <uint64_t>(time - high * EIGHT_DIGITS))
    else:
        render_all(text, time)
        text.high = high
    text.value = time


cdef inline char *put_time(char *out, TimeText *text, int64_t time) noexcept nogil:
    """Write ``time`` at ``out`` and return its end."""
    if time != text.value:
        render(text, time)
    memcpy(out, text.text, TEXT_SIZE)
    return out + text.size


cdef inline bint breaks_record(unsigned char byte) noexcept nogil:
    """Say whether ``byte`` must be encoded in an id: separators, and the escape itself."""
    return byte == c',' or byte == c'\n' or byte == c'\r' or byte == c'%'


cdef inline bint is_prefix(unsigned char byte) noexcept nogil:
    """Say whether ``byte`` begins a settlement line."""
    return byte == c'S' or byte == c's'


cdef inline char *put_escaped(char *out, unsigned char byte) noexcept nogil:
    out[0] = c'%'
    out[1] = HEX[byte >> 4]
    out[2] = HEX[byte & 15]
    return out + ESCAPED_SIZE


@cython.final
cdef class RecordWriter:
    """Writes record lines to a file descriptor through one buffer.

    Ids are any bytes. Bytes that would break a line (``,`` newline, carriage return and
    ``%``) are percent-encoded, and so is an ``S`` or ``s`` at the beginning of a sent
    record's id, because it would make the line a settlement. Times are epoch ms, us or ns,
    a negative one with its sign.

    The descriptor stays the caller's. Bytes that are not flushed when the object dies are
    dropped, because the descriptor may be another file by then.

    Args:
        fd: A descriptor open for writing; a non-blocking one is waited for.
        capacity: Bytes to buffer, at least 64.

    Raises:
        ValueError: If ``capacity`` is too small.
        OutputError: From every method after a failed write.
    """

    def __cinit__(self, int fd, size_t capacity=262144):
        if capacity < SMALLEST_CAPACITY:
            raise ValueError(f"capacity must be at least {SMALLEST_CAPACITY} bytes")
        self._buffer = <char *>malloc(capacity + TEXT_SIZE)
        if self._buffer == NULL:
            raise MemoryError("no memory left for the buffer of records")
        self._capacity = capacity
        self._fd = fd
        self._end = -1
        render_all(&self._sent, 0)
        render_all(&self._received, 0)

    def __dealloc__(self):
        free(self._buffer)

    @property
    def bytes_written(self) -> int:
        """Bytes that the descriptor took, without buffered ones."""
        return self._bytes_written

    @property
    def records(self) -> int:
        """Records (settlements included) since the start, including buffered ones."""
        return self._records

    # ---- hot methods -----------------------------------------------------------------

    cdef int sent(self, int64_t time) except -1 nogil:
        """v3: ``<send-time>,0``; "the second element is reserved for future use"."""
        self._reserve(LONGEST_END)
        cdef char *out = put_time(self._buffer + self._used, &self._sent, time)
        memcpy(out, b",0\n", 3)
        self._used = out + 3 - self._buffer
        self._records += 1
        return 0

    cdef int received(self, int64_t sent, int64_t received) except -1 nogil:
        """v3: ``<send-time>,<receive-time>``."""
        self._reserve(LONGEST_END)
        cdef char *out = put_time(self._buffer + self._used, &self._sent, sent)
        out[0] = c','
        out = put_time(out + 1, &self._received, received)
        out[0] = c'\n'
        self._used = out + 1 - self._buffer
        self._records += 1
        return 0

    cdef int sent_with_id(self, const char *id, size_t id_size, int64_t time) except -1 nogil:
        """v1 and v2: ``<message-id>,<send-time>``."""
        self._reserve(ESCAPED_SIZE * id_size + LONGEST_END)
        self._put_id(id, id_size, True)
        return self._end_with_id(time)

    cdef int received_with_id(
            self, const char *id, size_t id_size, int64_t sent,
            int64_t received) except -1 nogil:
        """v1 and v2: ``<message-id>,<send-time>,<receive-time>``."""
        self._reserve(ESCAPED_SIZE * id_size + LONGEST_END)
        self._put_id(id, id_size, False)
        self._reserve(LONGEST_END)
        self._buffer[self._used] = c','
        self._used += 1
        return self.received(sent, received)

    cdef int settled(
            self, const char *id, size_t id_size, int64_t time, bint sampled) except -1 nogil:
        """v2: ``S<message-id>,<settlement-time>``, or ``s…`` if not sampled."""
        self._reserve(1 + ESCAPED_SIZE * id_size + LONGEST_END)
        self._buffer[self._used] = c'S' if sampled else c's'
        self._used += 1
        self._put_id(id, id_size, False)
        return self._end_with_id(time)

    cdef int streamed(
            self, char kind, int64_t sent, int64_t first, int64_t time,
            int64_t size) except -1 nogil:
        """Streaming: ``F,<send-time>,<first-byte-time>,<time>,<bytes>``, or ``B,…``."""
        cdef TimeText number
        self._reserve(2 + 2 * TIME_AND_COMMA)
        cdef char *out = self._buffer + self._used
        out[0] = kind
        out[1] = c','
        out = put_time(out + 2, &self._sent, sent)
        render_all(&number, first)
        out[0] = c','
        memcpy(out + 1, number.text, number.size)
        out += 1 + number.size
        out[0] = c','
        self._used = out + 1 - self._buffer
        self._reserve(2 * TIME_AND_COMMA)
        out = put_time(self._buffer + self._used, &self._received, time)
        render_all(&number, size)
        out[0] = c','
        memcpy(out + 1, number.text, number.size)
        out += 1 + number.size
        out[0] = c'\n'
        self._used = out + 1 - self._buffer
        self._records += 1
        return 0

    cdef int begin_end(self, int64_t number) except -1 nogil:
        """Name the end of the next records (formats.END_LINE), once after each flush.

        So a reader that begins within the file looks back no further than that.
        """
        cdef TimeText text
        if number == self._end and self._behind_end_line:
            return 0
        if self._used > self._start and self._used == self._behind_end_line:
            # The last end had no records.
            self._used = self._end_line
        self._reserve(1 + TIME_AND_COMMA)
        render_all(&text, number)
        cdef char *out = self._buffer + self._used
        out[0] = c'@'
        memcpy(out + 1, text.text, text.size)
        out[1 + text.size] = c'\n'
        self._end_line = self._used
        self._used += 2 + text.size
        self._behind_end_line = self._used
        self._end = number
        return 0

    cdef int flush(self) except -1 nogil:
        """Write the buffer; returns when the descriptor has taken everything."""
        cdef ssize_t count
        if self._error != 0:
            return self._fail(self._error)
        while self._start < self._used:
            count = write(self._fd, self._buffer + self._start, self._used - self._start)
            if count >= 0:
                self._start += <size_t>count
                self._bytes_written += <uint64_t>count
            elif errno == EAGAIN:
                self._wait_writable()
            elif errno == EINTR:
                with gil:
                    PyErr_CheckSignals()
            else:
                return self._fail(errno)
        self._start = 0
        self._used = 0
        self._behind_end_line = 0
        return 0

    # ---- parts of the hot methods ----------------------------------------------------

    cdef int _reserve(self, size_t size) except -1 nogil:
        """Make room for ``size`` more bytes, at most an empty buffer's."""
        if self._capacity - self._used < size:
            return self.flush()
        return 0

    cdef int _put_id(self, const char *id, size_t size, bint hide_prefix) except -1 nogil:
        """Write an escaped id; an id larger than the buffer goes out in pieces."""
        cdef const unsigned char *byte = <const unsigned char *>id
        cdef const unsigned char *end = byte + size
        cdef const unsigned char *piece_end
        cdef char *out = self._buffer + self._used
        if hide_prefix and size > 0 and is_prefix(byte[0]):
            out = put_escaped(out, byte[0])
            byte += 1
        while byte < end:
            self._used = out - self._buffer
            self._reserve(ESCAPED_SIZE)
            out = self._buffer + self._used
            piece_end = byte + min(
                <size_t>(end - byte), (self._capacity - self._used) / ESCAPED_SIZE)
            while byte < piece_end:
                if breaks_record(byte[0]):
                    out = put_escaped(out, byte[0])
                else:
                    out[0] = <char>byte[0]
                    out += 1
                byte += 1
        self._used = out - self._buffer
        return 0

    cdef int _end_with_id(self, int64_t time) except -1 nogil:
        """Write ``,<time>`` and the newline."""
        self._reserve(LONGEST_END)
        cdef char *out = self._buffer + self._used
        out[0] = c','
        out = put_time(out + 1, &self._sent, time)
        out[0] = c'\n'
        self._used = out + 1 - self._buffer
        self._records += 1
        return 0

    cdef int _wait_writable(self) except -1 nogil:
        """Wait until a non-blocking descriptor takes bytes again, or a signal comes."""
        cdef pollfd descriptor
        descriptor.fd = self._fd
        descriptor.events = POLLOUT
        descriptor.revents = 0
        if poll(&descriptor, 1, -1) >= 0:
            return 0            # the next write reports an error of the descriptor
        if errno != EINTR:
            return self._fail(errno)
        with gil:
            PyErr_CheckSignals()
        return 0

    cdef int _fail(self, int error) except -1 nogil:
        """Raise OutputError, now and from every later call."""
        self._error = error
        # With a full buffer the next record calls flush(), which comes here again.
        self._used = self._capacity
        self._start = self._used
        with gil:
            reason = strerror(error).decode("utf-8", "replace")
            raise OutputError(f"cannot write records: {reason}")

    # ---- Python twins ----------------------------------------------------------------

    def write_sent(self, int64_t time, bytes message_id=None) -> None:
        """Write a sent message's record: v3 without ``message_id``, else v1 and v2."""
        cdef const char *text
        cdef size_t size
        if message_id is None:
            with nogil:
                self.sent(time)
            return
        text, size = message_id, len(message_id)
        with nogil:
            self.sent_with_id(text, size, time)

    def write_received(self, int64_t sent, int64_t received, bytes message_id=None) -> None:
        """Write a received message's record: v3 without ``message_id``, else v1 and v2."""
        cdef const char *text
        cdef size_t size
        if message_id is None:
            with nogil:
                self.received(sent, received)
            return
        text, size = message_id, len(message_id)
        with nogil:
            self.received_with_id(text, size, sent, received)

    def write_settled(self, bytes message_id not None, int64_t time, bint sampled) -> None:
        """Write the settlement of a sent message (v2)."""
        cdef const char *text = message_id
        cdef size_t size = len(message_id)
        with nogil:
            self.settled(text, size, time, sampled)

    def write_streamed(
            self, str kind, int64_t sent, int64_t first, int64_t time, int64_t size) -> None:
        """Write the received size of a body: ``kind`` is ``"F"`` for its end, or ``"B"``."""
        cdef char letter = <char>ord(kind)
        with nogil:
            self.streamed(letter, sent, first, time, size)

    def write_end(self, int64_t number) -> None:
        """Name the end of the next records, from 0."""
        with nogil:
            self.begin_end(number)

    def flush_now(self) -> None:
        """Write the buffer, without the GIL."""
        with nogil:
            self.flush()


def write_many(RecordWriter writer not None, sent: "ReadableBuffer",
               received: ReadableBuffer | None = None) -> None:
    """Write one v3 record per element, in one loop without the GIL; does not flush.

    Args:
        writer: Where the records go.
        sent: Buffer of int64[n], the send times.
        received: Buffer of int64[n], the receive times; None writes a sender's records.

    Raises:
        ValueError: If a buffer is not int64[n], or the lengths differ.
        OutputError: If a write failed.
    """
    cdef Py_buffer sent_times, received_times
    get_times(sent, &sent_times)
    try:
        if received is None:
            with nogil:
                write_all_sent(writer, &sent_times)
            return
        get_times(received, &received_times)
        try:
            if received_times.len != sent_times.len:
                raise ValueError("sent and received differ in length")
            with nogil:
                write_all_received(writer, &sent_times, &received_times)
        finally:
            PyBuffer_Release(&received_times)
    finally:
        PyBuffer_Release(&sent_times)


cdef int get_times(object source, Py_buffer *times) except -1:
    """Borrow the buffer of a one-dimensional int64 array."""
    PyObject_GetBuffer(source, times, PyBUF_FORMAT | PyBUF_ND)
    if times.ndim == 1 and times.itemsize == 8 and times.format[0] in (c'q', c'l'):
        return 0
    PyBuffer_Release(times)
    raise ValueError("times must be a one-dimensional buffer of int64")


cdef int write_all_sent(RecordWriter writer, Py_buffer *times) except -1 nogil:
    cdef const int64_t *sent = <const int64_t *>times.buf
    cdef Py_ssize_t index
    for index in range(times.len / 8):
        writer.sent(sent[index])
    return 0


cdef int write_all_received(
        RecordWriter writer, Py_buffer *sent_times,
        Py_buffer *received_times) except -1 nogil:
    cdef const int64_t *sent = <const int64_t *>sent_times.buf
    cdef const int64_t *received = <const int64_t *>received_times.buf
    cdef Py_ssize_t index
    for index in range(sent_times.len / 8):
        writer.received(sent[index], received[index])
    return 0
