"""Matches messages against selectors and property filters: steps of `quiver_fast.selectors` in C.

One pass over the sections before the body reads the values that the selector names. Then
`evaluate` runs its steps.
"""

# The priority of a message without one (part 3.2.1).
cdef uint8_t DEFAULT_PRIORITY = 4
# The bytes to look at of a message in several chunks. For a selector, properties that end later
# are missing.
cdef size_t HEAD_MAX = 1048576
# A selector can only ask IS NULL of a longer text.
cdef size_t TEXT_MAX = 65535
# The cost of opening a queue's file, in steps; and of an evaluation, besides its steps.
cdef int64_t OPENING = 4096
cdef int64_t EVALUATION = 8

CODES = {
    name: code
    for code, name in enumerate((
        "literal", "name", "=", "<>", "<", "<=", ">", ">=", "and", "or", "not", "+", "-", "*",
        "/", "negate", "between", "in", "like", "is null",
    ))
}


cdef class Selector:
    """A selector and its memory.

    Args:
        steps: the expression's.
    """

    cdef Filter filter
    cdef list kept

    def __init__(self, steps: list[Step]) -> None:
        self.kept = []
        self.filter.owner = <void *>self
        self.build(steps)

    cdef int build(self, list steps) except -1:
        cdef FilterStep *step
        cdef Filter *filter = &self.filter
        slots = {}
        properties = {}
        filter.steps = <FilterStep *>self.table(len(steps) * sizeof(FilterStep))
        filter.stack = <Value *>self.table(len(steps) * sizeof(Value))
        for code, value in steps:
            step = &filter.steps[filter.step_count]
            filter.step_count += 1
            if code == "field" or code == "property":
                step.code = NAME
                step.slot = slots.setdefault((code, value), len(slots))
                if code == "field":
                    self.filter.fields[(PROPERTIES + HEADERS).index(value)] = step.slot + 1
                    filter.asks_properties |= value in PROPERTIES
                else:
                    properties[value.encode()] = step.slot
                continue
            step.code = CODES[code]
            if code == "literal":
                self.set_literal(&step.literal, value)
            elif code == "in":
                step.count = len(value)
                step.among = <Value *>self.table(len(value) * sizeof(Value))
                for i, text in enumerate(value):
                    self.set_text(&step.among[<uint32_t>i], text.encode())
                qsort(step.among, step.count, sizeof(Value), by_size_and_bytes)
            elif code == "like":
                accepted, gaps = value
                self.set_pattern(&step.pattern, accepted, gaps)
        filter.value_count = len(slots)
        filter.values = <Value *>self.table(len(slots) * sizeof(Value))
        return self.set_index(properties)

    cdef void *table(self, size_t size) except NULL:
        """Return zeroed memory that lives as long as the selector."""
        made = bytearray(max(size, 1))
        self.keep(made)
        return <char *>made

    cdef int keep(self, object made) except -1:
        """Keep an object as long as the selector, and count its memory."""
        self.kept.append(made)
        self.filter.memory += sys.getsizeof(made)
        return 0

    cdef int set_text(self, Value *value, bytes text) except -1:
        self.keep(text)
        value.kind = TEXT
        value.text = text
        value.size = len(text)
        return 0

    cdef int set_literal(self, Value *value, object literal) except -1:
        if isinstance(literal, str):
            return self.set_text(value, literal.encode())
        if isinstance(literal, float):
            value.kind = REAL
            value.real = literal
        else:
            value.kind = TRUTH if isinstance(literal, bool) else WHOLE
            value.whole = literal
        return 0

    cdef int set_pattern(self, Pattern *pattern, list accepted, list gaps) except -1:
        cdef Piece *piece
        pieces = pieces_of(accepted, gaps)
        pattern.weight = weight_of(pieces)
        pattern.pieces = <Piece *>self.table(len(pieces) * sizeof(Piece))
        for each in pieces:
            piece = &pattern.pieces[pattern.count]
            pattern.count += 1
            text = bytes(0 if byte > 255 else byte for byte in each)
            self.keep(text)
            piece.text = text
            piece.size = len(text)
            if 256 in each:
                wild = bytes(byte > 255 for byte in each)
                self.keep(wild)
                piece.any = wild
        return 0

    cdef int set_index(self, dict slots) except -1:
        cdef Filter *filter = &self.filter
        cdef uint32_t at
        cdef uint32_t hash
        # The table is at most half full.
        filter.index_mask = (1 << (2 * len(slots)).bit_length()) - 1
        filter.index = <Name *>self.table((filter.index_mask + 1) * sizeof(Name))
        filter.name_count = len(slots)
        for name, slot in slots.items():
            self.keep(name)
            hash = hash_of(name, len(name))
            at = hash & filter.index_mask
            while filter.index[at].text != NULL:
                at = (at + 1) & filter.index_mask
            filter.index[at].text = name
            filter.index[at].size = len(name)
            filter.index[at].hash = hash
            filter.index[at].slot = slot
        return 0

    def matches(self, encoded: bytes) -> bool:
        """Say whether a complete encoded message matches."""
        cdef Message *message = message_of(encoded)
        cdef bint found = filter_matches(&self.filter, message)
        message_release(message)
        return found


