from libc.stdint cimport uint8_t

from quiver_fast.server.selectors.steps cimport Filter

cdef inline bint is_tail(uint8_t byte) noexcept nogil:
    """Say whether a byte of UTF-8 continues a character."""
    return byte & 0xC0 == 0x80

cdef bint evaluate(Filter *filter) noexcept nogil
