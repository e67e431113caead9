"""The contents of a message's sections before its body, and of its footer (parts 3.2.2 to 3.2.10).

A place in a message goes over its chunks, so a value may lie in two of them. The short way of
whole messages walks over the same functions, and notes the bytes that decide: see `Shape`.
"""

# Kinds of values, as bits.
cdef enum:
    CONTENT_NULL = 1
    IS_STRING = 2
    IS_SYMBOL = 4
    IS_BINARY = 8
    IS_ULONG = 16
    IS_UINT = 32
    IS_UUID = 64
    IS_TIMESTAMP = 128
    IS_OTHER = 256       # any other simple value
    IS_COMPOUND = 512    # a list, a map or an array
    IS_SIMPLE = IS_COMPOUND - 1
    IS_ANY = 2 * IS_COMPOUND - 1
    IS_MESSAGE_ID = IS_ULONG | IS_UUID | IS_BINARY | IS_STRING
    UUID = 0x98
    PROPERTIES_COUNT = 13
    # Values within values: honest peers have a few.
    DEPTH_MAX = 64

# The fields of properties (part 3.2.4), each of which may be null.
cdef int[PROPERTIES_COUNT] PROPERTY_KINDS = [
    IS_MESSAGE_ID, IS_BINARY, IS_STRING, IS_STRING, IS_STRING, IS_MESSAGE_ID, IS_SYMBOL, IS_SYMBOL,
    IS_TIMESTAMP, IS_TIMESTAMP, IS_STRING, IS_UINT, IS_STRING,
]

# A place in a message: its next bytes, and the chunks behind them.
cdef struct Place:
    const uint8_t *at
    size_t left
    Chunk *next

# The rest of a list, a map or an array.
cdef struct Rest:
    Place place
    size_t left
    # How many values are around it.
    int depth
    # What notes the bytes that decide, and the beginning of the message; else NULL.
    Shape *shape
    const uint8_t *start


cdef inline Place place_behind(const Message *message, size_t size) noexcept nogil:
    """Return the place behind the first bytes of a message, which are in its first chunk."""
    cdef Place place
    place.at = <const uint8_t *>chunk_bytes(message.first) + size
    place.left = message.first.size - size
    place.next = message.first.next
    return place


cdef inline void enter(Place *place) noexcept nogil:
    """Go on to the next chunk."""
    place.at = <const uint8_t *>chunk_bytes(place.next)
    place.left = place.next.size
    place.next = place.next.next


cdef inline amqp_reader_t window(const Place *place, uint8_t *buffer) noexcept nogil:
    """Return contiguous next bytes: all of the last chunk, or WINDOW bytes in the buffer."""
    if place.next == NULL or place.left >= WINDOW:
        return amqp_reader(place.at, place.left)
    return gathered(place, buffer)


cdef amqp_reader_t gathered(const Place *place, uint8_t *buffer) noexcept nogil:
    cdef Place rest = place[0]
    cdef size_t size = 0
    cdef size_t part
    while True:
        part = min(rest.left, WINDOW - size)
        memcpy(buffer + size, rest.at, part)
        size += part
        if size == WINDOW or rest.next == NULL:
            return amqp_reader(buffer, size)
        enter(&rest)


cdef inline bint advance(Place *place, size_t size) noexcept nogil:
    """Move forward by ``size`` bytes; return False if the message has fewer."""
    while size > place.left:
        if place.next == NULL:
            return False
        size -= place.left
        enter(place)
    place.at += size
    place.left -= size
    return True


cdef bint is_at_end(const Place *place) noexcept nogil:
    cdef const Chunk *chunk = place.next
    while chunk != NULL and chunk.size == 0:
        chunk = chunk.next
    return place.left == 0 and chunk == NULL


# -- the shape of a message


cdef void note(
        Shape *shape, const uint8_t *start, const uint8_t *at, size_t size) noexcept nogil:
    """Add bytes of a message to those that decide; without room for them it has no shape."""
    cdef size_t i
    for i in range(size):
        note_byte(shape, start, at - start + i)


