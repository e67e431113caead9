"""The sections of a message, as they follow each other (AMQP 1.0 part 3.2).

A node looks at the sections and not into them: at their order, at the kind of each and at
how long it is. Of fields it reads those of the header, and when the message expires.
"""

# The field absolute-expiry-time of properties, part 3.2.4.
cdef int EXPIRY_FIELD = 8
# A message that expires later than in 30 years never does: no run and no file is that old.
cdef int64_t FAR_MS = <int64_t>1 << 40
# The longest beginning of a section: a descriptor of 31 letters, a constructor, a length.
cdef enum:
    WINDOW = 64

# A place in a message's chunks.
cdef struct Place:
    Chunk *chunk
    size_t offset


cdef inline bint may_follow(int previous, int section) noexcept nogil:
    """Say whether a section may stand behind another; a body has one form (part 3.2)."""
    if previous == section:
        return section == AMQP_SECTION_DATA or section == AMQP_SECTION_SEQUENCE
    return section > previous and not (
        previous >= AMQP_SECTION_DATA and section < AMQP_SECTION_FOOTER)


cdef inline bint is_of_kind(int section, uint8_t constructor) noexcept nogil:
    """Say whether a section's value is a list, a map or bytes, as its kind is (part 3.2)."""
    if section == AMQP_SECTION_VALUE:
        return True
    if section == AMQP_SECTION_DATA:
        return constructor == BINARY8 or constructor == BINARY32
    if section in (AMQP_SECTION_HEADER, AMQP_SECTION_PROPERTIES, AMQP_SECTION_SEQUENCE):
        return constructor == LIST0 or constructor == LIST8 or constructor == LIST32
    return constructor == MAP8 or constructor == MAP32


