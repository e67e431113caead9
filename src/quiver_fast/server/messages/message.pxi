"""A message in the server: its bytes in chunks, with a count of references.

A message that arrives whole is one allocation. A longer one grows by chunks, and a stream drops
the chunks that every outlet has sent. A node rewrites only the header section (AMQP 1.0
part 3.2.1). The bare message passes unchanged.
"""

# The bytes of a growing message's chunk: large enough that there are few, and a quarter of the
# bytes that a stream may hold.
cdef size_t CHUNK = 32768

# The function is a chain's first member.
ctypedef void (*End)(void *chain) noexcept nogil


cdef Message *message_new(size_t capacity) noexcept nogil:
    """Make an empty message with room for ``capacity`` bytes; NULL without memory."""
    cdef Message *message = <Message *>spares_take(whole_size(capacity))
    cdef Chunk *chunk
    if message == NULL:
        return NULL
    chunk = inline_chunk(message)
    chunk.next = NULL
    chunk.size = 0
    chunk.capacity = <uint32_t>capacity
    chunk.readers = 0
    message.hold.users = 1
    message.hold.release = message_free
    message.format = 0
    message.complete = False
    message.aborted = False
    message.from_trunk = False
    message.stream = NULL
    message.chain = NULL
    message.readers = 0
    message.origin = 0
    message.judged = 0
    message.expires = 0
    message.size = 0
    message.held = 0
    message.index = -1
    message.first = chunk
    message.last = chunk
    made(MESSAGE)
    return message


cdef Message *message_in_parts() noexcept nogil:
    """Make an empty message that will grow by chunks; NULL without memory.

    The chunk in the message's own allocation is empty: it represents the dropped bytes.
    """
    cdef Message *message = message_new(0)
    if message == NULL:
        return NULL
    message.first = message.last = new_chunk(0)
    if message.first == NULL:
        freed(MESSAGE)
        spares_give(message, whole_size(0))
        return NULL
    return message


cdef Message *message_plain(
        const void *start, size_t size, const Header *header, int64_t now) noexcept nogil:
    """Make a complete message with a header that was read; NULL without memory.

    Args:
        now: as of `message_read_header`.
    """
    cdef Message *message = message_new(size)
    if message == NULL:
        return NULL
    memcpy(chunk_bytes(message.first), start, size)
    message_filled(message, size)
    message.complete = True
    message.header = header[0]
    if header.has_ttl:
        message.expires = now + header.ttl
    return message


cdef inline size_t whole_size(size_t capacity) noexcept nogil:
    """Return the size of a message with its first chunk."""
    return sizeof(Message) + sizeof(Chunk) + capacity


cdef Chunk *new_chunk(uint32_t readers) noexcept nogil:
    cdef Chunk *chunk = <Chunk *>malloc(sizeof(Chunk) + CHUNK)
    if chunk == NULL:
        return NULL
    chunk.next = NULL
    chunk.size = 0
    chunk.capacity = <uint32_t>CHUNK
    chunk.readers = readers
    return chunk


cdef inline Chunk *inline_chunk(const Message *message) noexcept nogil:
    return <Chunk *>(<char *>message + sizeof(Message))


cdef bint is_inline(const Message *message, const Chunk *chunk) noexcept nogil:
    return chunk == inline_chunk(message)


cdef void chunk_free(Message *message, Chunk *chunk) noexcept nogil:
    # The first chunk lies in the message's own allocation.
    if not is_inline(message, chunk):
        free(chunk)


cdef void message_release(Message *message) noexcept nogil:
    """Release one reference."""
    message.hold.users -= 1
    if message.hold.users == 0:
        message_free(&message.hold)


cdef void message_free(amqp_hold_t *hold) noexcept nogil:
    cdef Message *message = <Message *>hold
    cdef Chunk *chunk = message.first
    cdef Chunk *following
    while chunk != NULL:
        following = chunk.next
        chunk_free(message, chunk)
        chunk = following
    if message.stream != NULL:
        freed(STREAM)
    freed(MESSAGE)
    free(message.stream)
    if message.chain != NULL:
        (<End *>message.chain)[0](message.chain)
    spares_give(message, whole_size(inline_chunk(message).capacity))


