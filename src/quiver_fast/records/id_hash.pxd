# SipHash-2-4 with 128 bits, of message ids that are no numbers. Nothing but inline
# functions, so there is no module of this name.
#
# Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012, sections 2.1 to 2.4; the
# 128 bits are those of the authors' reference implementation. Without the key nobody
# can choose two ids with the same hash.

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t

cdef struct IdKey:
    uint64_t first
    uint64_t second

cdef struct SipState:
    uint64_t v0
    uint64_t v1
    uint64_t v2
    uint64_t v3
    uint64_t word                   # bytes of the incomplete word, the first lowest
    uint64_t size                   # bytes so far


cdef inline uint64_t rotated(uint64_t word, int bits) noexcept nogil:
    return (word << bits) | (word >> (64 - bits))


cdef inline void sip_rounds(SipState *state, int count) noexcept nogil:
    cdef int _
    for _ in range(count):
        state.v0 += state.v1
        state.v2 += state.v3
        state.v1 = rotated(state.v1, 13) ^ state.v0
        state.v3 = rotated(state.v3, 16) ^ state.v2
        state.v0 = rotated(state.v0, 32)
        state.v2 += state.v1
        state.v0 += state.v3
        state.v1 = rotated(state.v1, 17) ^ state.v2
        state.v3 = rotated(state.v3, 21) ^ state.v0
        state.v2 = rotated(state.v2, 32)


cdef inline void sip_word(SipState *state, uint64_t word) noexcept nogil:
    state.v3 ^= word
    sip_rounds(state, 2)
    state.v0 ^= word


cdef inline void sip_byte(SipState *state, int byte) noexcept nogil:
    state.word |= <uint64_t>byte << (8 * (state.size & 7))
    state.size += 1
    if state.size & 7 == 0:
        sip_word(state, state.word)
        state.word = 0


cdef inline int unescaped(const unsigned char *code) noexcept nogil:
    """Return the byte that the writer percent-encodes as these two digits, or -1."""
    if code[0] == c'2':
        return c',' if code[1] == c'C' else c'%' if code[1] == c'5' else -1
    if code[0] == c'0':
        return c'\n' if code[1] == c'A' else c'\r' if code[1] == c'D' else -1
    return c'S' if code[0] == c'5' and code[1] == c'3' else (
        c's' if code[0] == c'7' and code[1] == c'3' else -1)


cdef inline int next_byte(const unsigned char **text, const unsigned char *end) noexcept nogil:
    """Return the next byte of an id, decoded if the writer encoded it, and skip it."""
    cdef int byte = text[0][0]
    cdef int code
    text[0] += 1
    if byte == c'%' and end - text[0] >= 2:
        code = unescaped(text[0])
        if code >= 0:
            text[0] += 2
            return code
    return byte


cdef inline int64_t hashed_id(
        const unsigned char *text, const unsigned char *end, IdKey key,
        int64_t *high) noexcept nogil:
    """Return the low 63 bits of an id's hash; fill in 63 more, below zero.

    Encoded bytes are decoded first, so that an id has the same hash from our arrow and,
    not encoded, from another implementation.
    """
    cdef SipState state
    cdef int64_t low
    state.v0 = key.first ^ <uint64_t>0x736F6D6570736575ULL
    state.v1 = key.second ^ <uint64_t>0x646F72616E646F6DULL ^ 0xEE
    state.v2 = key.first ^ <uint64_t>0x6C7967656E657261ULL
    state.v3 = key.second ^ <uint64_t>0x7465646279746573ULL
    state.word = state.size = 0
    while text < end:
        sip_byte(&state, next_byte(&text, end))
    sip_word(&state, state.word | state.size << 56)
    state.v2 ^= 0xEE
    sip_rounds(&state, 4)
    low = <int64_t>((state.v0 ^ state.v1 ^ state.v2 ^ state.v3) & <uint64_t>INT64_MAX)
    state.v1 ^= 0xDD
    sip_rounds(&state, 4)
    # This half is 0 for an id that is a number.
    high[0] = <int64_t>(state.v0 ^ state.v1 ^ state.v2 ^ state.v3) | INT64_MIN
    return low