cdef inline uint32_t length_of(const uint8_t *at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef bint sections_are_plain(const uint8_t *at, size_t size, Shape *shape) noexcept nogil:
    """Say whether a message passes as it is: `message_read` finds nothing to do or to refuse.

    The usual encodings only; False for others, and where properties have an expiry.

    Args:
        shape: gets the message's, for those that are like it.
    """
    shape.size = size
    if header_read(amqp_reader(at, size), &shape.header) == HEADER_READ and (
            shape.header.size <= SHAPE_HEADER and walk_plain(at, at + size, shape)):
        memcpy(shape.header_bytes, at, shape.header.size)
        return True
    shape.size = 0
    return False


cdef bint walk_plain(
        const uint8_t *start, const uint8_t *end, Shape *shape) noexcept nogil:
    """Walk over the sections behind the header."""
    cdef const uint8_t *at = start + shape.header.size
    cdef int previous = AMQP_SECTION_DELIVERY_ANNOTATIONS
    cdef int section
    cdef uint8_t constructor
    cdef size_t length
    shape.count = 0
    while at < end:
        if end - at < 4 or at[0] != DESCRIBED or at[1] != SMALL_ULONG:
            return False
        section = at[2]
        constructor = at[3]
        if section > AMQP_SECTION_FOOTER or not may_follow(previous, section) or not is_of_kind(
                section, constructor):
            return False
        previous = section
        note_word(shape, at - start, at)
        if constructor == LIST0:
            at += 4
            continue
        # The high bits tell the width of what follows: one byte of length, or four.
        if (constructor >> 4 == 0xA or constructor >> 4 == 0xC) and end - at >= 5:
            length = at[4]
            at += 5
        elif (constructor >> 4 == 0xB or constructor >> 4 == 0xD) and end - at >= 8:
            length = length_of(at + 4)
            if constructor >> 4 == 0xD:
                # The count of its items comes behind the first word.
                note_word(shape, at + 4 - start, at + 4)
            at += 8
        else:
            return False
        if <size_t>(end - at) < length or not is_short(section, constructor, at, length):
            return False
        at += length
    return True


cdef inline void note_word(Shape *shape, size_t offset, const uint8_t *at) noexcept nogil:
    """Put a word of a message into its shape, which is none where it has no room for it."""
    if shape.count == SHAPE_WORDS or offset + sizeof(uint64_t) > shape.size:
        shape.size = 0
        return
    shape.offsets[shape.count] = <uint32_t>offset
    memcpy(&shape.words[shape.count], at, sizeof(uint64_t))
    shape.count += 1


cdef inline bint is_short(
        int section, uint8_t constructor, const uint8_t *at, size_t length) noexcept nogil:
    """Say whether a compound's head is in order, and properties end before their expiry."""
    cdef uint32_t count
    if section == AMQP_SECTION_DATA:
        return True
    # An amqp-value has any constructor: binary, string and symbol, or list and map.
    if constructor < LIST8:
        return constructor & 0xF in (0, 1, 3)
    if constructor & 0xF > 1:
        return False
    if constructor >> 4 == 0xC:
        if length < 1:
            return False
        count = at[0]
        length -= 1
    else:
        if length < 4:
            return False
        count = length_of(at)
        length -= 4
    return section == AMQP_SECTION_VALUE or count <= length and (
        count <= <uint32_t>EXPIRY_FIELD if section == AMQP_SECTION_PROPERTIES
        else section == AMQP_SECTION_SEQUENCE or count % 2 == 0)


cdef HeaderResult message_read(Message *message, int64_t now, bint whole) noexcept nogil:
    """Read the header section and when the message expires; drop delivery annotations.

    These are for the next peer only (part 3.2.2). A message of another format than AMQP's
    (part 2.7.5) passes as it came; a header section is read if it has one.

    Args:
        now: monotonic ms, from which a time to live counts.
        whole: all of the message is in memory, and HEADER_READ says that its sections are in
            order. Otherwise only what comes before them has to be there.
    """
    cdef HeaderResult result = message_read_header(message, now)
    if message.format:
        if result == HEADER_MALFORMED or result == HEADER_MORE and whole:
            message_forget_header(message)
            return HEADER_READ
        return result
    if result == HEADER_READ:
        result = drop_delivery_annotations(message, whole)
    if result != HEADER_READ:
        return result
    return read_sections(message, now, whole)


cdef HeaderResult message_read_stored(Message *message, int64_t now) noexcept nogil:
    """Read what `message_read` does from the beginning of a message that was accepted once."""
    cdef HeaderResult result = message_read_header(message, now)
    if message.format:
        return HEADER_READ
    if result == HEADER_READ:
        read_sections(message, now, False)
    return result


cdef HeaderResult drop_delivery_annotations(Message *message, bint whole) noexcept nogil:
    cdef Place place
    cdef amqp_reader_t reader
    cdef uint8_t[WINDOW] buffer
    cdef const uint8_t *begin
    cdef size_t size
    cdef amqp_section section
    cdef amqp_value_t value
    place.chunk = message.first
    place.offset = message.header.size
    reader = window(&place, buffer)
    begin = reader.at
    if whole and reader.at == reader.end:
        return HEADER_READ
    section = amqp_read_section(&reader)
    if section != AMQP_SECTION_NONE and section != AMQP_SECTION_DELIVERY_ANNOTATIONS:
        return HEADER_READ
    if reader.at < reader.end and not is_of_kind(section, reader.at[0]):
        return HEADER_MALFORMED
    amqp_read_content(&reader, &value)
    if value.content.start == NULL:
        return as_header_result(reader.fault)
    size = value.content.start + value.content.size - begin
    if size > message.held - message.header.size:
        return HEADER_MORE
    message_cut(message, message.header.size, size)
    return HEADER_READ


cdef amqp_reader_t window(const Place *place, uint8_t *buffer) noexcept nogil:
    """Return the next bytes side by side: all of the last chunk, or WINDOW in the buffer."""
    cdef Chunk *chunk = place.chunk
    cdef size_t offset = place.offset
    cdef size_t size = 0
    cdef size_t part
    if chunk.next == NULL or chunk.size - offset >= WINDOW:
        return amqp_reader(<const uint8_t *>chunk_bytes(chunk) + offset, chunk.size - offset)
    while chunk != NULL and size < WINDOW:
        part = min(chunk.size - offset, WINDOW - size)
        memcpy(buffer + size, chunk_bytes(chunk) + offset, part)
        size += part
        chunk = chunk.next
        offset = 0
    return amqp_reader(buffer, size)


cdef bint advance(Place *place, size_t size) noexcept nogil:
    """Go on by so many bytes; False if the message has no more of them."""
    while size > place.chunk.size - place.offset:
        if place.chunk.next == NULL:
            return False
        size -= place.chunk.size - place.offset
        place.chunk = place.chunk.next
        place.offset = 0
    place.offset += size
    return True


cdef bint is_at_end(const Place *place) noexcept nogil:
    cdef const Chunk *chunk = place.chunk.next
    while chunk != NULL and chunk.size == 0:
        chunk = chunk.next
    return place.offset == place.chunk.size and chunk == NULL


cdef HeaderResult read_sections(Message *message, int64_t now, bint whole) noexcept nogil:
    """Walk over the sections behind the header and the delivery annotations."""
    cdef Place place
    cdef int previous = AMQP_SECTION_DELIVERY_ANNOTATIONS
    cdef amqp_fault fault = AMQP_FINE
    place.chunk = message.first
    place.offset = message.header.size
    while fault == AMQP_FINE and not is_at_end(&place):
        fault = step(message, &place, &previous, now)
    if fault == AMQP_FINE or fault == AMQP_MORE and not whole:
        return HEADER_READ
    return HEADER_MALFORMED


cdef amqp_fault step(
        Message *message, Place *place, int *previous, int64_t now) noexcept nogil:
    """Go over one section; AMQP_MORE where it ends behind what there is of the message."""
    cdef uint8_t[WINDOW] buffer
    cdef amqp_reader_t reader = window(place, buffer)
    cdef const uint8_t *begin = reader.at
    cdef const uint8_t *start
    cdef amqp_value_t value
    cdef amqp_section section = amqp_read_section(&reader)
    if reader.fault != AMQP_FINE:
        return reader.fault
    start = reader.at
    if not may_follow(previous[0], section) or start < reader.end and not is_of_kind(
            section, start[0]):
        return AMQP_DECODE_ERROR
    amqp_read_content(&reader, &value)
    if reader.fault == AMQP_MORE and start < reader.end and start[0] == DESCRIBED:
        # The descriptor may be longer than the window: where the value ends is not known.
        return AMQP_MORE if place.chunk.next == NULL else to_end(place)
    if value.content.start == NULL or reader.fault == AMQP_DECODE_ERROR:
        return reader.fault
    if section != AMQP_SECTION_DATA and section != AMQP_SECTION_VALUE and not has_items(
            section, &value, reader.end):
        return AMQP_DECODE_ERROR
    if section == AMQP_SECTION_PROPERTIES:
        read_expiry(message, place, start - begin, now)
    previous[0] = section
    return AMQP_FINE if advance(
        place, value.content.start + value.content.size - begin) else AMQP_MORE


cdef amqp_fault to_end(Place *place) noexcept nogil:
    while place.chunk.next != NULL:
        place.chunk = place.chunk.next
    place.offset = place.chunk.size
    return AMQP_FINE


cdef bint has_items(
        amqp_section section, const amqp_value_t *value, const uint8_t *end) noexcept nogil:
    """Say whether a list or map may have as many items as it says; a map has pairs."""
    cdef const uint8_t *start = value.content.start
    cdef size_t width = 1 if value.constructor == LIST8 or value.constructor == MAP8 else 4
    cdef uint32_t count
    if value.constructor == LIST0 or <size_t>(end - start) < width:
        return True
    count = start[0] if width == 1 else length_of(start)
    return count <= value.content.size - width and (
        count % 2 == 0 or section == AMQP_SECTION_PROPERTIES or section == AMQP_SECTION_SEQUENCE)


cdef void read_expiry(
        Message *message, const Place *place, size_t offset, int64_t now) noexcept nogil:
    """Take absolute-expiry-time, if it comes before the end of the time to live (part 3.2.4).

    Properties that lie in two chunks are longer than any in use: their field is not read.
    """
    cdef amqp_reader_t reader
    cdef amqp_fields_t fields
    cdef amqp_value_t value
    cdef int64_t left
    offset += place.offset
    if place.chunk.size <= offset:
        return
    reader = amqp_reader(
        <const uint8_t *>chunk_bytes(place.chunk) + offset, place.chunk.size - offset)
    fields = amqp_read_list(&reader)
    if fields.left <= <uint32_t>EXPIRY_FIELD:
        return
    for _ in range(EXPIRY_FIELD + 1):
        if not amqp_read_content(&fields.inside, &value):
            return
    if value.constructor != TIMESTAMP:
        return
    left = milliseconds_until(value.content.start)
    # 0 says that a message never expires.
    if left < FAR_MS and (message.expires == 0 or now + left < message.expires):
        message.expires = max(now + left, <int64_t>1)


cdef int64_t milliseconds_until(const uint8_t *timestamp) noexcept nogil:
    """Return how long it is until a time in ms since 1970; 0 if that is over."""
    cdef int64_t time = <int64_t>(
        (<uint64_t>length_of(timestamp) << 32) | length_of(timestamp + 4))
    cdef int64_t present = realtime_ns() // 1000000
    return time - present if time > present else 0
