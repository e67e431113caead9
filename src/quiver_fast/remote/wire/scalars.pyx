"""Characters and scalars of the text wire, the parts of values (Part C)."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memset, strlen

from quiver_fast.records.digits cimport load_text8

cdef void classify(const char *bytes, uint8_t kind) noexcept:
    cdef size_t i
    for i in range(strlen(bytes)):
        CLASSES[<uint8_t>bytes[i]] |= kind


cdef void fill_classes() noexcept:
    cdef int byte
    memset(CLASSES, 0, sizeof(CLASSES))
    for byte in range(256):
        if byte < 0x20 or byte >= 0x7F:
            CLASSES[byte] = OTHER
    for byte in (0x09, 0x0A, 0x0D):
        CLASSES[byte] = 0
    classify(b" \t", BLANK)
    classify(b"\r\n", BREAK)
    classify(b",[]{}", INDICATOR)
    classify(b":#", MARK)
    classify(b"0123456789_.$/-", TAG_CHARACTER)
    classify(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", TAG_CHARACTER)
    classify(b"&*|>%@`]},#!\"'", REFUSED_START)
    classify(b"0123456789abcdefABCDEF", HEX_DIGIT)


fill_classes()


# ---- characters ----------------------------------------------------------------------

cdef inline bint has_zero(uint64_t word) noexcept nogil:
    """Say whether a byte of ``word`` is 0 (exact for the lowest such byte)."""
    return ((word - <uint64_t>0x0101010101010101ULL) & ~word
            & <uint64_t>0x8080808080808080ULL) != 0


cdef inline bint is_ordinary_text(uint64_t word, uint64_t quote) noexcept nogil:
    """Say whether eight bytes are printable ASCII, neither ``quote`` nor backslash."""
    cdef uint64_t high = <uint64_t>0x8080808080808080ULL
    if (word | ((word - <uint64_t>0x2020202020202020ULL) & ~word)) & high:
        return False
    return not (has_zero(word ^ quote) or has_zero(word ^ <uint64_t>0x5C5C5C5C5C5C5C5CULL)
                or has_zero(word ^ <uint64_t>0x7F7F7F7F7F7F7F7FULL))


cdef inline bint is_forbidden(uint32_t point) noexcept nogil:
    """Say whether a character beyond ASCII is a control, a line break or invalid."""
    return (point < 0xA0 or point == 0x2028 or point == 0x2029 or point == 0xFFFE
            or point == 0xFFFF or 0xD800 <= point < 0xE000 or point > 0x10FFFF)


cdef bint skip_other(Scan *scan) noexcept nogil:
    """Skip one character of more than one byte; refuse controls and invalid UTF-8."""
    cdef uint8_t lead = scan.at[0]
    cdef int more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
    cdef uint32_t point = lead & (0x3F >> more)
    cdef uint32_t least = 0x80 if more == 1 else 0x800 if more == 2 else 0x10000
    cdef int i
    if lead < 0x80:
        return fail(scan, b"a control character must be written as an escape")
    if lead < 0xC2 or lead > 0xF4 or scan.end - scan.at <= more:
        return fail(scan, b"the text is not UTF-8")
    for i in range(1, more + 1):
        if scan.at[i] & 0xC0 != 0x80:
            return fail(scan, b"the text is not UTF-8")
        point = (point << 6) | (scan.at[i] & 0x3F)
    if point < least or 0xD800 <= point < 0xE000 or point > 0x10FFFF:
        return fail(scan, b"the text is not UTF-8")
    if is_forbidden(point):
        return fail(scan, b"a control character or line separator must be written as an escape")
    scan.at += 1 + more
    return True


# ---- scalars -------------------------------------------------------------------------

cdef bint skip_escape(Scan *scan) noexcept nogil:
    """Skip a backslash and its escape (the escapes of YAML)."""
    cdef int digits = 0
    cdef uint32_t point = 0
    cdef uint8_t code
    cdef int i
    if scan.end - scan.at < 2:
        return fail(scan, b"a quoted text has no end")
    code = scan.at[1]
    scan.at += 2
    if code == c"x":
        digits = 2
    elif code == c"u":
        digits = 4
    elif code == c"U":
        digits = 8
    elif is_space(code) or memchr(b"0abtnvfre\"/\\N_LP", code, 16) != NULL:
        # A backslash before a line break is YAML's continuation; before a tab, that tab.
        return True
    else:
        return fail(scan, b"an unknown escape in a double-quoted text")
    if scan.end - scan.at < digits:
        return fail(scan, b"a quoted text has no end")
    for i in range(digits):
        code = scan.at[i]
        if not CLASSES[code] & HEX_DIGIT:
            return fail(scan, b"an escape without its hexadecimal digits")
        point = (point << 4) | (code & 15) + (9 if code > c"9" else 0)
    if 0xD800 <= point < 0xE000 or point > 0x10FFFF:
        return fail(scan, b"an escape that is no Unicode character")
    scan.at += digits
    return True


cdef bint skip_double_quoted(Scan *scan) noexcept nogil:
    cdef uint64_t quotes = <uint64_t>0x2222222222222222ULL
    cdef uint8_t byte
    scan.at += 1
    while True:
        while scan.end - scan.at >= 8 and is_ordinary_text(load_text8(scan.at), quotes):
            scan.at += 8
        if scan.at >= scan.end:
            return fail(scan, b"a quoted text has no end")
        byte = scan.at[0]
        if byte == c'"':
            scan.at += 1
            return True
        if byte == c"\\":
            if not skip_escape(scan):
                return False
        elif CLASSES[byte] & OTHER:
            if not skip_other(scan):
                return False
        else:
            scan.at += 1


cdef bint skip_single_quoted(Scan *scan) noexcept nogil:
    cdef uint64_t quotes = <uint64_t>0x2727272727272727ULL
    scan.at += 1
    while True:
        while scan.end - scan.at >= 8 and is_ordinary_text(load_text8(scan.at), quotes):
            scan.at += 8
        if scan.at >= scan.end:
            return fail(scan, b"a quoted text has no end")
        if scan.at[0] == c"'":
            scan.at += 1
            if scan.at >= scan.end or scan.at[0] != c"'":
                return True
            scan.at += 1
        elif CLASSES[scan.at[0]] & OTHER:
            if not skip_other(scan):
                return False
        else:
            scan.at += 1


cdef bint may_start_plain(Scan *scan) noexcept nogil:
    cdef uint8_t byte
    if scan.at >= scan.end:
        return fail(scan, b"a value is missing")
    byte = scan.at[0]
    if CLASSES[byte] & (REFUSED_START | BREAK):
        return fail(scan, b"a value is missing, or not one of this subset of YAML")
    if (byte == c"-" or byte == c"?" or byte == c":") and at_end_or_space(scan, 1):
        return fail(scan, b"block collections are not in this subset of YAML")
    if scan.depth > 0 and (byte == c"?" or byte == c":"):
        return fail(scan, b"a text that starts with ? or : must be quoted here")
    return True


cdef bint skip_plain(Scan *scan) noexcept nogil:
    """Skip a plain scalar, up to its last non-blank character."""
    cdef const uint8_t *past
    cdef uint8_t kind
    if not may_start_plain(scan):
        return False
    past = scan.at
    while scan.at < scan.end:
        kind = CLASSES[scan.at[0]]
        if kind & BREAK:
            break
        if kind & INDICATOR:
            if scan.depth > 0:
                break
            scan.cut = True
        elif kind & MARK:
            if scan.at[0] == c":":
                if at_end_or_space(scan, 1):
                    break
                if scan.depth > 0 and CLASSES[scan.at[1]] & INDICATOR:
                    return fail(scan, b"a blank must follow a colon")
            elif is_blank((scan.at - 1)[0]):
                break
            elif scan.depth == 0:
                scan.cut = True
        elif kind & OTHER:
            if not skip_other(scan):
                return False
            past = scan.at
            continue
        scan.at += 1
        if kind & BLANK:
            if scan.depth == 0 and begins_slashes(scan):
                break
        else:
            past = scan.at
    scan.at = past
    return True