cdef char *message_space(Message *message, size_t wanted, size_t *size) noexcept nogil:
    """Return the space for the next bytes, and its size; NULL without memory."""
    cdef Chunk *chunk = message.last
    if chunk.size == chunk.capacity:
        chunk = new_chunk(message.readers)
        if chunk == NULL:
            return NULL
        message.last.next = chunk
        message.last = chunk
    size[0] = min(wanted, <size_t>(chunk.capacity - chunk.size))
    return chunk_bytes(chunk) + chunk.size


cdef void message_filled(Message *message, size_t size) noexcept nogil:
    """Count ``size`` bytes that were put into the space."""
    message.last.size += <uint32_t>size
    message.size += size
    message.held += size


cdef void message_fit(Message *message) noexcept nogil:
    """Free the unused space of a complete message's only chunk.

    A queue may hold very many small messages that came in parts. Nobody may have a pointer to the
    chunk.
    """
    cdef Chunk *chunk = message.first
    if chunk != message.last or is_inline(message, chunk):
        return
    chunk = <Chunk *>realloc(chunk, sizeof(Chunk) + chunk.size)
    if chunk != NULL:
        chunk.capacity = chunk.size
        message.first = message.last = chunk


cdef void message_drain(Message *message, char *out, size_t size) noexcept nogil:
    """Move the first ``size`` bytes in memory to ``out``, or drop them if it is NULL.

    Not for a stream, whose entries still have to send the bytes.
    """
    cdef Chunk *chunk = message.first
    cdef size_t part
    message.held -= size
    while size:
        part = min(size, <size_t>chunk.size)
        if out != NULL:
            memcpy(out, chunk_bytes(chunk), part)
            out += part
        size -= part
        if part < chunk.size:
            # The next call moves the rest of the chunk.
            memmove(chunk_bytes(chunk), chunk_bytes(chunk) + part, chunk.size - part)
            chunk.size -= <uint32_t>part
        elif chunk.next != NULL:
            message.first = chunk.next
            chunk_free(message, chunk)
            chunk = message.first
        else:
            chunk.size = 0


cdef void message_cut(Message *message, size_t at, size_t size) noexcept nogil:
    """Remove ``size`` bytes that begin ``at`` bytes within a message, which are in memory."""
    cdef Chunk *chunk = message.first
    cdef char *begin
    cdef size_t part
    message.size -= size
    message.held -= size
    while size:
        if at >= chunk.size:
            at -= chunk.size
        else:
            begin = chunk_bytes(chunk) + at
            part = min(size, chunk.size - at)
            memmove(begin, begin + part, chunk.size - at - part)
            chunk.size -= <uint32_t>part
            size -= part
            at = 0
        chunk = chunk.next


cdef void message_trim(Message *message) noexcept nogil:
    """Drop the first chunks of a stream, which every entry has sent."""
    cdef Chunk *chunk = message.first
    while chunk.readers == 0 and chunk.next != NULL:
        message.first = chunk.next
        message.held -= chunk.size
        chunk_free(message, chunk)
        chunk = message.first


cdef void message_empty(Message *message) noexcept nogil:
    """Empty the only chunk of a growing message after its only entry has sent the chunk."""
    message.held = 0
    chunk_free(message, message.first)
    message.first = message.last = inline_chunk(message)
    message.first.size = 0
    message.first.next = NULL
    message.first.readers = message.readers


cdef void message_join(Message *message) noexcept nogil:
    """Note that one more entry of a stream will send all bytes that are there."""
    cdef Chunk *chunk = message.first
    message.readers += 1
    while chunk != NULL:
        chunk.readers += 1
        chunk = chunk.next


cdef void message_leave(Message *message, Chunk *position) noexcept nogil:
    """Note that one entry of a stream stops sending at ``position``."""
    message.readers -= 1
    while position != NULL:
        position.readers -= 1
        position = position.next
    message_trim(message)


cdef inline uint32_t number(amqp_bytes_t bytes) noexcept nogil:
    cdef uint32_t value = 0
    cdef size_t i
    for i in range(bytes.size):
        value = (value << 8) | bytes.start[i]
    return value


