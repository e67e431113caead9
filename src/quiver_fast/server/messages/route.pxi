"""The route of a stream between two servers: our own section of delivery annotations.

A server that passes a stream to another one inserts the route after the header (AMQP 1.0
part 3.2.2). The other server removes it, so clients see only their own sections. Links for
streams serve one address after the other: they have no address, and the route names it. The
flags are skupper-router's ra_flags under another name.
"""

# A described map32 of two entries (part 1.6.23). SIZE_AT is the place of its size.
cdef enum:
    START_SIZE = 12
    SIZE_AT = 4
    FLAGS_KEY_SIZE = 20
    TO_KEY_SIZE = 17
cdef const char *ROUTE_START = b"\x00\x53\x71\xd1\x00\x00\x00\x00\x00\x00\x00\x04"
cdef const char *FLAGS_KEY = b"\xa3\x12x-opt-quiver-flags"
cdef const char *TO_KEY = b"\xa3\x0fx-opt-quiver-to"

cdef uint8_t FLAG_STREAMING = 0x01
cdef uint8_t FLAG_PRESETTLED = 0x02


cdef inline void put_uint32(char *out, uint32_t value) noexcept nogil:
    out[0] = <char>(value >> 24)
    out[1] = <char>(value >> 16)
    out[2] = <char>(value >> 8)
    out[3] = <char>value


cdef size_t encode_route(size_t address_size, bint presettled, char *out) noexcept nogil:
    """Write the section up to its address, which the caller appends; return its length so far.

    Args:
        address_size: bytes of the address.
        presettled: the stream's sender settled it already.
    """
    cdef size_t n = START_SIZE
    memcpy(out, ROUTE_START, START_SIZE)
    memcpy(out + n, FLAGS_KEY, FLAGS_KEY_SIZE)
    n += FLAGS_KEY_SIZE
    out[n] = <char>SMALL_UINT
    out[n + 1] = <char>(FLAG_STREAMING | (FLAG_PRESETTLED if presettled else 0))
    n += 2
    memcpy(out + n, TO_KEY, TO_KEY_SIZE)
    n += TO_KEY_SIZE
    out[n] = <char>STRING32
    put_uint32(out + n + 1, <uint32_t>address_size)
    n += 5
    put_uint32(out + SIZE_AT, <uint32_t>(n + address_size - SIZE_AT - 4))
    return n


cdef inline bint is_key(const char *key, size_t key_size, amqp_bytes_t found) noexcept nogil:
    # The key is after its constructor and length.
    return found.size == key_size - 2 and memcmp(found.start, key + 2, found.size) == 0


cdef bint read_entry(amqp_reader_t *inside, Route *route) noexcept nogil:
    """Read one entry of the map; return False if it is malformed."""
    cdef amqp_value_t key
    cdef amqp_value_t value
    if not amqp_read_content(inside, &key) or not amqp_read_content(inside, &value):
        return False
    if is_key(FLAGS_KEY, FLAGS_KEY_SIZE, key.content) and value.constructor == SMALL_UINT:
        route.streaming = value.content.start[0] & FLAG_STREAMING != 0
        route.presettled = value.content.start[0] & FLAG_PRESETTLED != 0
    elif is_key(TO_KEY, TO_KEY_SIZE, key.content) and value.constructor == STRING32:
        route.address = <const char *>value.content.start
        route.size = value.content.size
    return True


cdef HeaderResult message_read_route(Message *message, int64_t now, Route *route) noexcept nogil:
    """Read the header and the route that follows it; HEADER_MALFORMED without a route.

    Args:
        now: as of `message_read_header`.
    """
    cdef HeaderResult header = message_read_header(message, now)
    cdef const uint8_t *begin = <const uint8_t *>chunk_bytes(message.first)
    cdef amqp_reader_t reader
    cdef amqp_section section
    cdef amqp_fields_t fields
    route.address = NULL
    route.streaming = False
    route.presettled = False
    if header != HEADER_READ:
        return header
    reader = amqp_reader(begin + message.header.size, message.first.size - message.header.size)
    section = amqp_read_section(&reader)
    if section != AMQP_SECTION_NONE and section != AMQP_SECTION_DELIVERY_ANNOTATIONS:
        return HEADER_MALFORMED
    fields = amqp_read_map(&reader)
    if reader.fault != AMQP_FINE:
        return as_header_result(reader.fault)
    route.end = reader.at - begin
    for _ in range(<int>min(fields.left // 2, <uint32_t>2)):
        if not read_entry(&fields.inside, route):
            return HEADER_MALFORMED
    return HEADER_READ if route.streaming and route.address != NULL else HEADER_MALFORMED


cdef void message_strip_route(Message *message, const Route *route) noexcept nogil:
    """Remove the section that `message_read_route` found."""
    message_cut(message, message.header.size, route.end - message.header.size)
