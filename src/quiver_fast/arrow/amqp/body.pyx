"""Follow a message that arrives in pieces: count its body and check that it is all ``x``.

Only the heads of sections (part 3.2) are kept, so that a message of any size takes the
same memory. A piece may end anywhere, inside of a head too.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memset

from quiver_fast.amqp.data_plane cimport (
    AMQP_DECODE_ERROR, AMQP_FINE, AMQP_MORE, AMQP_SECTION_DATA, AMQP_SECTION_FOOTER, BINARY32,
    BINARY8, LIST0, LIST32, LIST8, MAP32, MAP8, amqp_fault, amqp_read_section, amqp_reader,
    amqp_reader_t, amqp_section,
)


cdef void begin_body(Body *body) noexcept nogil:
    """Make ready for the first piece of a message."""
    memset(body, 0, sizeof(Body))


cdef bint body_is_whole(const Body *body) noexcept nogil:
    """Say whether a message may end here: no section is open, and none was invalid."""
    return body.fault == BODY_FINE and body.left == 0 and body.head_size == 0


cdef void check_body(Body *body, const uint8_t *piece, size_t size) noexcept nogil:
    """Take the next piece of a message; after a fault, ignore it."""
    cdef const uint8_t *end = piece + size
    cdef uint64_t span
    while piece < end and body.fault == BODY_FINE:
        if body.left == 0:
            take_head_byte(body, piece[0])
            piece += 1
            continue
        span = min(body.left, <uint64_t>(end - piece))
        body.left -= span
        if body.is_data:
            body.size += span
            if not is_all_x(piece, span):
                body.fault = BODY_NOT_X
        piece += span


cdef inline bint is_all_x(const uint8_t *bytes, size_t size) noexcept nogil:
    # All bytes are equal if each equals the next one; memcmp is fast.
    return bytes[0] == c"x" and memcmp(bytes, bytes + 1, size - 1) == 0


cdef void take_head_byte(Body *body, uint8_t byte) noexcept nogil:
    cdef amqp_fault fault
    body.head[body.head_size] = byte
    body.head_size += 1
    fault = enter_section(body)
    if fault == AMQP_FINE:
        body.head_size = 0
    elif fault != AMQP_MORE or body.head_size == sizeof(body.head):
        body.fault = BODY_NOT_DATA


cdef amqp_fault enter_section(Body *body) noexcept nogil:
    """Read the head so far; when it is whole, ``left`` is the size of the content."""
    cdef amqp_reader_t reader = amqp_reader(body.head, body.head_size)
    cdef amqp_section section = amqp_read_section(&reader)
    cdef int i
    cdef int width
    if reader.fault != AMQP_FINE:
        return reader.fault
    if reader.at == reader.end:
        return AMQP_MORE
    width = size_width(section, reader.at[0])
    if width < 0:
        return AMQP_DECODE_ERROR
    if reader.end - reader.at < 1 + width:
        return AMQP_MORE
    body.is_data = section == AMQP_SECTION_DATA
    for i in range(width):
        body.left = (body.left << 8) | reader.at[1 + i]
    return AMQP_FINE


cdef int size_width(amqp_section section, uint8_t code) noexcept nogil:
    """Return the width of the size after a section's constructor; -1 for an invalid one."""
    if section == AMQP_SECTION_DATA:
        return 1 if code == BINARY8 else 4 if code == BINARY32 else -1
    if AMQP_SECTION_DATA < section < AMQP_SECTION_FOOTER:
        # An amqp-sequence or amqp-value is a body, but not one of bytes.
        return -1
    if code == LIST8 or code == MAP8:
        return 1
    if code == LIST32 or code == MAP32:
        return 4
    return 0 if code == LIST0 else -1


FAULT_NAMES = ("fine", "not-data", "not-x")


def check(pieces: list[bytes]) -> tuple[str, int, bool]:
    """Follow a message given in pieces.

    Returns:
        (fault, bytes of the body, whether the message may end here); fault is ``fine``,
        ``not-data`` or ``not-x``.
    """
    cdef Body body
    cdef const uint8_t *start
    begin_body(&body)
    for piece in pieces:
        start = piece
        check_body(&body, start, len(piece))
    return FAULT_NAMES[<int>body.fault], body.size, body_is_whole(&body)
