"""Message annotations merged into the bytes of a message, AMQP 1.0 parts 3.2.3 and 3.4.5."""


def merged(message: bytes, annotations: bytes) -> bytes:
    """Return the message with these annotations; a new one replaces one with the same key.

    Args:
        message: encoded sections.
        annotations: an encoded map.

    Raises:
        ValueError: the annotations are not a map, or the sections before the bare message cannot
            be read.
    """
    cdef const uint8_t *start = message
    cdef amqp_reader_t reader = amqp_reader(start, len(message))
    cdef amqp_section section
    cdef amqp_bytes_t value
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t rest = 0
    pairs = {}
    while at == rest and reader.at < reader.end:
        section = amqp_read_section(&reader)
        if section > AMQP_SECTION_MESSAGE_ANNOTATIONS:
            break
        value = amqp_read_value(&reader)
        if reader.fault != AMQP_FINE:
            raise ValueError("a section cannot be read")
        rest = reader.at - start
        if section == AMQP_SECTION_MESSAGE_ANNOTATIONS:
            pairs = pairs_of(value)
        else:
            at = rest
    pairs.update(pairs_of(bytes_of(annotations)))
    content = b"".join(pairs.values())
    head = bytes((0, 0x53, AMQP_SECTION_MESSAGE_ANNOTATIONS, MAP32))
    size, count = (number.to_bytes(4, "big") for number in (len(content) + 4, 2 * len(pairs)))
    return message[:at] + head + size + count + content + message[rest:]


cdef amqp_bytes_t bytes_of(bytes data):
    cdef amqp_bytes_t result
    result.start = data
    result.size = len(data)
    return result


cdef bytes copy_of(amqp_bytes_t encoded):
    return (<const char *>encoded.start)[:encoded.size]


cdef dict pairs_of(amqp_bytes_t encoded):
    """Return the encoded pairs of a map, by the identities of their keys."""
    cdef amqp_reader_t reader = amqp_reader(encoded.start, encoded.size)
    cdef amqp_fields_t fields
    cdef amqp_bytes_t key
    cdef amqp_bytes_t value
    if encoded.size and encoded.start[0] == NULL_:
        return {}
    fields = amqp_read_map(&reader)
    if reader.fault != AMQP_FINE:
        raise ValueError("not a map")
    pairs = {}
    while fields.inside.at < fields.inside.end:
        key = amqp_read_value(&fields.inside)
        value = amqp_read_value(&fields.inside)
        if fields.inside.fault != AMQP_FINE:
            raise ValueError("a map cannot be read")
        pairs[identity(key)] = copy_of(key) + copy_of(value)
    return pairs


cdef identity(amqp_bytes_t key):
    """Return a key that is the same for both encodings of a symbol."""
    cdef size_t head = 2 if key.start[0] == SYMBOL8 else 5 if key.start[0] == SYMBOL32 else 0
    return head > 0, copy_of(key)[head:]
