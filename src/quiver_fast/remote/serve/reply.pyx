"""Replies of the queue protocol (B.5 to B.8), as text wire that is also strict YAML."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcpy, strlen

from quiver_fast.records.digits cimport put_decimal
from quiver_fast.remote.wire.base64 cimport encode, encoded_size
from quiver_fast.remote.wire.buffer cimport Buffer, reserve
from quiver_fast.remote.wire.textwire cimport Slice, text_of
from quiver_fast.remote.wire.wire cimport HEADER_SIZE, META, MORE, Tid, end_document

cdef const char *CLASS_NAMES[8]
CLASS_NAMES[:] = [
    b"java.lang.IllegalArgumentException",
    b"java.lang.IllegalStateException",
    b"java.lang.UnsupportedOperationException",
    b"java.lang.IndexOutOfBoundsException",
    b"java.io.FileNotFoundException",
    b"java.io.IOException",
    b"java.util.concurrent.RejectedExecutionException",
    b"java.io.StreamCorruptedException",
]
cdef const char *HEX = b"0123456789ABCDEF"

# Binary wire of a byte array (A.6): `82`, u32 length, `8A`, the bytes.
cdef size_t RAW_HEAD = 6

UNSOLICITED.size = 1
UNSOLICITED.text[0] = c"0"


cdef inline char *put(char *out, const char *text) noexcept nogil:
    cdef size_t size = strlen(text)
    memcpy(out, text, size)
    return out + size


cdef inline char *put_slice(char *out, Slice text) noexcept nogil:
    memcpy(out, text.start, text.size)
    return out + text.size


cdef inline char *begin(char *out, const Tid *tid) noexcept nogil:
    """Write a reply's meta-data; return the place of the data document's header."""
    cdef char *header = out
    out = put(out + HEADER_SIZE, b"tid: ")
    memcpy(out, tid.text, tid.size)
    out += tid.size
    out[0] = c"\n"
    return end_document(header, out + 1, META)


cdef inline bint finish(Buffer *buffer, const Tid *tid, char *header, char *out) noexcept nogil:
    """End a reply. Bit 31 says that replies of the same tid follow (B.1)."""
    buffer.used = end_document(header, out, MORE if tid.more else 0) - buffer.memory
    return True


cdef bint put_index(Buffer *buffer, const Tid *tid, int64_t index) noexcept nogil:
    return put_number(buffer, tid, b"index: ", index)


cdef bint put_number(
        Buffer *buffer, const Tid *tid, const char *name, int64_t number) noexcept nogil:
    """Write the reply ``<name><number>``; ``name`` ends with colon and blank."""
    cdef char *out = reserve(buffer, SHORT_REPLY)
    cdef char *header
    if out == NULL:
        return False
    header = begin(out, tid)
    out = put_decimal(put(header + HEADER_SIZE, name), number)
    return finish(buffer, tid, header, put(out, b"\n"))


cdef bint put_text(Buffer *buffer, const Tid *tid, const char *text) noexcept nogil:
    """Write a constant reply."""
    cdef char *out = reserve(buffer, SHORT_REPLY)
    cdef char *header
    if out == NULL:
        return False
    header = begin(out, tid)
    return finish(buffer, tid, header, put(header + HEADER_SIZE, text))


cdef inline char *put_proxy(char *out, const char *kind, Slice authority, Slice queue,
                            int64_t cid) noexcept nogil:
    """Write ``reply: !queue-<kind> { csp: "//…#<kind>", cid: <n>`` (B.5)."""
    out = put(put(put(out, b"reply: !queue-"), kind), b" { csp: \"//")
    out = put(put_slice(out, authority), b"/")
    out = put(put(put_slice(out, queue), b"#"), kind)
    return put_decimal(put(out, b"\", cid: "), cid)


cdef bint put_appender(Buffer *buffer, const Tid *tid, Slice authority, Slice queue,
                       int64_t cid) noexcept nogil:
    cdef char *out = reserve(buffer, SHORT_REPLY + authority.size + queue.size)
    cdef char *header
    if out == NULL:
        return False
    header = begin(out, tid)
    out = put_proxy(header + HEADER_SIZE, b"appender", authority, queue, cid)
    return finish(buffer, tid, header, put(out, b" }\n"))


cdef bint put_tailer(Buffer *buffer, const Tid *tid, Slice authority, Slice queue, int64_t cid,
                     int64_t start, int64_t end) noexcept nogil:
    cdef char *out = reserve(buffer, SHORT_REPLY + authority.size + queue.size)
    cdef char *header
    if out == NULL:
        return False
    header = begin(out, tid)
    out = put_proxy(header + HEADER_SIZE, b"tailer", authority, queue, cid)
    out = put_decimal(put(out, b", start: "), start)
    out = put_decimal(put(out, b", end: "), end)
    return finish(buffer, tid, header, put(out, b" }\n"))


cdef bint put_exception(Buffer *buffer, const Tid *tid, Failure failure,
                        const char *message) noexcept nogil:
    """Write an exception (B.7); ``message`` may hold any bytes."""
    cdef size_t size = strlen(message)
    # A byte becomes at most the four characters of `\xHH`.
    cdef char *out = reserve(buffer, SHORT_REPLY + 4 * size)
    cdef char *header
    cdef size_t i
    if out == NULL:
        return False
    header = begin(out, tid)
    out = put(put(header + HEADER_SIZE, b"exception: !"), CLASS_NAMES[<int>failure])
    out = put(out, b" { message: \"")
    for i in range(size):
        out = put_quoted(out, <uint8_t>message[i])
    return finish(buffer, tid, header, put(out, b"\", stackTrace: [ ] }\n"))


cdef inline char *put_quoted(char *out, uint8_t byte) noexcept nogil:
    if byte == c'"' or byte == c"\\":
        out[0] = c"\\"
        out += 1
    elif byte < 0x20 or byte >= 0x7F:
        out = put(out, b"\\x")
        out[0] = HEX[byte >> 4]
        out[1] = HEX[byte & 15]
        return out + 2
    out[0] = <char>byte
    return out + 1


# ---- batches -------------------------------------------------------------------------

cdef bint put_nothing_new(Buffer *buffer, const Tid *tid, int64_t index) noexcept nogil:
    """Write the reply of a hasNext without an entry in time (B.6)."""
    cdef char *out = reserve(buffer, SHORT_REPLY)
    cdef char *header
    if out == NULL:
        return False
    header = begin(out, tid)
    out = put_decimal(put(header + HEADER_SIZE, b"index: "), index)
    return finish(buffer, tid, header, put(out, b"\nreply: []\n"))


cdef ssize_t begin_batch(Buffer *buffer, const Tid *tid, int64_t index) noexcept nogil:
    """Begin a reply of entries; return its header's place after ``buffer.start``, or -1."""
    cdef char *out = reserve(buffer, SHORT_REPLY)
    cdef char *header
    if out == NULL:
        return -1
    header = begin(out, tid)
    out = put_decimal(put(header + HEADER_SIZE, b"index: "), index)
    out = put(out, b"\nreply:\n")
    buffer.used = out - buffer.memory
    return header - buffer.memory - buffer.start


cdef bint put_entry(Buffer *buffer, const char *entry, size_t size) noexcept nogil:
    """Write one entry of a batch: text unchanged, everything else as ``!!binary`` (A.6, B.6).

    Files may have text that our scanner has not checked. If it could break the reply, it goes
    as ``!!binary`` too.
    """
    cdef Slice text
    if size > RAW_HEAD and is_raw(entry, size):
        return put_binary(buffer, entry + RAW_HEAD, size - RAW_HEAD)
    if size == RAW_HEAD and is_raw(entry, size):
        return put_binary(buffer, entry, 0)
    text = text_of(entry, size)
    if text.size == 0:
        return put_binary(buffer, entry, size)
    return put_lines(buffer, text.start, text.size)


cdef size_t reply_size(const char *entry, size_t size) noexcept nogil:
    """Return the size of `put_entry`'s output, without the blanks before lines."""
    return encoded_size(size) if size >= RAW_HEAD and is_raw(entry, size) else size


cdef bint is_raw(const char *entry, size_t size) noexcept nogil:
    cdef const uint8_t *at = <const uint8_t *>entry
    cdef uint32_t length
    if at[0] != 0x82 or at[5] != 0x8A:
        return False
    length = at[1] | at[2] << 8 | at[3] << 16 | <uint32_t>at[4] << 24
    return length == size - RAW_HEAD + 1


cdef bint put_binary(Buffer *buffer, const char *bytes, size_t size) noexcept nogil:
    cdef size_t encoded = encoded_size(size)
    cdef char *out = reserve(buffer, 32 + encoded)
    if out == NULL:
        return False
    out = put(out, b"  - !!binary ")
    if size == 0:
        out = put(out, b'""')
    encode(bytes, size, out)
    out += encoded
    out[0] = c"\n"
    buffer.used = out + 1 - buffer.memory
    return True


cdef bint put_lines(Buffer *buffer, const char *text, size_t size) noexcept nogil:
    """Write a text; a line break in it is followed by 4 more spaces (B.6)."""
    cdef char *out = reserve(buffer, 5 + size)
    cdef size_t i
    if out == NULL:
        return False
    out = put(out, b"  - ")
    if memchr(text, c"\n", size) == NULL and memchr(text, c"\r", size) == NULL:
        memcpy(out, text, size)
        out[size] = c"\n"
        buffer.used = out + size + 1 - buffer.memory
        return True
    out = reserve(buffer, 5 + 5 * size)
    if out == NULL:
        return False
    out = put(out, b"  - ")
    for i in range(size):
        out[0] = text[i]
        out += 1
        if text[i] == c"\n" or (text[i] == c"\r" and not (i + 1 < size and text[i + 1] == c"\n")):
            out = put(out, b"    ")
    out[0] = c"\n"
    buffer.used = out + 1 - buffer.memory
    return True


cdef bint end_batch(Buffer *buffer, const Tid *tid, size_t header_at) noexcept nogil:
    cdef char *out = reserve(buffer, 4)
    if out == NULL:
        return False
    return finish(buffer, tid, buffer.memory + buffer.start + header_at, out)
