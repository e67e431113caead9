from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from quiver_fast.server.messages.message cimport Header, HeaderResult, Message

cdef enum:
    SHAPE_HEADER = 32
    SHAPE_WORDS = 6

# The sections of a message that is plain, for the messages that are like it: its size (0 before
# there is one), all bytes of its header, and the words that the other sections begin with. These
# hold all that the walk over the sections looks at.
cdef struct Shape:
    size_t size
    Header header
    uint8_t header_bytes[SHAPE_HEADER]
    int count
    uint32_t offsets[SHAPE_WORDS]
    uint64_t words[SHAPE_WORDS]

cdef inline bint is_shaped(const Shape *shape, const uint8_t *at, size_t size) noexcept nogil:
    """Say whether a message is as long as the one before, with the same sections in it."""
    cdef uint64_t difference = 0
    cdef uint64_t word
    cdef int i
    if size != shape.size or shape.header.size and memcmp(
            at, shape.header_bytes, shape.header.size) != 0:
        return False
    for i in range(shape.count):
        memcpy(&word, at + shape.offsets[i], sizeof(word))
        difference |= word ^ shape.words[i]
    return difference == 0

cdef bint sections_are_plain(const uint8_t *at, size_t size, Shape *shape) noexcept nogil
cdef HeaderResult message_read(Message *message, int64_t now, bint whole) noexcept nogil
cdef HeaderResult message_read_stored(Message *message, int64_t now) noexcept nogil