cdef inline void note_byte(Shape *shape, const uint8_t *start, size_t offset) noexcept nogil:
    cdef size_t word = offset
    cdef int i = shape.count - 1
    if shape.size < sizeof(uint64_t):
        shape.size = 0
        return
    if i < 0 or offset - shape.offsets[i] >= sizeof(uint64_t):
        i += 1
        if i == SHAPE_WORDS:
            shape.size = 0
            return
        word = min(offset, shape.size - sizeof(uint64_t))
        shape.offsets[i] = <uint32_t>word
        memcpy(&shape.words[i], start + word, sizeof(uint64_t))
        shape.masks[i] = 0
        shape.count = i + 1
    (<uint8_t *>&shape.masks[i])[offset - shape.offsets[i]] = 0xFF


# -- contents


cdef inline bint has_contents(int section) noexcept nogil:
    """Say whether the contents of a section are checked: not those of a header or of a body."""
    return AMQP_SECTION_HEADER < section < AMQP_SECTION_DATA or section == AMQP_SECTION_FOOTER


cdef bint are_plain(
        int section, uint8_t constructor, const uint8_t *start, const uint8_t *at, size_t size,
        Shape *shape) noexcept nogil:
    """Say whether contents of contiguous bytes are valid, and note the bytes that decide."""
    cdef Rest rest
    rest.place.at = at
    rest.place.left = rest.left = size
    rest.place.next = NULL
    rest.depth = 0
    rest.shape = shape
    rest.start = start
    return have_items(&rest, section, constructor)


cdef bint are_valid(int section, const amqp_value_t *value, Place place) noexcept nogil:
    """Say whether a section's list or map, whose content is at a place, has items of its kinds."""
    cdef Rest rest
    rest.place = place
    rest.left = value.content.size
    rest.depth = 0
    rest.shape = NULL
    rest.start = NULL
    return value.constructor == LIST0 or have_items(&rest, section, value.constructor)


cdef bint have_items(Rest *rest, int section, uint8_t constructor) noexcept nogil:
    cdef uint32_t count
    cdef uint32_t i
    if not take_count(rest, constructor, &count):
        return False
    if section == AMQP_SECTION_PROPERTIES:
        if count > PROPERTIES_COUNT:
            return False
    elif count % 2:
        return False
    for i in range(count):
        if not pass_value(rest, allowed(section, i)):
            return False
    return rest.left == 0


cdef inline int allowed(int section, uint32_t i) noexcept nogil:
    """Return the kinds of a section's item; those of a map are keys and values in turn."""
    if section == AMQP_SECTION_PROPERTIES:
        return PROPERTY_KINDS[i] | CONTENT_NULL
    if section == AMQP_SECTION_APPLICATION_PROPERTIES:
        return IS_SIMPLE if i % 2 else IS_STRING
    return IS_ANY if i % 2 else IS_SYMBOL | IS_ULONG


cdef bint take_count(Rest *rest, uint8_t constructor, uint32_t *count) noexcept nogil:
    """Read the count of a list, a map or an array; False if that is more than its bytes."""
    cdef uint8_t[WINDOW] buffer
    cdef amqp_reader_t reader = window(&rest.place, buffer)
    cdef size_t width = 4 if constructor & 0x10 else 1
    if rest.left < width or <size_t>(reader.end - reader.at) < width:
        return False
    count[0] = reader.at[0] if width == 1 else length_of(reader.at)
    move(rest, width, True)
    return True


cdef inline void move(Rest *rest, size_t size, bint decides) noexcept nogil:
    """Move forward by bytes that are there."""
    if decides and rest.shape != NULL:
        note(rest.shape, rest.start, rest.place.at, size)
    advance(&rest.place, size)
    rest.left -= size


