# A selector in C: its steps, their values, and the fields that it reads from a message.

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

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

# LIKE as an automaton whose states are bits: how many of its characters have matched.
cdef struct Pattern:
    uint32_t count
    # Words of 64 states.
    uint32_t words
    # For each byte, the states that it takes to the next: 256 rows of `words`.
    uint64_t *moves
    # States before which any text may come, and those behind an underscore, which the rest
    # of its character leaves where they are.
    uint64_t *gaps
    uint64_t *tails
    uint64_t *now

cdef struct Step:
    Code code
    # A name's slot.
    uint32_t slot
    Value literal
    # The strings of AMONG.
    Value *among
    uint32_t count
    Pattern pattern

# An application property that the selector names, and its slot.
cdef struct Name:
    const char *text
    size_t size
    uint32_t slot

cdef enum:
    PROPERTY_COUNT = 13
    FIELD_COUNT = 18

# A compiled selector. Two threads must not use it at once.
cdef struct Filter:
    # The Selector, which holds the memory of all this.
    void *owner
    Step *steps
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
