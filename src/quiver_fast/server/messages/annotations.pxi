"""Message annotations merged into the bytes of a message, AMQP 1.0 parts 3.2.3 and 3.4.5.

An outcome is a short frame, so its work has to be short too: there is a limit of annotations, of
their bytes, and of the bytes of a message that is copied for them.
"""

cdef enum:
    ANNOTATIONS_MAX = 256
    # The section's head: descriptor, constructor, size and count.
    ANNOTATIONS_HEAD = 12
cdef size_t ANNOTATIONS_BYTES = 65536
cdef size_t ANNOTATED_MAX = 4194304


def merged(encoded: bytes, annotations: bytes) -> bytes:
    """Return an encoded message with these annotations, an encoded map.

    Raises:
        ValueError: they cannot be merged (`message_annotated`).
    """
    cdef Message *message = message_new(len(encoded))
    cdef Message *after
    if message == NULL:
        raise MemoryError("no memory for a message")
    memcpy(chunk_bytes(message.first), <const char *>encoded, len(encoded))
    message_filled(message, len(encoded))
    after = message_annotated(message, bytes_of(annotations))
    message_release(message)
    if after == NULL:
        raise ValueError("the annotations cannot be merged")
    result = chunk_bytes(after.first)[:after.size]
    message_release(after)
    return result


cdef amqp_bytes_t bytes_of(bytes data):
    cdef amqp_bytes_t result
    result.start = data
    result.size = len(data)
    return result


cdef Message *message_annotated(
        const Message *message, amqp_bytes_t annotations) noexcept nogil:
    """Return a copy of a message with annotations; a new one replaces one with the same key.

    Return NULL without memory, beyond the limits, if the annotations are not a map, or if the
    sections before the bare message cannot be read in the message's first chunk.
    """
    cdef amqp_reader_t reader = reader_of(message)
    cdef const uint8_t *start = reader.at
    cdef amqp_fields_t before = no_fields()
    cdef amqp_fields_t given
    cdef size_t at = 0
    cdef size_t rest = 0
    if message.held > ANNOTATED_MAX or annotations.size > ANNOTATIONS_BYTES:
        return NULL
    if not find_annotations(&reader, &before, &at, &rest) or not read_pairs(annotations, &given):
        return NULL
    if message.first.next != NULL and rest == message.first.size or (
            before.inside.end - before.inside.at > <ssize_t>ANNOTATIONS_BYTES):
        return NULL
    return annotated(message, start, at, rest, &before, &given)


cdef Message *annotated(
        const Message *message, const uint8_t *start, size_t at, size_t rest,
        const amqp_fields_t *before, const amqp_fields_t *given) noexcept nogil:
    cdef Message *after
    cdef const Chunk *chunk = message.first
    cdef char *out
    cdef uint32_t count
    cdef size_t size = put_pairs(NULL, before, given, &count)
    if size > ANNOTATIONS_BYTES:
        return NULL
    size += ANNOTATIONS_HEAD
    after = message_new(at + size + message.held - rest)
    if after == NULL:
        return NULL
    out = chunk_bytes(after.first)
    memcpy(out, start, at)
    put_head(out + at, size, count)
    put_pairs(out + at + ANNOTATIONS_HEAD, before, given, &count)
    out += at + size
    while chunk != NULL:
        size = chunk.size - rest
        memcpy(out, chunk_bytes(<Chunk *>chunk) + rest, size)
        out += size
        rest = 0
        chunk = chunk.next
    message_filled(after, after.first.capacity)
    return after


cdef inline amqp_fields_t no_fields() noexcept nogil:
    cdef amqp_fields_t fields
    memset(&fields, 0, sizeof(fields))
    return fields


cdef bint find_annotations(
        amqp_reader_t *reader, amqp_fields_t *found, size_t *at, size_t *rest) noexcept nogil:
    """Find the annotations of a message, or their place; False if it cannot be read.

    Args:
        at, rest: the end of the sections before them, and the beginning of those behind.
    """
    cdef const uint8_t *start = reader.at
    cdef amqp_section section
    cdef amqp_bytes_t value
    while at[0] == rest[0] and reader.at < reader.end:
        section = amqp_read_section(reader)
        if section > AMQP_SECTION_MESSAGE_ANNOTATIONS:
            return True
        value = amqp_read_value(reader)
        if reader.fault != AMQP_FINE:
            return False
        rest[0] = reader.at - start
        if section == AMQP_SECTION_MESSAGE_ANNOTATIONS:
            return read_pairs(value, found)
        at[0] = rest[0]
    return True


