# Characters and scalars of the text wire, and the place in a text that scanners share.

from libc.stdint cimport uint8_t

# What a byte is to the scanners; 0 is an ordinary character.
cdef enum:
    BLANK = 1           # space, tab
    BREAK = 2           # line feed, carriage return
    INDICATOR = 4       # , [ ] { }: they end a plain scalar inside a map or sequence
    MARK = 8            # : and #, which may end a plain scalar
    OTHER = 16          # controls, and everything that is not ASCII: checked closely
    TAG_CHARACTER = 32
    REFUSED_START = 64  # no plain scalar starts with it
    HEX_DIGIT = 128

cdef uint8_t CLASSES[256]

# A place in a text, and the changes of the stored form up to it.
cdef struct Scan:
    const uint8_t *at
    const uint8_t *end
    int depth
    size_t gaps
    bint cut
    # While storing: the place of the copy, and the end of the copied text.
    char *out
    const uint8_t *copied
    const char *error

cdef bint skip_double_quoted(Scan *scan) noexcept nogil
cdef bint skip_single_quoted(Scan *scan) noexcept nogil
cdef bint skip_plain(Scan *scan) noexcept nogil


cdef inline bint is_blank(uint8_t byte) noexcept nogil:
    return CLASSES[byte] & BLANK != 0


cdef inline bint is_space(uint8_t byte) noexcept nogil:
    return CLASSES[byte] & (BLANK | BREAK) != 0


cdef inline bint fail(Scan *scan, const char *why) noexcept nogil:
    if scan.error == NULL:
        scan.error = why
    return False


cdef inline bint at_end_or_space(const Scan *scan, ptrdiff_t ahead) noexcept nogil:
    return scan.at + ahead >= scan.end or is_space(scan.at[ahead])


cdef inline void skip_blanks(Scan *scan) noexcept nogil:
    while scan.at < scan.end and is_blank(scan.at[0]):
        scan.at += 1


cdef inline void skip_space(Scan *scan) noexcept nogil:
    while scan.at < scan.end and is_space(scan.at[0]):
        scan.at += 1


cdef inline bint begins_slashes(const Scan *scan) noexcept nogil:
    """Say whether a comment of the RFC's example, ``// …``, starts here."""
    return scan.end - scan.at >= 2 and scan.at[0] == c"/" and scan.at[1] == c"/"
