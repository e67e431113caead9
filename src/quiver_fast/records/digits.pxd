# Decimal digits, eight at a time in one machine word (SWAR). Shared by the modules of
# this package; nothing but inline functions, so there is no module of this name.

from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.string cimport memcpy

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>
    /* Eight bytes of text, the first one lowest, whatever the byte order. */
    static inline uint64_t quiver_load_text8(const unsigned char *text) {
        uint64_t word;
        memcpy(&word, text, sizeof word);
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
    #endif
        return word;
    }
    """
    uint64_t load_text8 "quiver_load_text8"(const unsigned char *text)

# Decimals of more digits are no times, even with leading zeros.
cdef enum:
    MOST_DIGITS = 19


cdef inline bint are_digits(uint64_t word) noexcept nogil:
    """Say whether all eight bytes are '0'..'9'.

    Above '9' the addition, below '0' the subtraction sets a byte's high bit. Carries
    and borrows reach only bytes above one that is flagged already.
    """
    return ((word + <uint64_t>0x4646464646464646ULL)
            | (word - <uint64_t>0x3030303030303030ULL)) & <uint64_t>0x8080808080808080ULL == 0


cdef inline uint64_t eight_digits(uint64_t word) noexcept nogil:
    """Return the number of eight digits: first pairs, then fours, then all of them.

    Each multiplier adds a field, times its weight, to the next: 10·2^8 + 1,
    100·2^16 + 1, 10000·2^32 + 1.
    """
    word = ((word & <uint64_t>0x0F0F0F0F0F0F0F0FULL) * 2561) >> 8
    word = ((word & <uint64_t>0x00FF00FF00FF00FFULL) * 6553601) >> 16
    return ((word & <uint64_t>0x0000FFFF0000FFFFULL) * <uint64_t>42949672960001ULL) >> 32


cdef inline uint64_t last_digits(const unsigned char *end, size_t count) noexcept nogil:
    """Load the 1 to 8 bytes before ``end``, with zero digits before them.

    Reads eight bytes, so as many must be readable before ``end``.
    """
    cdef uint64_t kept = ~<uint64_t>0 << (8 * (8 - count))
    return (load_text8(end - 8) & kept) | (<uint64_t>0x3030303030303030ULL & ~kept)


cdef inline bint decimal(
        const unsigned char *text, size_t size, int64_t *value) noexcept nogil:
    """Read the unsigned decimal that fills ``text``; False if it is none or beyond 63 bits.

    Eight bytes must be readable before ``text``.
    """
    cdef uint64_t word, number
    cdef size_t head = ((size - 1) & 7) + 1
    if size == 0 or size > MOST_DIGITS:
        return False
    text += head
    word = last_digits(text, head)
    if not are_digits(word):
        return False
    number = eight_digits(word)
    size -= head
    while size > 0:
        word = load_text8(text)
        if not are_digits(word):
            return False
        number = number * 100000000 + eight_digits(word)
        text += 8
        size -= 8
    if number > <uint64_t>INT64_MAX:
        return False
    value[0] = <int64_t>number
    return True


cdef inline char *put_decimal(char *out, int64_t number) noexcept nogil:
    """Write ``number`` (at most 20 characters) at ``out`` and return its end."""
    cdef char[20] digits
    cdef int at = 20
    cdef uint64_t rest = 0 - <uint64_t>number if number < 0 else <uint64_t>number
    while True:
        at -= 1
        digits[at] = <char>(c'0' + rest % 10)
        rest //= 10
        if rest == 0:
            break
    if number < 0:
        at -= 1
        digits[at] = c'-'
    memcpy(out, digits + at, 20 - at)
    return out + 20 - at
