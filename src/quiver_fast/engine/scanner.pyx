"""Find message-id and SendTime in an encoded message, without decoding the rest.

Encodings are those of AMQP 1.0 part 1.6; the high half of a constructor byte
tells the width of what follows (part 1.2). Every read is checked against the
end of the bytes, which may be the first part of a message only.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset, strlen

# Descriptor codes of the message sections, AMQP 1.0 part 3.2.
cdef enum Section:
    HEADER = 0x70
    PROPERTIES = 0x73
    APPLICATION_PROPERTIES = 0x74
    DATA = 0x75
    FOOTER = 0x78

# Constructor bytes, part 1.6.
cdef enum Code:
    DESCRIBED = 0x00
    NULL_CODE = 0x40
    SMALL_LONG = 0x55
    SMALL_ULONG = 0x53
    ULONG_ZERO = 0x44
    ULONG = 0x80
    LONG = 0x81
    SYMBOL8 = 0xA3
    SYMBOL32 = 0xB3
    LIST_ZERO = 0x45
    LIST8 = 0xC0
    MAP8 = 0xC1
    LIST32 = 0xD0
    MAP32 = 0xD1

cdef int MAX_NESTED_DESCRIPTORS = 8

# Symbolic descriptors, in the order of the codes from HEADER on.
cdef int SECTION_COUNT = 9
cdef const char *SECTION_NAMES[9]
SECTION_NAMES[:] = [
    b"amqp:header:list",
    b"amqp:delivery-annotations:map",
    b"amqp:message-annotations:map",
    b"amqp:properties:list",
    b"amqp:application-properties:map",
    b"amqp:data:binary",
    b"amqp:amqp-sequence:list",
    b"amqp:amqp-value:*",
    b"amqp:footer:map",
]

cdef inline size_t left(const Cursor *cursor) noexcept nogil:
    return cursor.end - cursor.at


cdef inline uint64_t big_endian(const uint8_t *field, int width) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(width):
        value = (value << 8) | field[i]
    return value


cdef ScanResult content(
        Cursor *cursor, uint8_t code, const uint8_t **start, size_t *size) noexcept nogil:
    """Step over the content of a primitive with constructor ``code``."""
    cdef size_t prefix = 0
    cdef size_t length = 0
    cdef int kind = code >> 4
    if kind == 0x4:
        length = 0
    elif 0x5 <= kind <= 0x9:
        length = <size_t>1 << (kind - 5)
    elif kind == 0xA or kind == 0xC or kind == 0xE:
        prefix = 1
    elif kind == 0xB or kind == 0xD or kind == 0xF:
        prefix = 4
    else:
        return SCAN_MALFORMED
    if prefix:
        if left(cursor) < prefix:
            return SCAN_MORE
        length = big_endian(cursor.at, <int>prefix)
        cursor.at += prefix
    start[0] = cursor.at
    size[0] = length
    if left(cursor) < length:
        return SCAN_MORE
    cursor.at += length
    return SCAN_FOUND


cdef ScanResult next_value(
        Cursor *cursor, uint8_t *code, const uint8_t **start, size_t *size) noexcept nogil:
    """Step over one value; of a described one, ``code`` and content are the value's."""
    cdef ScanResult result
    for _ in range(MAX_NESTED_DESCRIPTORS):
        if left(cursor) < 1:
            return SCAN_MORE
        code[0] = cursor.at[0]
        cursor.at += 1
        if code[0] != DESCRIBED:
            return content(cursor, code[0], start, size)
        if left(cursor) < 1:
            return SCAN_MORE
        # The descriptor: a primitive in every encoding that brokers and clients use.
        code[0] = cursor.at[0]
        cursor.at += 1
        result = content(cursor, code[0], start, size)
        if result != SCAN_FOUND:
            return result
    return SCAN_MALFORMED


cdef ScanResult section_code(Cursor *cursor, int *section) noexcept nogil:
    """Read a section's descriptor: its code as a ulong of either width, or its name."""
    cdef uint8_t code
    cdef const uint8_t *start
    cdef size_t size
    cdef ScanResult result
    if left(cursor) < 2:
        return SCAN_MORE
    if cursor.at[0] != DESCRIBED:
        return SCAN_MALFORMED
    code = cursor.at[1]
    if code != SMALL_ULONG and code != ULONG and code != SYMBOL8 and code != SYMBOL32:
        return SCAN_MALFORMED
    cursor.at += 2
    result = content(cursor, code, &start, &size)
    if result != SCAN_FOUND:
        return result
    if code == SYMBOL8 or code == SYMBOL32:
        section[0] = named_section(start, size)
    else:
        section[0] = <int>big_endian(start, <int>size)
    if section[0] < HEADER or section[0] > FOOTER:
        return SCAN_MALFORMED
    return SCAN_FOUND


cdef int named_section(const uint8_t *name, size_t size) noexcept nogil:
    """Return the code of a section whose descriptor is a symbol; 0 if there is none."""
    cdef int i
    for i in range(SECTION_COUNT):
        if size == strlen(SECTION_NAMES[i]) and memcmp(name, SECTION_NAMES[i], size) == 0:
            return HEADER + i
    return 0


