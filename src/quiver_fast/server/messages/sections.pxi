"""The sections of a message and their order (AMQP 1.0 part 3.2).

A node checks the order, kind and size of the sections, and the contents of those before the body
(contents.pxi). It reads the header's fields, and the message's expiry.
"""

cdef inline bint has_shape(const Shape *shape, const uint8_t *at, size_t size) noexcept nogil:
    """Say whether a message is as long as the one before, with the same sections in it."""
    cdef uint64_t difference = 0
    cdef uint64_t word
    cdef int i
    if size != shape.size or shape.header.size and memcmp(
            at, shape.header_bytes, shape.header.size) != 0:
        return False
    for i in range(shape.count):
        memcpy(&word, at + shape.offsets[i], sizeof(word))
        difference |= (word ^ shape.words[i]) & shape.masks[i]
    return difference == 0


# The field absolute-expiry-time of properties, part 3.2.4.
cdef int EXPIRY_FIELD = 8
# A message that expires in more than 30 years never expires: no run and no file is that old.
cdef int64_t FAR_MS = <int64_t>1 << 40
# The longest beginning of a section: a descriptor of 31 letters, a constructor and a length.
cdef enum:
    WINDOW = 64
    # Longer than any address may be.
    ADDRESS_ROOM = 4096
# The field to of properties, part 3.2.4.
cdef uint32_t TO_FIELD = 2
# An address across two chunks, until the next one.
cdef char[ADDRESS_ROOM] split_address

cdef inline bint may_follow(int previous, int section) noexcept nogil:
    """Say whether a section may follow another; a body has one form (part 3.2)."""
    if previous == section:
        return section == AMQP_SECTION_DATA or section == AMQP_SECTION_SEQUENCE
    return section > previous and not (
        previous >= AMQP_SECTION_DATA and section < AMQP_SECTION_FOOTER)


cdef inline bint is_of_kind(int section, uint8_t constructor) noexcept nogil:
    """Say whether a section's value is a list, a map or bytes, as its kind demands (part 3.2)."""
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
    """Say whether a message passes unchanged: `message_read` would change and refuse nothing.

    False for unusual encodings, and if the properties have an expiry.

    Args:
        shape: gets the shape of the message, to recognise others like it.
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
    """Walk over the sections after the header."""
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
        if constructor == LIST0:
            note(shape, start, at, 4)
            at += 4
            continue
        # The high bits tell the width of the length: one byte or four.
        if (constructor >> 4 == 0xA or constructor >> 4 == 0xC) and end - at >= 5:
            length = at[4]
            note(shape, start, at, 5)
            at += 5
        elif (constructor >> 4 == 0xB or constructor >> 4 == 0xD) and end - at >= 8:
            length = length_of(at + 4)
            note(shape, start, at, 8)
            at += 8
        else:
            return False
        if <size_t>(end - at) < length or not is_short(section, constructor, at, length):
            return False
        if section == AMQP_SECTION_SEQUENCE:
            # The count of items decides.
            note(shape, start, at, min(length, <size_t>4))
        if has_contents(section) and not are_plain(section, constructor, start, at, length, shape):
            return False
        at += length
    return True


cdef inline bint is_short(
        int section, uint8_t constructor, const uint8_t *at, size_t length) noexcept nogil:
    """Say whether a compound's head is valid, and properties end before the field for expiry."""
    cdef uint32_t count
    if section == AMQP_SECTION_DATA:
        return True
    # An amqp-value may have any constructor: binary, string, symbol, list or map.
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
        section != AMQP_SECTION_PROPERTIES or count <= <uint32_t>EXPIRY_FIELD)