cdef Message *message_of(bytes encoded) except NULL:
    cdef Message *message = message_new(len(encoded))
    if message == NULL:
        raise MemoryError("no memory for a message")
    memcpy(chunk_bytes(message.first), <const char *>encoded, len(encoded))
    message_filled(message, len(encoded))
    message.complete = True
    message_read_header(message, 0)
    return message


cdef Filter *filter_take(Selector selector) noexcept:
    """Take a reference to a selector's filter; `filter_release` releases it."""
    Py_INCREF(selector)
    return &selector.filter


cdef void filter_release(Filter *filter) noexcept nogil:
    """Release a reference to a filter, which may be NULL."""
    if filter != NULL:
        with gil:
            Py_DECREF(<Selector>filter.owner)


# No peer can choose names that have the same place in an index.
cdef uint32_t hash_seed = int.from_bytes(os.urandom(4), "little")


cdef inline uint32_t hash_of(const char *text, size_t size) noexcept nogil:
    # FNV-1a, with the last step of MurmurHash3.
    cdef uint32_t value = hash_seed
    cdef size_t i
    for i in range(size):
        value = (value ^ <uint8_t>text[i]) * 16777619
    value = (value ^ (value >> 16)) * <uint32_t>0x85EBCA6B
    return value ^ (value >> 13)


# -- values of a message


cdef void take_value(Value *value, amqp_value_t found) noexcept nogil:
    """Decode a value (AMQP 1.0 part 1.6). Symbols and binaries are texts, timestamps numbers."""
    cdef uint64_t bits = 0
    cdef size_t i
    cdef uint8_t code = found.constructor
    cdef const uint8_t *start = found.content.start
    cdef size_t size = found.content.size
    value.kind = WHOLE
    if code == 0x40:
        value.kind = UNKNOWN
    elif code == 0x41 or code == 0x42 or code == 0x56:
        value.kind = TRUTH
        value.whole = code == 0x41 or (code == 0x56 and start[0] != 0)
    elif 0xA0 <= code <= 0xBF:
        # binary, string, symbol.
        value.kind = TEXT if size <= TEXT_MAX else OTHER
        value.text = <const char *>start
        value.size = size
    elif code == 0x43 or code == 0x44:
        value.whole = 0
    elif code == 0x72 or code == 0x82:
        for i in range(size):
            bits = (bits << 8) | start[i]
        value.kind = REAL
        value.real = as_float(<uint32_t>bits) if code == 0x72 else as_double(bits)
    elif is_number(code):
        for i in range(size):
            bits = (bits << 8) | start[i]
        value.whole = signed(bits, <int>size) if is_signed(code) else <int64_t>bits
        if not is_signed(code) and value.whole < 0:
            # The unsigned long does not fit into a long.
            value.kind = REAL
            value.real = <double>bits
    else:
        value.kind = OTHER