cdef ScanResult enter_compound(
        Cursor *cursor, bint as_map, Cursor *inside, uint64_t *count) noexcept nogil:
    """Read a list's or map's head; ``inside`` spans what is there of its items."""
    cdef uint8_t code
    cdef int width
    cdef uint64_t size
    # Empty until its head is read: the caller looks inside of what is there.
    inside.at = cursor.at
    inside.end = cursor.at
    count[0] = 0
    if left(cursor) < 1:
        return SCAN_MORE
    code = cursor.at[0]
    if code == LIST_ZERO and not as_map:
        cursor.at += 1
        return SCAN_FOUND
    if code == (MAP8 if as_map else LIST8):
        width = 1
    elif code == (MAP32 if as_map else LIST32):
        width = 4
    else:
        return SCAN_MALFORMED
    if left(cursor) < <size_t>(1 + 2 * width):
        return SCAN_MORE
    size = big_endian(cursor.at + 1, width)
    count[0] = big_endian(cursor.at + 1 + width, width)
    if size < <uint64_t>width:
        return SCAN_MALFORMED
    inside.at = cursor.at + 1 + 2 * width
    cursor.at += 1 + width
    if left(cursor) < size:
        inside.end = cursor.end
        cursor.at = cursor.end
        return SCAN_MORE
    cursor.at += size
    inside.end = cursor.at
    return SCAN_FOUND


cdef ScanResult scan_properties(Cursor *cursor, ScannedMessage *found) noexcept nogil:
    """Take the message-id, the first field of properties (part 3.2.4)."""
    cdef Cursor inside
    cdef uint64_t count
    cdef ScanResult result = enter_compound(cursor, False, &inside, &count)
    if result != SCAN_FOUND or count == 0:
        return result
    if next_value(&inside, &found.id_code, &found.id, &found.id_size) != SCAN_FOUND:
        found.id_code = 0
        return SCAN_MALFORMED
    if found.id_code == NULL_CODE:
        found.id_code = 0
    return SCAN_FOUND


cdef inline bint is_key(
        const char *name, uint8_t code, const uint8_t *key, size_t size) noexcept nogil:
    # 0xA1/0xB1 string, 0xA3/0xB3 symbol: some clients write keys as symbols.
    return size == 8 and code in (0xA1, 0xA3, 0xB1, 0xB3) and memcmp(key, name, 8) == 0


cdef ScanResult scan_application_properties(
        Cursor *cursor, ScannedMessage *found) noexcept nogil:
    cdef Cursor inside
    cdef uint64_t count
    cdef uint8_t code
    cdef bint is_send_time
    cdef bint is_body_size
    cdef const uint8_t *start
    cdef size_t size
    cdef ScanResult inner
    cdef ScanResult whole = enter_compound(cursor, True, &inside, &count)
    if whole == SCAN_MALFORMED:
        return whole
    while count >= 2:
        count -= 2
        inner = next_value(&inside, &code, &start, &size)
        if inner != SCAN_FOUND:
            # Past the end of a map that is wholly here: its count was wrong.
            return SCAN_MORE if inner == SCAN_MORE and whole == SCAN_MORE else SCAN_MALFORMED
        is_send_time = is_key(b"SendTime", code, start, size)
        is_body_size = not is_send_time and is_key(b"BodySize", code, start, size)
        inner = next_value(&inside, &code, &start, &size)
        if inner != SCAN_FOUND:
            return SCAN_MORE if inner == SCAN_MORE and whole == SCAN_MORE else SCAN_MALFORMED
        if is_body_size and code == LONG:
            found.body_size = <int64_t>big_endian(start, 8)
        if not is_send_time:
            continue
        if code == LONG:
            found.time = start
            found.send_time = <int64_t>big_endian(start, 8)
            return SCAN_FOUND
        if code == SMALL_LONG:
            found.send_time = <signed char>start[0]
            return SCAN_FOUND
        return SCAN_WRONG_TYPE
    return SCAN_MORE if whole == SCAN_MORE else SCAN_MISSING


cdef ScanResult scan_message(
        const uint8_t *data, size_t size, ScannedMessage *found) noexcept nogil:
    """Scan the first ``size`` bytes of a message; ``found.id`` points into ``data``."""
    cdef Cursor cursor
    cdef uint8_t code
    cdef const uint8_t *start
    cdef size_t length
    cdef int section
    cdef ScanResult result
    cursor.at = data
    cursor.end = data + size
    found.id_code = 0
    found.body_size = -1
    found.time = NULL
    while True:
        result = section_code(&cursor, &section)
        if result != SCAN_FOUND:
            return result
        if section == APPLICATION_PROPERTIES:
            return scan_application_properties(&cursor, found)
        if section >= DATA:
            return SCAN_MISSING
        if section == PROPERTIES:
            result = scan_properties(&cursor, found)
        else:
            result = next_value(&cursor, &code, &start, &length)
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