cdef HeaderResult read_field(
        Header *header, int field, const amqp_value_t *value) noexcept nogil:
    """Take one field of the header, in the order of part 3.2.1."""
    cdef uint8_t code = value.constructor
    if code == NULL_:
        return HEADER_READ
    if field == 0 or field == 3:
        if code != TRUE_ and code != FALSE_ and code != BOOLEAN:
            return HEADER_MALFORMED
        if field == 0:
            header.durable = code == TRUE_ or (code == BOOLEAN and value.content.start[0] != 0)
        return HEADER_READ
    if field == 1:
        if code != UBYTE:
            return HEADER_MALFORMED
        header.has_priority = True
        header.priority = value.content.start[0]
        return HEADER_READ
    if code != UINT and code != SMALL_UINT and code != UINT0:
        return HEADER_MALFORMED
    if field == 2:
        header.has_ttl = True
        header.ttl = number(value.content)
    elif field == 4:
        header.delivery_count = number(value.content)
    return HEADER_READ


cdef HeaderResult as_header_result(amqp_fault fault) noexcept nogil:
    if fault == AMQP_FINE:
        return HEADER_READ
    return HEADER_MORE if fault == AMQP_MORE else HEADER_MALFORMED


cdef amqp_reader_t reader_of(const Message *message) noexcept nogil:
    return amqp_reader(<const uint8_t *>chunk_bytes(message.first), message.first.size)


cdef void message_forget_header(Message *message) noexcept nogil:
    """Set all fields of the header to the defaults of part 3.2.1."""
    memset(&message.header, 0, sizeof(Header))


cdef HeaderResult message_read_header(Message *message, int64_t now) noexcept nogil:
    """Read the header section, if there is one, from the first chunk.

    Args:
        now: monotonic ms, the start of the time to live (part 3.2.1).
    """
    cdef HeaderResult result = header_read(reader_of(message), &message.header)
    if result == HEADER_READ and message.header.has_ttl:
        message.expires = now + message.header.ttl
    return result


# The fields of part 3.2.1.
cdef uint32_t HEADER_FIELDS = 5


cdef HeaderResult header_read(amqp_reader_t reader, Header *header) noexcept nogil:
    """Read the header section at the beginning of a message; without one all fields are zero."""
    cdef const uint8_t *begin = reader.at
    cdef amqp_section section = amqp_read_section(&reader)
    cdef amqp_fields_t fields
    cdef amqp_value_t value
    cdef int field
    memset(header, 0, sizeof(Header))
    if section > AMQP_SECTION_HEADER:
        return HEADER_READ
    fields = amqp_read_list(&reader)
    if reader.fault != AMQP_FINE:
        return as_header_result(reader.fault)
    if fields.left > HEADER_FIELDS:
        return HEADER_MALFORMED
    for field in range(<int>fields.left):
        if not amqp_read_content(&fields.inside, &value):
            return HEADER_MALFORMED
        if read_field(header, field, &value) != HEADER_READ:
            return HEADER_MALFORMED
    if fields.inside.at != fields.inside.end:
        return HEADER_MALFORMED
    header.size = reader.at - begin
    return HEADER_READ


cdef inline size_t put_uint(char *out, uint32_t value) noexcept nogil:
    out[0] = 0x70
    out[1] = <char>(value >> 24)
    out[2] = <char>(value >> 16)
    out[3] = <char>(value >> 8)
    out[4] = <char>value
    return 5


cdef size_t encode_header(
        const Message *message, uint32_t failures, bint first, int64_t now,
        char *out) noexcept nogil:
    """Write a header section of at most HEADER_MAX bytes and return its length.

    Args:
        failures: unsuccessful deliveries at this node, added to earlier ones.
        first: nobody acquired the message before.
        now: monotonic ms; the section gets the remaining time to live (part 3.2.1).
    """
    cdef const Header *header = &message.header
    cdef size_t n = 5
    out[0] = 0x00
    out[1] = 0x53
    out[2] = <char>AMQP_SECTION_HEADER
    out[3] = <char>0xC0
    # The size, out[4], is known at the end.
    out[n] = 5
    n += 1
    out[n] = <char>(TRUE_ if header.durable else FALSE_)
    n += 1
    if header.has_priority:
        out[n] = 0x50
        out[n + 1] = <char>header.priority
        n += 2
    else:
        out[n] = <char>NULL_
        n += 1
    if header.has_ttl:
        n += put_uint(out + n, <uint32_t>max(message.expires - now, <int64_t>0))
    else:
        out[n] = <char>NULL_
        n += 1
    out[n] = <char>(TRUE_ if first else FALSE_)
    n += 1
    n += put_uint(out + n, header.delivery_count + failures)
    out[4] = <char>(n - 5)
    return n