cdef inline bint is_signed(uint8_t code) noexcept nogil:
    # byte, short, int, smallint, long, smalllong, timestamp.
    return (
        code == 0x51 or code == 0x61 or code == 0x71 or code == 0x54 or code == 0x81
        or code == 0x55 or code == 0x83)


cdef inline bint is_number(uint8_t code) noexcept nogil:
    # ubyte, ushort, uint, smalluint, ulong, smallulong.
    return is_signed(code) or (
        code == 0x50 or code == 0x60 or code == 0x70 or code == 0x52 or code == 0x80
        or code == 0x53)


cdef inline int64_t signed(uint64_t bits, int width) noexcept nogil:
    if width == 1:
        return <int8_t>bits
    if width == 2:
        return <int16_t>bits
    if width == 4:
        return <int32_t>bits
    return <int64_t>bits


cdef inline double as_float(uint32_t bits) noexcept nogil:
    cdef float value
    memcpy(&value, &bits, sizeof(value))
    return value


cdef inline double as_double(uint64_t bits) noexcept nogil:
    cdef double value
    memcpy(&value, &bits, sizeof(value))
    return value


cdef void take_header(Filter *filter, const Message *message) noexcept nogil:
    """Take the values of the header, or its defaults."""
    cdef const uint16_t *slots = &filter.fields[PROPERTY_COUNT]
    cdef Value *value
    if slots[0]:
        value = &filter.values[slots[0] - 1]
        value.kind = TRUTH
        value.whole = message.header.durable
    if slots[1]:
        value = &filter.values[slots[1] - 1]
        value.kind = WHOLE
        value.whole = (
            message.header.priority if message.header.has_priority else DEFAULT_PRIORITY)
    if slots[2] and message.header.has_ttl:
        value = &filter.values[slots[2] - 1]
        value.kind = WHOLE
        value.whole = message.header.ttl
    if slots[3]:
        value = &filter.values[slots[3] - 1]
        value.kind = WHOLE
        value.whole = message.header.delivery_count
    if slots[4]:
        value = &filter.values[slots[4] - 1]
        value.kind = TEXT
        value.text = b"PERSISTENT" if message.header.durable else b"NON_PERSISTENT"
        value.size = 10 if message.header.durable else 14


cdef bint take_properties(Filter *filter, amqp_reader_t *reader) noexcept nogil:
    """Take the fields of the properties section; return whether the section is complete."""
    cdef amqp_fields_t fields = amqp_read_list(reader)
    cdef amqp_value_t value
    cdef int field
    if reader.fault != AMQP_FINE:
        return False
    for field in range(<int>min(fields.left, <uint32_t>PROPERTY_COUNT)):
        if not amqp_read_content(&fields.inside, &value):
            return True
        if filter.fields[field]:
            take_value(&filter.values[filter.fields[field] - 1], value)
    return True


cdef Name *name_of(const Filter *filter, const char *text, size_t size) noexcept nogil:
    cdef uint32_t hash = hash_of(text, size)
    cdef uint32_t at = hash & filter.index_mask
    cdef Name *name = &filter.index[at]
    while name.text != NULL:
        if name.hash == hash and name.size == size and memcmp(name.text, text, size) == 0:
            return name
        at = (at + 1) & filter.index_mask
        name = &filter.index[at]
    return NULL