cdef HeaderResult message_read(Message *message, int64_t now, bint whole) noexcept nogil:
    """Read the header section and the expiry of a message; drop delivery annotations.

    Delivery annotations are for the next peer only (part 3.2.2). A message of another format than
    AMQP's (part 2.7.5) passes unchanged, but a header section is read.

    Args:
        now: monotonic ms, the start of the time to live.
        whole: all of the message is in memory, and HEADER_READ means that its sections are
            valid. Otherwise only the sections before the body have to be there; PROPERTIES_MORE
            means that header and delivery annotations are, and others may still come.
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
    """Like `message_read`, for the beginning of a message that was accepted before.

    An earlier version may have accepted bytes that are refused today: they are delivered as they
    are. HEADER_MALFORMED means that the bytes do not even begin with a section.
    """
    cdef HeaderResult result = message_read_header(message, now)
    cdef amqp_reader_t reader = reader_of(message)
    if message.format:
        return HEADER_READ
    if result == HEADER_READ:
        read_sections(message, now, False)
    elif amqp_read_section(&reader) != AMQP_SECTION_NONE:
        message_forget_header(message)
        message.header.opaque = True
        result = HEADER_READ
    return result


cdef HeaderResult drop_delivery_annotations(Message *message, bint whole) noexcept nogil:
    cdef Place place
    cdef amqp_reader_t reader
    cdef uint8_t[WINDOW] buffer
    cdef const uint8_t *begin
    cdef size_t size
    cdef amqp_section section
    cdef amqp_value_t value
    place = place_behind(message, message.header.size)
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
    if value.content.start == NULL or reader.fault == AMQP_DECODE_ERROR:
        return as_header_result(reader.fault)
    size = value.content.start + value.content.size - begin
    if size > message.held - message.header.size:
        return HEADER_MORE
    advance(&place, value.content.start - begin)
    if not are_valid(section, &value, place):
        return HEADER_MALFORMED
    message_cut(message, message.header.size, size)
    return HEADER_READ


cdef HeaderResult read_sections(Message *message, int64_t now, bint whole) noexcept nogil:
    """Walk over the sections after the header and the delivery annotations."""
    cdef Place place = place_behind(message, message.header.size)
    cdef int previous = AMQP_SECTION_DELIVERY_ANNOTATIONS
    cdef amqp_fault fault = AMQP_FINE
    while fault == AMQP_FINE and not is_at_end(&place):
        fault = step(message, &place, &previous, now)
    if fault != AMQP_FINE and (whole or fault != AMQP_MORE):
        return HEADER_MALFORMED
    if whole or previous > AMQP_SECTION_APPLICATION_PROPERTIES or (
            previous == AMQP_SECTION_APPLICATION_PROPERTIES and fault == AMQP_FINE):
        return HEADER_READ
    return PROPERTIES_MORE


cdef amqp_fault step(
        Message *message, Place *place, int *previous, int64_t now) noexcept nogil:
    """Move over one section; AMQP_MORE if the message has not all of it yet."""
    cdef uint8_t[WINDOW] buffer
    cdef amqp_reader_t reader = window(place, buffer)
    cdef const uint8_t *begin = reader.at
    cdef const uint8_t *start
    cdef amqp_value_t value
    cdef Place behind
    cdef Place content
    cdef amqp_section section = amqp_read_section(&reader)
    if reader.fault != AMQP_FINE:
        return reader.fault
    start = reader.at
    if not may_follow(previous[0], section) or start < reader.end and not is_of_kind(
            section, start[0]):
        return AMQP_DECODE_ERROR
    previous[0] = section
    amqp_read_content(&reader, &value)
    if reader.fault == AMQP_MORE and start < reader.end and start[0] == DESCRIBED:
        # The descriptor may be longer than the window, so the end of the value is unknown.
        return AMQP_MORE if place.next == NULL else to_end(place)
    if value.content.start == NULL or reader.fault == AMQP_DECODE_ERROR:
        return reader.fault
    if section == AMQP_SECTION_SEQUENCE and not has_items(&value, reader.end):
        return AMQP_DECODE_ERROR
    behind = place[0]
    if not advance(&behind, value.content.start + value.content.size - begin):
        return AMQP_MORE
    if has_contents(section):
        content = place[0]
        advance(&content, value.content.start - begin)
        if not are_valid(section, &value, content):
            return AMQP_DECODE_ERROR
    if section == AMQP_SECTION_PROPERTIES:
        read_expiry(message, place, now)
    place[0] = behind
    return AMQP_FINE


cdef amqp_fault to_end(Place *place) noexcept nogil:
    while place.next != NULL:
        enter(place)
    place.at += place.left
    place.left = 0
    return AMQP_FINE


cdef bint has_items(const amqp_value_t *value, const uint8_t *end) noexcept nogil:
    """Say whether a list can have its count of items."""
    cdef const uint8_t *start = value.content.start
    cdef size_t width = 1 if value.constructor == LIST8 else 4
    if value.constructor == LIST0 or <size_t>(end - start) < width:
        return True
    return (start[0] if width == 1 else length_of(start)) <= value.content.size - width


cdef void read_expiry(
        Message *message, const Place *place, int64_t now) noexcept nogil:
    """Take absolute-expiry-time if it is before the end of the time to live (part 3.2.4)."""
    cdef uint8_t[WINDOW] buffer
    cdef Place field = place[0]
    cdef amqp_reader_t reader
    cdef amqp_value_t value
    cdef int64_t left
    if not to_field(&field, <uint32_t>EXPIRY_FIELD):
        return
    reader = window(&field, buffer)
    if not amqp_read_content(&reader, &value) or value.constructor != TIMESTAMP:
        return
    left = milliseconds_until(value.content.start)
    # 0 would mean that the message never expires.
    if left < FAR_MS and (message.expires == 0 or now + left < message.expires):
        message.expires = max(now + left, <int64_t>1)


cdef bint to_field(Place *place, uint32_t field) noexcept nogil:
    """Move from the beginning of a list's section to a field; return False if it is not there."""
    cdef uint8_t[WINDOW] buffer
    cdef amqp_reader_t reader = window(place, buffer)
    cdef const uint8_t *begin = reader.at
    cdef const uint8_t *start
    cdef amqp_value_t value
    cdef size_t width
    amqp_read_section(&reader)
    amqp_read_content(&reader, &value)
    start = value.content.start
    width = 1 if value.constructor == LIST8 else 4
    if start == NULL or value.constructor == LIST0 or <size_t>(reader.end - start) < width:
        return False
    if (start[0] if width == 1 else length_of(start)) <= field:
        return False
    if not advance(place, start + width - begin):
        return False
    for _ in range(<int>field):
        reader = window(place, buffer)
        begin = reader.at
        amqp_read_content(&reader, &value)
        if value.content.start == NULL or not advance(
                place, value.content.start + value.content.size - begin):
            return False
    return True


