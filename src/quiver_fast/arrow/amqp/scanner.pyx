"""Find message-id and SendTime in an encoded message, without decoding the rest.

The bytes may be the first part of a message only.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from quiver_fast.amqp.data_plane cimport (
    AMQP_FINE, AMQP_MORE, AMQP_SECTION_APPLICATION_PROPERTIES, AMQP_SECTION_DATA,
    AMQP_SECTION_PROPERTIES, LONG, NULL_, SMALL_LONG, STRING32, STRING8, SYMBOL32, SYMBOL8,
    amqp_fault, amqp_fields_t, amqp_read_content, amqp_read_list, amqp_read_map, amqp_read_section,
    amqp_reader, amqp_reader_t, amqp_section, amqp_value_t,
)


cdef inline ScanResult result_of(amqp_fault fault) noexcept nogil:
    if fault == AMQP_FINE:
        return SCAN_FOUND
    return SCAN_MORE if fault == AMQP_MORE else SCAN_MALFORMED


cdef ScanResult scan_properties(amqp_reader_t *reader, ScannedMessage *found) noexcept nogil:
    """Take the message-id, the first field of properties (part 3.2.4)."""
    cdef amqp_value_t value
    cdef amqp_fields_t fields = amqp_read_list(reader)
    if reader.fault != AMQP_FINE or fields.left == 0:
        return result_of(reader.fault)
    if not amqp_read_content(&fields.inside, &value):
        return SCAN_MALFORMED
    if value.constructor != NULL_:
        found.id_code = value.constructor
        found.id = value.content.start
        found.id_size = value.content.size
    return SCAN_FOUND


cdef inline bint is_key(const char *name, const amqp_value_t *key) noexcept nogil:
    # Some clients write keys as symbols.
    return key.content.size == 8 and key.constructor in (
        STRING8, SYMBOL8, STRING32, SYMBOL32) and memcmp(key.content.start, name, 8) == 0


cdef ScanResult scan_application_properties(
        amqp_reader_t *reader, ScannedMessage *found) noexcept nogil:
    cdef amqp_value_t key
    cdef amqp_value_t value
    cdef amqp_fields_t fields = amqp_read_map(reader)
    if reader.fault != AMQP_FINE and reader.fault != AMQP_MORE:
        return SCAN_MALFORMED
    while fields.left >= 2:
        fields.left -= 2
        if not amqp_read_content(&fields.inside, &key) or not amqp_read_content(
                &fields.inside, &value):
            # Past the end of a map that is wholly here: its count was wrong.
            return result_of(fields.inside.fault) if reader.fault == AMQP_MORE else SCAN_MALFORMED
        if is_key(b"BodySize", &key) and value.constructor == LONG:
            found.body_size = time_field(value.content.start)
        if not is_key(b"SendTime", &key):
            continue
        if value.constructor == LONG:
            found.time = value.content.start
            found.send_time = time_field(found.time)
            return SCAN_FOUND
        if value.constructor == SMALL_LONG:
            found.send_time = <signed char>value.content.start[0]
            return SCAN_FOUND
        return SCAN_WRONG_TYPE
    return SCAN_MORE if reader.fault == AMQP_MORE else SCAN_MISSING


cdef ScanResult scan_message(
        const uint8_t *data, size_t size, ScannedMessage *found) noexcept nogil:
    """Scan the first ``size`` bytes of a message; ``found.id`` points into ``data``."""
    cdef amqp_reader_t reader = amqp_reader(data, size)
    cdef amqp_value_t value
    cdef amqp_section section
    cdef ScanResult result
    found.id_code = 0
    found.body_size = -1
    found.time = NULL
    while True:
        section = amqp_read_section(&reader)
        if section == AMQP_SECTION_APPLICATION_PROPERTIES:
            return scan_application_properties(&reader, found)
        if section >= AMQP_SECTION_DATA:
            return SCAN_MISSING
        if section == AMQP_SECTION_PROPERTIES:
            result = scan_properties(&reader, found)
        else:
            amqp_read_content(&reader, &value)
            result = result_of(reader.fault)
        if result != SCAN_FOUND:
            return result


cdef ScanResult scan_alike(ScanLikeness *likeness, const uint8_t *data, size_t size,
                           ScannedMessage *found) noexcept nogil:
    """Scan a message, by comparison if it is like the last one.

    A scan reads no byte after SendTime, and the id's bytes and SendTime's decide nothing: what
    is the same but for them has the same fields in the same places.
    """
    cdef ScanResult result
    if is_alike(likeness, data, size):
        found.body_size = likeness.found.body_size
        found.id_code = likeness.found.id_code
        found.id_size = likeness.found.id_size
        found.id = data + likeness.id_at
        found.time = data + likeness.time_at
        found.send_time = time_field(found.time)
        return SCAN_FOUND
    result = scan_message(data, size, found)
    if result == SCAN_FOUND and found.time != NULL:
        learn(likeness, data, size, found)
    return result


cdef int learn(ScanLikeness *likeness, const uint8_t *data, size_t size,
               const ScannedMessage *found) noexcept nogil:
    """Keep how a scanned message looks, if its head is short enough."""
    cdef size_t head = found.time + 8 - data
    cdef size_t count = (head + sizeof(uint64_t) - 1) // sizeof(uint64_t)
    cdef uint8_t *masks = <uint8_t *>likeness.masks
    likeness.count = 0
    if count > LIKENESS_WORDS or size < count * sizeof(uint64_t):
        return 0
    memcpy(likeness.words, data, count * sizeof(uint64_t))
    memset(masks, 0xFF, head)
    memset(masks + head, 0, count * sizeof(uint64_t) - head)
    likeness.time_at = found.time - data
    likeness.id_at = 0
    memset(masks + likeness.time_at, 0, 8)
    if found.id_code:
        likeness.id_at = found.id - data
        memset(masks + likeness.id_at, 0, found.id_size)
    likeness.found = found[0]
    likeness.count = count
    return 0


cdef bytes id_as_text(uint8_t code, bytes raw):
    if code == 0x98:  # uuid
        import uuid

        return str(uuid.UUID(bytes=raw)).encode()
    if code in (0xA0, 0xB0):  # binary
        return raw.hex().encode()
    if code in (0x44, 0x53, 0x80):  # ulong
        return str(int.from_bytes(raw, "big")).encode()
    return None


cdef str flaw_of_id(uint8_t code):
    if code == 0:
        return (
            "has no message-id, which the records of revisions v1 and v2 need "
            "(record-format=v3 does without)")
    return f"has a message-id of AMQP type {code:#04x}, which is no string, ulong, uuid or binary"


RESULT_NAMES = ("found", "more", "missing", "wrong-type", "malformed")


def scan(data: bytes) -> tuple[str, int, int, bytes]:
    """Scan an encoded message.

    Returns:
        (result, SendTime, message-id constructor byte or 0, message-id content);
        result is one of ``found``, ``more``, ``missing``, ``wrong-type``, ``malformed``.
    """
    cdef ScannedMessage found
    cdef const uint8_t *start = data
    found.send_time = 0
    result = scan_message(start, len(data), &found)
    content_bytes = b""
    if found.id_code:
        content_bytes = (<const char *>found.id)[:found.id_size]
    return RESULT_NAMES[<int>result], found.send_time, found.id_code, content_bytes


def scan_row(messages: list[bytes]) -> list[tuple[str, int, int, bytes, int]]:
    """Scan encoded messages one after the other, as a receiver does.

    Returns:
        For each what `scan` returns, and BodySize, -1 where it does not come before SendTime.
    """
    cdef ScanLikeness likeness
    cdef ScannedMessage found
    likeness.count = 0
    rows = []
    for data in messages:
        found.send_time = 0
        result = scan_alike(&likeness, <const uint8_t *><const char *>data, len(data), &found)
        content_bytes = b""
        if found.id_code:
            content_bytes = (<const char *>found.id)[:found.id_size]
        rows.append((RESULT_NAMES[<int>result], found.send_time, found.id_code, content_bytes,
                     found.body_size))
    return rows