cdef bint take_application_properties(Filter *filter, amqp_reader_t *reader) noexcept nogil:
    """Take the application properties that the selector names; False if the section is cut."""
    cdef amqp_fields_t fields = amqp_read_map(reader)
    cdef amqp_value_t value
    cdef Name *name
    if reader.fault != AMQP_FINE:
        return False
    while fields.left >= 2:
        fields.left -= 2
        if not amqp_read_content(&fields.inside, &value):
            return True
        name = NULL
        if value.constructor in (STRING8, STRING32, SYMBOL8, SYMBOL32):
            name = name_of(filter, <const char *>value.content.start, value.content.size)
        if not amqp_read_content(&fields.inside, &value):
            return True
        if name != NULL:
            take_value(&filter.values[name.slot], value)
    return True


cdef bint take_sections(Filter *filter, const char *bytes, size_t size) noexcept nogil:
    """Take the values that the selector names; return False if the sections are cut."""
    cdef amqp_reader_t reader = amqp_reader(<const uint8_t *>bytes, size)
    cdef bint known = read_values(filter, &reader)
    filter.cost += (reader.at - <const uint8_t *>bytes) // <ssize_t>BYTES_READ
    return known


cdef bint read_values(Filter *filter, amqp_reader_t *reader) noexcept nogil:
    cdef amqp_section section
    cdef amqp_value_t value
    while reader.at < reader.end:
        section = amqp_read_section(reader)
        if section > AMQP_SECTION_APPLICATION_PROPERTIES:
            return True
        if section == AMQP_SECTION_PROPERTIES and filter.asks_properties:
            if not take_properties(filter, reader):
                return False
        elif section == AMQP_SECTION_APPLICATION_PROPERTIES:
            return not filter.name_count or take_application_properties(filter, reader)
        elif not amqp_read_content(reader, &value):
            return False
    return False


cdef bint filter_matches(Filter *filter, const Message *message) noexcept nogil:
    """Say whether the selector is true for a message, or for the beginning of a stream."""
    filter.cost = EVALUATION
    if message.chain != NULL:
        return matches_stored(filter, message)
    if has_values(filter, message, chunk_bytes(message.first), message.first.size) or (
            message.first.next == NULL):
        return evaluate(filter)
    return matches_gathered(filter, message)


cdef bint has_values(
        Filter *filter, const Message *message, const char *bytes, size_t size) noexcept nogil:
    """Take the values of a message; return whether the bytes have all of its properties."""
    cdef uint32_t i
    cdef bint whole
    for i in range(filter.value_count):
        filter.values[i].kind = UNKNOWN
    take_header(filter, message)
    whole = take_sections(filter, bytes, size)
    filter.known = whole or message.complete
    return whole


cdef bint matches_stored(Filter *filter, const Message *message) noexcept nogil:
    """Match a message in the file; before all its properties have come, it does not match."""
    cdef ChainReader *reader = chain_open(message)
    cdef size_t size = 0
    cdef size_t most = 4096
    cdef char *bytes = NULL
    cdef char *grown
    cdef bint found
    cdef bint whole = False
    filter.known = False
    filter.cost += OPENING
    while reader != NULL and not whole and size < HEAD_MAX:
        grown = <char *>realloc(bytes, most)
        if grown == NULL:
            break
        bytes = grown
        size += chain_copy(reader, message, bytes + size, most - size)
        whole = has_values(filter, message, bytes, size)
        if size < most:
            break
        most *= 4
    found = filter.known and evaluate(filter)
    chain_close(reader)
    free(bytes)
    return found


cdef bint matches_gathered(Filter *filter, const Message *message) noexcept nogil:
    """Match a message with properties in several chunks."""
    cdef size_t size = min(message.held, HEAD_MAX)
    cdef char *bytes = <char *>malloc(size)
    cdef const Chunk *chunk = message.first
    cdef size_t filled = 0
    cdef size_t part
    cdef bint found
    if bytes == NULL:
        return False
    while chunk != NULL and filled < size:
        part = min(<size_t>chunk.size, size - filled)
        memcpy(bytes + filled, chunk_bytes(<Chunk *>chunk), part)
        filled += part
        chunk = chunk.next
    has_values(filter, message, bytes, filled)
    found = evaluate(filter)
    free(bytes)
    return found