cdef HeaderResult message_address(
        const Message *message, const char **address, size_t *size) noexcept nogil:
    """Find `to` in the properties (part 3.2.4); one across two chunks is there until the next one.

    HEADER_READ with ``size`` 0 means that the message has none.
    """
    cdef uint8_t[WINDOW] buffer
    cdef Place place
    cdef amqp_reader_t reader
    cdef const uint8_t *begin
    cdef amqp_value_t value
    cdef amqp_section section
    size[0] = 0
    place = place_behind(message, 0)
    while True:
        reader = window(&place, buffer)
        begin = reader.at
        section = amqp_read_section(&reader)
        if reader.fault != AMQP_FINE:
            return as_header_result(reader.fault)
        if section > AMQP_SECTION_PROPERTIES:
            return HEADER_READ
        amqp_read_content(&reader, &value)
        if value.content.start == NULL:
            return as_header_result(reader.fault)
        if section == AMQP_SECTION_PROPERTIES:
            break
        if not advance(&place, value.content.start + value.content.size - begin):
            return HEADER_MORE
    if is_past(&place, value.content.start + value.content.size - begin):
        return HEADER_MORE
    if not to_field(&place, TO_FIELD):
        return HEADER_READ
    reader = window(&place, buffer)
    begin = reader.at
    amqp_read_content(&reader, &value)
    if value.content.start == NULL:
        return as_header_result(reader.fault)
    if value.constructor == STRING8 or value.constructor == STRING32:
        advance(&place, value.content.start - begin)
        size[0] = value.content.size
        address[0] = bytes_at(&place, size)
    return HEADER_READ


cdef bint is_past(const Place *place, size_t size) noexcept nogil:
    """Say whether a message does not have ``size`` bytes more."""
    cdef Place end = place[0]
    return not advance(&end, size)


cdef const char *bytes_at(const Place *place, size_t *size) noexcept nogil:
    """Return contiguous bytes; of more than an address in two chunks only the beginning."""
    cdef Place rest = place[0]
    cdef size_t copied = 0
    cdef size_t part
    if size[0] <= place.left:
        return <const char *>place.at
    size[0] = min(size[0], <size_t>ADDRESS_ROOM)
    while copied < size[0]:
        part = min(rest.left, size[0] - copied)
        memcpy(split_address + copied, rest.at, part)
        copied += part
        advance(&rest, part)
        if rest.left == 0 and copied < size[0]:
            enter(&rest)
    return split_address


cdef int64_t milliseconds_until(const uint8_t *timestamp) noexcept nogil:
    """Return the ms until a time in ms since 1970; 0 if it has passed."""
    cdef int64_t time = <int64_t>(
        (<uint64_t>length_of(timestamp) << 32) | length_of(timestamp + 4))
    cdef int64_t present = realtime_ns() // 1000000
    return time - present if time > present else 0
