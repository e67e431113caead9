# A selector in C: its steps, their values, and the fields that it reads from a message.

cdef enum ValueKind:
    UNKNOWN
    TRUTH
    WHOLE
    REAL
    TEXT
    # A value of another type: a selector can only ask IS NULL of it.
    OTHER

# A value; a text points into the selector or the message.
cdef struct Value:
    ValueKind kind
    # 0 or 1 for a truth.
    int64_t whole
    double real
    const char *text
    size_t size

# In the order of CODES in filter.pxi.
cdef enum Code:
    LITERAL
    NAME
    EQUAL
    UNEQUAL
    LESS
    LESS_EQUAL
    MORE
    MORE_EQUAL
    AND
    OR
    NOT
    ADD
    SUBTRACT
    MULTIPLY
    DIVIDE
    NEGATE
    BETWEEN
    AMONG
    LIKE
    IS_NULL

# A part of a LIKE pattern between two percent signs.
cdef struct Piece:
    const char *text
    # For each byte whether an underscore stands there; NULL if there is none.
    const char *any
    size_t size

# A LIKE pattern. Its first piece, which may be empty, begins the text, and its last one ends it.
cdef struct Pattern:
    Piece *pieces
    uint32_t count
    # The cost of a byte of the text: the pieces between are searched for.
    uint32_t weight

cdef struct FilterStep:
    Code code
    # A name's slot.
    uint32_t slot
    Value literal
    # The strings of AMONG, by size and bytes.
    Value *among
    uint32_t count
    Pattern pattern

# An application property that the selector names, and its slot.
cdef struct Name:
    const char *text
    size_t size
    uint32_t hash
    uint32_t slot

cdef enum:
    PROPERTY_COUNT = 13
    FIELD_COUNT = 18

# A compiled selector. Two threads must not use it at once.
cdef struct Filter:
    # The Selector, which holds the memory of all this.
    void *owner
    # Bytes of that memory.
    size_t memory
    FilterStep *steps
    uint32_t step_count
    # Application properties by hash, with open addressing; an empty one has no text.
    Name *index
    uint32_t index_mask
    uint32_t name_count
    # The slots of the properties' fields and of HEADERS, plus one; 0 for fields that the
    # selector does not name.
    uint16_t[FIELD_COUNT] fields
    bint asks_properties
    Value *values
    uint32_t value_count
    Value *stack
    # Of the last evaluation: its cost, and whether it saw all properties of the message.
    int64_t cost
    bint known