cdef int kind_bit(uint8_t constructor) noexcept nogil:
    if constructor == NULL_:
        return CONTENT_NULL
    if constructor == STRING8 or constructor == STRING32:
        return IS_STRING
    if constructor == SYMBOL8 or constructor == SYMBOL32:
        return IS_SYMBOL
    if constructor == BINARY8 or constructor == BINARY32:
        return IS_BINARY
    if constructor == ULONG or constructor == SMALL_ULONG or constructor == ULONG0:
        return IS_ULONG
    if constructor == UINT or constructor == SMALL_UINT or constructor == UINT0:
        return IS_UINT
    if constructor == UUID:
        return IS_UUID
    if constructor == TIMESTAMP:
        return IS_TIMESTAMP
    if constructor == LIST0 or constructor >= LIST8:
        return IS_COMPOUND
    return IS_OTHER


cdef bint pass_value(Rest *rest, int kinds) noexcept nogil:
    """Move over a value; return False if it is of no kind that is allowed, or malformed."""
    cdef uint8_t[WINDOW] buffer
    cdef amqp_reader_t reader = window(&rest.place, buffer)
    cdef const uint8_t *begin = reader.at
    cdef amqp_value_t value
    cdef size_t head
    if rest.left == 0:
        return False
    if begin[0] == DESCRIBED:
        return pass_described(rest, kinds)
    amqp_read_content(&reader, &value)
    if value.content.start == NULL or reader.fault == AMQP_DECODE_ERROR or not (
            kinds & kind_bit(value.constructor)):
        return False
    head = value.content.start - begin
    if value.content.size > rest.left or head > rest.left - value.content.size:
        return False
    # A boolean's byte decides, too.
    move(rest, head + (value.constructor == BOOLEAN), True)
    return pass_content(
        rest, value.constructor, value.content.size - (value.constructor == BOOLEAN))


cdef bint pass_described(Rest *rest, int kinds) noexcept nogil:
    """Move over a descriptor and the value that it describes (part 1.5)."""
    cdef bint good
    if rest.depth == DEPTH_MAX:
        return False
    rest.depth += 1
    move(rest, 1, True)
    good = pass_value(rest, IS_ANY) and pass_value(rest, kinds)
    rest.depth -= 1
    return good


cdef bint pass_content(Rest *rest, uint8_t constructor, size_t size) noexcept nogil:
    """Move over a value's content; that of a compound value is checked."""
    cdef Rest inside
    if constructor >= LIST8:
        if rest.depth == DEPTH_MAX:
            return False
        inside = rest[0]
        inside.left = size
        inside.depth += 1
        if not (pass_array(&inside, constructor) if constructor >= ARRAY8
                else pass_items(&inside, constructor)):
            return False
    move(rest, size, False)
    return True


cdef bint pass_items(Rest *rest, uint8_t constructor) noexcept nogil:
    """Check the items of a list or of a map, which has pairs (part 1.6.23)."""
    cdef uint32_t count
    if not take_count(rest, constructor, &count) or constructor & 0x0F and count % 2:
        return False
    while count:
        if not pass_value(rest, IS_ANY):
            return False
        count -= 1
    return rest.left == 0


cdef bint pass_array(Rest *rest, uint8_t constructor) noexcept nogil:
    """Check the elements of an array, which share a constructor (part 1.6.24)."""
    cdef uint8_t[WINDOW] buffer
    cdef amqp_reader_t reader
    cdef amqp_value_t value
    cdef const uint8_t *begin
    cdef uint32_t count
    cdef size_t head
    if not take_count(rest, constructor, &count):
        return False
    reader = window(&rest.place, buffer)
    while rest.left and reader.at[0] == DESCRIBED:
        move(rest, 1, True)
        if not pass_value(rest, IS_ANY):
            return False
        reader = window(&rest.place, buffer)
    if rest.left == 0:
        return False
    constructor = reader.at[0]
    move(rest, 1, True)
    while count:
        reader = window(&rest.place, buffer)
        begin = reader.at
        amqp_read_bare(&reader, constructor, &value)
        if value.content.start == NULL or reader.fault == AMQP_DECODE_ERROR:
            return False
        head = value.content.start - begin
        if value.content.size > rest.left or head > rest.left - value.content.size:
            return False
        if head == 0 and constructor < BINARY8:
            # All have the same size, perhaps none.
            return rest.left == count * value.content.size
        move(rest, head, True)
        if not pass_content(rest, constructor, value.content.size):
            return False
        count -= 1
    return rest.left == 0
