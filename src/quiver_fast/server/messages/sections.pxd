from libc.stdint cimport int64_t, uint8_t

from quiver_fast.server.messages.message cimport HeaderResult, Message

cdef bint sections_are_plain(const uint8_t *at, const uint8_t *end) noexcept nogil
cdef HeaderResult message_read(Message *message, int64_t now, bint whole) noexcept nogil
cdef HeaderResult message_read_stored(Message *message, int64_t now) noexcept nogil
