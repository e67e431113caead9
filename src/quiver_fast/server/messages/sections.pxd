from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from quiver_fast.server.messages.message cimport HeaderResult, Message

cdef enum:
    SHAPE_SECTIONS = 3

# The sections of a message that is plain, for the messages that are like it: its size (0 before
# there is one), and where each section begins with which 8 bytes. These hold all that the walk
# over the sections looks at. Of fewer sections the last is named again.
cdef struct Shape:
    size_t size
    uint32_t offsets[SHAPE_SECTIONS]
    uint64_t heads[SHAPE_SECTIONS]

cdef inline bint is_shaped(const Shape *shape, const uint8_t *at, size_t size) noexcept nogil:
    """Say whether a message is as long as the one before, with the same sections in it."""
    cdef uint64_t difference = 0
    cdef uint64_t head
    cdef int i
    if size != shape.size:
        return False
    for i in range(SHAPE_SECTIONS):
        memcpy(&head, at + shape.offsets[i], sizeof(head))
        difference |= head ^ shape.heads[i]
    return difference == 0

cdef bint sections_are_plain(const uint8_t *at, size_t size, Shape *shape) noexcept nogil
cdef HeaderResult message_read(Message *message, int64_t now, bint whole) noexcept nogil
cdef HeaderResult message_read_stored(Message *message, int64_t now) noexcept nogil
