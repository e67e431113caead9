"""Base64 (RFC 4648, section 4), with padding and without line breaks."""

from libc.stdint cimport int8_t, uint8_t, uint32_t
from libc.string cimport memset

cdef const char *ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef int8_t SEXTETS[256]


cdef void fill_sextets() noexcept:
    cdef int i
    memset(SEXTETS, -1, sizeof(SEXTETS))
    for i in range(64):
        SEXTETS[<uint8_t>ALPHABET[i]] = <int8_t>i


fill_sextets()


cdef size_t encoded_size(size_t size) noexcept nogil:
    return (size + 2) // 3 * 4


cdef void encode(const char *bytes, size_t size, char *out) noexcept nogil:
    cdef const uint8_t *at = <const uint8_t *>bytes
    cdef uint32_t group
    while size > 0:
        group = at[0] << 16
        if size > 1:
            group |= at[1] << 8
        if size > 2:
            group |= at[2]
        out[0] = ALPHABET[group >> 18]
        out[1] = ALPHABET[group >> 12 & 63]
        out[2] = ALPHABET[group >> 6 & 63] if size > 1 else c"="
        out[3] = ALPHABET[group & 63] if size > 2 else c"="
        at += 3
        out += 4
        size -= min(size, <size_t>3)


cdef ssize_t decoded_size(const char *text, size_t size) noexcept nogil:
    cdef size_t pads = 0
    cdef size_t i
    if size % 4 != 0:
        return -1
    if size > 0 and text[size - 1] == c"=":
        pads = 2 if text[size - 2] == c"=" else 1
    for i in range(size - pads):
        if SEXTETS[<uint8_t>text[i]] < 0:
            return -1
    return size // 4 * 3 - pads


cdef void decode(const char *text, size_t size, char *out) noexcept nogil:
    """Decode ``text``, which decoded_size() has accepted."""
    cdef uint32_t bits = 0
    cdef int count = 0
    cdef size_t i
    for i in range(size):
        if text[i] == c"=":
            return
        bits = bits << 6 | <uint32_t>SEXTETS[<uint8_t>text[i]]
        count += 6
        if count >= 8:
            count -= 8
            out[0] = <char>(bits >> count & 0xFF)
            out += 1
