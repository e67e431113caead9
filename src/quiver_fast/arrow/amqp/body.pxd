from libc.stdint cimport uint8_t, uint64_t

cdef enum BodyFault:
    BODY_FINE
    BODY_NOT_DATA     # a section that is no Data, or no section at all
    BODY_NOT_X        # a byte that is no x

# The position within a message that arrives in pieces: in a section's head or content.
cdef struct Body:
    # The bytes so far of a section's head: descriptor, constructor and size.
    uint8_t[64] head
    size_t head_size
    # Bytes of the section's content that are still to come.
    uint64_t left
    bint is_data
    # Bytes of the body so far.
    uint64_t size
    BodyFault fault

cdef void begin_body(Body *body) noexcept nogil
cdef void check_body(Body *body, const uint8_t *piece, size_t size) noexcept nogil
cdef bint body_is_whole(const Body *body) noexcept nogil
