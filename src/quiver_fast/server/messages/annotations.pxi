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


cdef struct Pair:
    amqp_bytes_t key
    amqp_bytes_t value
    # The size of the key's constructor and size, if it is a symbol; else 0.
    size_t head
    uint32_t sum

cdef struct Pairs:
    uint32_t count
    # The bytes of all keys and values.
    size_t size
    # Those of the message, and new ones.
    Pair[2 * ANNOTATIONS_MAX] each


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
    after = message_annotated(message, encoded_bytes(annotations))
    message_release(message)
    if after == NULL:
        raise ValueError("the annotations cannot be merged")
    result = chunk_bytes(after.first)[:after.size]
    message_release(after)
    return result


cdef amqp_bytes_t encoded_bytes(bytes data):
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
    cdef Pairs pairs
    cdef Pairs given
    cdef size_t at = 0
    cdef size_t rest = 0
    if message.held > ANNOTATED_MAX or annotations.size > ANNOTATIONS_BYTES:
        return NULL
    pairs.count = 0
    pairs.size = 0
    if not find_annotations(&reader, &pairs, &at, &rest) or not read_pairs(annotations, &given):
        return NULL
    if message.first.next != NULL and rest == message.first.size or (
            pairs.size > ANNOTATIONS_BYTES):
        return NULL
    merge(&pairs, &given)
    return annotated(message, start, at, rest, &pairs)


cdef Message *annotated(
        const Message *message, const uint8_t *start, size_t at, size_t rest,
        const Pairs *pairs) noexcept nogil:
    cdef Message *after
    cdef const Chunk *chunk = message.first
    cdef char *out
    cdef size_t size = ANNOTATIONS_HEAD + pairs.size
    if pairs.size > ANNOTATIONS_BYTES:
        return NULL
    after = message_new(at + size + message.held - rest)
    if after == NULL:
        return NULL
    out = chunk_bytes(after.first)
    memcpy(out, start, at)
    put_head(out + at, size, pairs.count)
    put_pairs(out + at + ANNOTATIONS_HEAD, pairs)
    out += at + size
    while chunk != NULL:
        size = chunk.size - rest
        memcpy(out, chunk_bytes(<Chunk *>chunk) + rest, size)
        out += size
        rest = 0
        chunk = chunk.next
    message_filled(after, after.first.capacity)
    return after


cdef bint find_annotations(
        amqp_reader_t *reader, Pairs *found, size_t *at, size_t *rest) noexcept nogil:
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


cdef bint read_pairs(amqp_bytes_t encoded, Pairs *pairs) noexcept nogil:
    """Read a map of few pairs; return False if it is none. Null is an empty one."""
    cdef amqp_reader_t reader = amqp_reader(encoded.start, encoded.size)
    cdef amqp_fields_t fields
    cdef Pair pair
    pairs.count = 0
    pairs.size = 0
    if encoded.size and encoded.start[0] == NULL_:
        return True
    fields = amqp_read_map(&reader)
    if reader.fault != AMQP_FINE:
        return False
    while fields.inside.at < fields.inside.end:
        pair.key = amqp_read_value(&fields.inside)
        pair.value = amqp_read_value(&fields.inside)
        if fields.inside.fault != AMQP_FINE or pairs.count == ANNOTATIONS_MAX:
            return False
        pair.head = symbol_head(pair.key)
        pair.sum = sum_of(pair.key.start + pair.head, pair.key.size - pair.head)
        add_pair(pairs, &pair)
    return True


cdef inline void add_pair(Pairs *pairs, const Pair *pair) noexcept nogil:
    pairs.each[pairs.count] = pair[0]
    pairs.count += 1
    pairs.size += pair.key.size + pair.value.size


cdef void merge(Pairs *pairs, const Pairs *given) noexcept nogil:
    """Add pairs to others; a value replaces that of the same key."""
    cdef uint32_t before = pairs.count
    cdef uint32_t i
    cdef Pair *same
    for i in range(given.count):
        same = find_pair(pairs, before, &given.each[i])
        if same == NULL:
            add_pair(pairs, &given.each[i])
        else:
            pairs.size += given.each[i].value.size - same.value.size
            same.value = given.each[i].value


cdef Pair *find_pair(Pairs *pairs, uint32_t count, const Pair *pair) noexcept nogil:
    """Return the pair with the same key among the first ``count``; NULL if there is none."""
    cdef uint32_t i
    for i in range(count):
        if pairs.each[i].sum == pair.sum and same_key(&pairs.each[i], pair):
            return &pairs.each[i]
    return NULL


cdef uint32_t sum_of(const uint8_t *start, size_t size) noexcept nogil:
    """Return a sum over a key, so that few other keys have to be compared with it."""
    cdef uint32_t sum = <uint32_t>size
    cdef size_t i
    for i in range(size):
        sum = sum * 31 + start[i]
    return sum


cdef bint same_key(const Pair *one, const Pair *other) noexcept nogil:
    """Compare keys; a symbol has two encodings (part 1.6.21)."""
    cdef size_t size = one.key.size - one.head
    return (one.head > 0) == (other.head > 0) and size == other.key.size - other.head and (
        memcmp(one.key.start + one.head, other.key.start + other.head, size) == 0)


cdef inline size_t symbol_head(amqp_bytes_t key) noexcept nogil:
    return 2 if key.start[0] == SYMBOL8 else 5 if key.start[0] == SYMBOL32 else 0


cdef void put_pairs(char *out, const Pairs *pairs) noexcept nogil:
    cdef const Pair *pair
    cdef uint32_t i
    for i in range(pairs.count):
        pair = &pairs.each[i]
        memcpy(out, pair.key.start, pair.key.size)
        memcpy(out + pair.key.size, pair.value.start, pair.value.size)
        out += pair.key.size + pair.value.size


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