cdef bint read_pairs(amqp_bytes_t encoded, amqp_fields_t *pairs) noexcept nogil:
    """Read a map of few pairs; return False if it is none. Null is an empty one."""
    cdef amqp_reader_t reader = amqp_reader(encoded.start, encoded.size)
    cdef amqp_reader_t each
    cdef uint32_t count = 0
    pairs[0] = no_fields()
    if encoded.size and encoded.start[0] == NULL_:
        return True
    pairs[0] = amqp_read_map(&reader)
    each = pairs.inside
    if reader.fault != AMQP_FINE:
        return False
    while each.at < each.end:
        count += 1
        amqp_read_value(&each)
        amqp_read_value(&each)
        if each.fault != AMQP_FINE or count > ANNOTATIONS_MAX:
            return False
    return True


cdef size_t put_pairs(
        char *out, const amqp_fields_t *before, const amqp_fields_t *given,
        uint32_t *count) noexcept nogil:
    """Write the pairs of both maps, each key once, or only count them; return their bytes."""
    cdef amqp_reader_t reader = before.inside
    cdef size_t size = 0
    cdef amqp_bytes_t key
    cdef amqp_bytes_t value
    count[0] = 0
    while reader.at < reader.end:
        key = amqp_read_value(&reader)
        value = amqp_read_value(&reader)
        find_value(given, key, &value)
        size += put_pair(out, size, key, value)
        count[0] += 1
    reader = given.inside
    while reader.at < reader.end:
        key = amqp_read_value(&reader)
        value = amqp_read_value(&reader)
        if not find_value(before, key, NULL):
            size += put_pair(out, size, key, value)
            count[0] += 1
    return size


cdef bint find_value(
        const amqp_fields_t *pairs, amqp_bytes_t key, amqp_bytes_t *value) noexcept nogil:
    """Find the value of a key in a map."""
    cdef amqp_reader_t reader = pairs.inside
    cdef amqp_bytes_t other
    cdef amqp_bytes_t found
    while reader.at < reader.end:
        other = amqp_read_value(&reader)
        found = amqp_read_value(&reader)
        if same_key(key, other):
            if value != NULL:
                value[0] = found
            return True
    return False


cdef bint same_key(amqp_bytes_t one, amqp_bytes_t other) noexcept nogil:
    """Compare keys; a symbol has two encodings (part 1.6.21)."""
    cdef size_t head = symbol_head(one)
    cdef size_t other_head = symbol_head(other)
    return (head > 0) == (other_head > 0) and one.size - head == other.size - other_head and (
        memcmp(one.start + head, other.start + other_head, one.size - head) == 0)


cdef inline size_t symbol_head(amqp_bytes_t key) noexcept nogil:
    return 2 if key.start[0] == SYMBOL8 else 5 if key.start[0] == SYMBOL32 else 0


cdef inline size_t put_pair(
        char *out, size_t at, amqp_bytes_t key, amqp_bytes_t value) noexcept nogil:
    if out != NULL:
        memcpy(out + at, key.start, key.size)
        memcpy(out + at + key.size, value.start, value.size)
    return key.size + value.size


cdef inline void put_head(char *out, size_t size, uint32_t count) noexcept nogil:
    """Write the head of the annotations' section, which has ``size`` bytes with it."""
    out[0] = 0x00
    out[1] = 0x53
    out[2] = <char>AMQP_SECTION_MESSAGE_ANNOTATIONS
    out[3] = <char>MAP32
    put_number(out + 4, <uint32_t>(size - 8))
    put_number(out + 8, 2 * count)


cdef inline void put_number(char *out, uint32_t value) noexcept nogil:
    out[0] = <char>(value >> 24)
    out[1] = <char>(value >> 16)
    out[2] = <char>(value >> 8)
    out[3] = <char>value
