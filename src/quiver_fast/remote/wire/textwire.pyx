"""The text wire subset of the queue protocol (Part C): a checker of values, and integers.

Values of one client are embedded in the replies to others. An accepted value is YAML to
every reader, wherever it is embedded: it closes no more brackets than it opens, and has no
line that looks like another entry, and no character that some reader takes for a line
break. These rules come on top of the grammar:

* a top-level tag and its value start on one line;
* a plain scalar ends with its line, and inside a map or sequence it does not start with
  ``?`` or ``:``;
* U+2028 and U+2029 (line breaks to YAML 1.1), U+FFFE and U+FFFF, and the controls up to
  U+009F stand as escapes only, in double quotes;
* a key is a scalar without a tag, and its colon follows on the same line, within 1,024
  bytes (YAML's limit of an implicit key).
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset, strlen

from cpython.pycapsule cimport PyCapsule_New

from quiver_fast.queuefile.recovery cimport TEXT_CHECK
from quiver_fast.remote.wire.scalars cimport (
    BREAK, CLASSES, TAG_CHARACTER, Scan, begins_slashes, fail, is_space, skip_blanks,
    skip_double_quoted, skip_plain, skip_single_quoted, skip_space,
)

cdef int MAX_DEPTH = 64
cdef ptrdiff_t MAX_KEY = 1024
cdef int MAX_DIGITS = 19


# ---- tags, maps, sequences -----------------------------------------------------------

cdef bint skip_tag(Scan *scan) noexcept nogil:
    """Skip a tag and the blanks after it; count a missing blank."""
    cdef const uint8_t *name
    scan.at += 1
    if scan.at < scan.end and scan.at[0] == c"<":
        if not skip_verbatim_tag(scan):
            return False
    else:
        if scan.at < scan.end and scan.at[0] == c"!":
            scan.at += 1
        name = scan.at
        while scan.at < scan.end and CLASSES[scan.at[0]] & TAG_CHARACTER:
            scan.at += 1
        if scan.at == name:
            return fail(scan, b"a tag has no name")
    if scan.at >= scan.end or is_space(scan.at[0]):
        # Outside of brackets YAML allows no tab at the start of a line.
        skip_blanks(scan)
        if scan.depth > 0:
            skip_space(scan)
        return True
    if memchr(b"{[\"',]}", scan.at[0], 7) == NULL:
        return fail(scan, b"an unknown character in a tag")
    add_gap(scan)
    return True


cdef bint skip_verbatim_tag(Scan *scan) noexcept nogil:
    cdef const uint8_t *name = scan.at + 1
    scan.at += 1
    while scan.at < scan.end and (CLASSES[scan.at[0]] & TAG_CHARACTER
                                  or memchr(b";?:@&=+,~*'()[]!", scan.at[0], 16) != NULL):
        scan.at += 1
    if scan.at == name or scan.at >= scan.end or scan.at[0] != c">":
        return fail(scan, b"a tag in < > is malformed")
    scan.at += 1
    return True


cdef void add_gap(Scan *scan) noexcept nogil:
    scan.gaps += 1
    if scan.out != NULL:
        copy_up_to(scan, scan.at)
        scan.out[0] = c" "
        scan.out += 1


cdef inline void copy_up_to(Scan *scan, const uint8_t *place) noexcept nogil:
    memcpy(scan.out, scan.copied, place - scan.copied)
    scan.out += place - scan.copied
    scan.copied = place


cdef bint is_null_tag(const uint8_t *tag, const uint8_t *end) noexcept nogil:
    return end - tag >= 6 and memcmp(tag, b"!!null", 6) == 0 and (
        end - tag == 6 or not CLASSES[tag[6]] & TAG_CHARACTER)


cdef bint skip_value(Scan *scan) noexcept nogil:
    """Skip a value: tag, map, sequence or scalar."""
    cdef const uint8_t *tag = NULL
    if scan.at < scan.end and scan.at[0] == c"!":
        tag = scan.at
        if not skip_tag(scan):
            return False
        # The only tag without a value.
        if is_null_tag(tag, scan.end) and ends_value(scan):
            return True
    if scan.at >= scan.end:
        return fail(scan, b"a value is missing")
    if scan.at[0] == c"{":
        return skip_map(scan)
    if scan.at[0] == c"[":
        return skip_sequence(scan)
    if scan.at[0] == c'"':
        return skip_double_quoted(scan)
    if scan.at[0] == c"'":
        return skip_single_quoted(scan)
    return skip_plain(scan)


cdef bint ends_value(const Scan *scan) noexcept nogil:
    if scan.at >= scan.end:
        return True
    if scan.depth > 0:
        return memchr(b",]}", scan.at[0], 3) != NULL
    return CLASSES[scan.at[0]] & BREAK or scan.at[0] == c"#" or begins_slashes(scan)


cdef bint enter(Scan *scan) noexcept nogil:
    """Skip an opening bracket."""
    scan.at += 1
    scan.depth += 1
    if scan.depth > MAX_DEPTH:
        return fail(scan, b"maps and sequences are nested more than 64 deep")
    return True


cdef bint leave(Scan *scan, uint8_t bracket) noexcept nogil:
    """Skip the closing bracket if it is next; else False."""
    skip_space(scan)
    if scan.at >= scan.end:
        return fail(scan, b"a map or sequence has no end")
    if scan.at[0] != bracket:
        return False
    scan.at += 1
    scan.depth -= 1
    return True


cdef bint step_over_comma(Scan *scan) noexcept nogil:
    if scan.at[0] != c",":
        return fail(scan, b"a comma or a closing bracket is missing")
    scan.at += 1
    return True


cdef bint skip_map(Scan *scan) noexcept nogil:
    cdef Slice key
    cdef Slice value
    cdef int found = 1
    if not enter(scan):
        return False
    while found > 0:
        found = next_pair(scan, &key, &value)
    return found == 0


cdef bint skip_sequence(Scan *scan) noexcept nogil:
    if not enter(scan):
        return False
    while not leave(scan, c"]"):
        if scan.error != NULL or not skip_value(scan):
            return False
        if leave(scan, c"]"):
            return True
        if scan.error != NULL or not step_over_comma(scan):
            return False
    return True


cdef int next_pair(Scan *scan, Slice *key, Slice *value) noexcept nogil:
    """Take the next pair of a map: 1 with key and value (start NULL if none), 0 at the map's
    end, -1 with an error."""
    cdef const uint8_t *start
    value.start = NULL
    value.size = 0
    if leave(scan, c"}"):
        return 0
    if scan.error != NULL or not skip_key(scan, key):
        return -1
    if scan.at < scan.end and scan.at[0] == c":":
        scan.at += 1
        skip_space(scan)
        start = scan.at
        if not skip_value(scan):
            return -1
        value.start = <const char *>start
        value.size = scan.at - start
    skip_space(scan)
    if scan.at < scan.end and scan.at[0] != c"}" and not step_over_comma(scan):
        return -1
    return 1


cdef bint skip_key(Scan *scan, Slice *key) noexcept nogil:
    """Skip a key, up to its colon if it has one."""
    cdef const uint8_t *start = scan.at
    cdef bint good
    if start[0] == c'"':
        good = skip_double_quoted(scan)
    elif start[0] == c"'":
        good = skip_single_quoted(scan)
    else:
        good = skip_plain(scan)
    if not good:
        return False
    key.start = <const char *>start
    key.size = scan.at - start
    skip_space(scan)
    if scan.at < scan.end and scan.at[0] == c":" and (
            scan.at - start > MAX_KEY or has_break(start, scan.at)):
        return fail(scan, b"a key and its colon must be on one line, within 1024 bytes")
    return True


cdef bint has_break(const uint8_t *start, const uint8_t *end) noexcept nogil:
    return (memchr(start, c"\n", end - start) != NULL
            or memchr(start, c"\r", end - start) != NULL)


# ---- whole values --------------------------------------------------------------------

cdef bint scan_value(const char *text, size_t size, Value *value) noexcept nogil:
    """Check the text after an event's colon: one value, then only blanks and comments.

    True with a value, or with ``missing`` if there is none; False with ``error``.
    """
    cdef Scan scan
    memset(&scan, 0, sizeof(scan))
    memset(value, 0, sizeof(value[0]))
    scan.at = <const uint8_t *>text
    scan.end = scan.at + size
    skip_space(&scan)
    value.start = <const char *>scan.at
    if scan.at >= scan.end or scan.at[0] == c"#":
        value.missing = True
        value.end = value.start
    elif not skip_top(&scan, value):
        value.error = scan.error
        return False
    if not only_comments(&scan):
        value.error = b"unexpected text after the value"
        return False
    return True


cdef bint skip_top(Scan *scan, Value *value) noexcept nogil:
    """Skip a value that stands alone, and note the changes of its stored form."""
    cdef Scan inner = scan[0]
    cdef bint raw = is_binary_tag(scan)
    if not skip_value(scan):
        return False
    value.end = <const char *>scan.at
    value.gaps = scan.gaps
    value.cut = scan.cut
    if raw or scan.cut:
        if inner.at[0] == c"!":
            skip_tag(&inner)
        value.scalar = <const char *>inner.at
    if raw:
        value.base64.start = value.scalar
        value.base64.size = value.end - value.scalar
        value.base64 = unquoted(value.base64)
    return True


cdef bint is_binary_tag(const Scan *scan) noexcept nogil:
    return scan.end - scan.at > 8 and memcmp(scan.at, b"!!binary", 8) == 0 and (
        not CLASSES[scan.at[8]] & TAG_CHARACTER)


cdef bint only_comments(Scan *scan) noexcept nogil:
    """Say whether nothing but blanks and comments is left."""
    cdef const uint8_t *line_end
    cdef const uint8_t *start = scan.at
    while True:
        skip_space(scan)
        if scan.at >= scan.end:
            return True
        # "only at line start or after a blank"
        if scan.at == start or not (scan.at[0] == c"#" or begins_slashes(scan)):
            return False
        line_end = <const uint8_t *>memchr(scan.at, c"\n", scan.end - scan.at)
        if line_end == NULL:
            return True
        scan.at = line_end


cdef bint is_stored_form(const char *text, size_t size) noexcept nogil:
    """Say whether an entry is a value in our stored form, which may be embedded in a reply."""
    cdef Value value
    return (scan_value(text, size, &value) and not value.missing and value.gaps == 0
            and not value.cut and value.start == text and value.end == text + size)


cdef bint is_value(const char *text, size_t size) noexcept nogil:
    """Say whether an entry is a value, in any spelling."""
    cdef Value value
    return scan_value(text, size, &value) and not value.missing


def text_check() -> object:
    """Return the recovery's check of texts that may be damaged: this scanner (A.10, rule 8)."""
    return PyCapsule_New(<void *>is_value, TEXT_CHECK, NULL)


cdef Slice text_of(const char *entry, size_t size) noexcept nogil:
    """Return the value of an entry, without its pad (A.6, form 1); empty if it is none."""
    cdef Slice text
    # The pad before a text with a first byte of 0x80 or more.
    cdef size_t pad = size > 0 and entry[0] == c"\n"
    text.start = entry + pad
    text.size = size - pad
    if not is_stored_form(text.start, text.size):
        text.size = 0
    return text


cdef size_t stored_size(const Value *value) noexcept nogil:
    """Return the size of the form in which ``value`` is stored."""
    cdef size_t size = (value.end - value.start) + value.gaps
    cdef const char *at = value.scalar
    if not value.cut:
        return size
    size += 2
    while at < value.end:
        size += at[0] == c'"' or at[0] == c"\\"
        at += 1
    return size


cdef void store_value(const Value *value, char *out) noexcept nogil:
    """Write the stored form: verbatim, with blanks after tags and with necessary quotes."""
    cdef Scan scan
    cdef const char *at
    if value.gaps == 0 and not value.cut:
        memcpy(out, value.start, value.end - value.start)
        return
    if value.gaps > 0:
        memset(&scan, 0, sizeof(scan))
        scan.at = <const uint8_t *>value.start
        scan.end = <const uint8_t *>value.end
        scan.copied = scan.at
        scan.out = out
        skip_value(&scan)
        copy_up_to(&scan, scan.end)
        return
    memcpy(out, value.start, value.scalar - value.start)
    out += value.scalar - value.start
    out[0] = c'"'
    out += 1
    at = value.scalar
    while at < value.end:
        if at[0] == c'"' or at[0] == c"\\":
            out[0] = c"\\"
            out += 1
        out[0] = at[0]
        out += 1
        at += 1
    out[0] = c'"'


# ---- arguments -----------------------------------------------------------------------

cdef bint is_empty_argument(const Value *value) noexcept nogil:
    """Say whether a value is one of the spellings of "no argument"."""
    cdef Scan scan
    cdef Slice key
    cdef Slice item
    cdef Slice text
    if value.missing:
        return True
    if open_map(value, &scan):
        return next_pair(&scan, &key, &item) == 0
    text.start = value.start
    text.size = value.end - value.start
    if equals(text, b'""') or equals(text, b"!!null"):
        return True
    return is_null_tag(<const uint8_t *>value.start, <const uint8_t *>value.end) and (
        memcmp(value.end - 2, b'""', 2) == 0)


cdef bint open_map(const Value *value, Scan *scan) noexcept nogil:
    """Begin to walk the pairs of a checked map; False for any other value."""
    memset(scan, 0, sizeof(scan[0]))
    scan.at = <const uint8_t *>value.start
    scan.end = <const uint8_t *>value.end
    if value.missing or scan.at[0] != c"{":
        return False
    return enter(scan)


cdef Slice unquoted(Slice text) noexcept nogil:
    """Return ``text`` without the quotes around it, if it has any."""
    cdef char first
    if text.size >= 2:
        first = text.start[0]
        if (first == c'"' or first == c"'") and text.start[text.size - 1] == first:
            text.start += 1
            text.size -= 2
    return text


cdef bint equals(Slice text, const char *word) noexcept nogil:
    return text.size == strlen(word) and memcmp(text.start, word, text.size) == 0


cdef bint parse_int64(Slice text, int64_t *number) noexcept nogil:
    """Read an optional sign and 1 to 19 digits that fit 64 bits."""
    cdef uint64_t magnitude = 0
    cdef bint negative = False
    cdef size_t i = 0
    if text.size > 0 and (text.start[0] == c"-" or text.start[0] == c"+"):
        negative = text.start[0] == c"-"
        i = 1
    if text.size == i or text.size - i > <size_t>MAX_DIGITS:
        return False
    while i < text.size:
        if not c"0" <= text.start[i] <= c"9":
            return False
        magnitude = magnitude * 10 + <uint64_t>(text.start[i] - c"0")
        i += 1
    if magnitude > <uint64_t>INT64_MAX + negative:
        return False
    number[0] = <int64_t>(0 - magnitude) if negative else <int64_t>magnitude
    return True


# ---- for the tests and for the client ------------------------------------------------

def stored_form(bytes text not None) -> bytes:
    """Return the stored form of a value (text wire, UTF-8).

    ``!!binary`` is returned as text too; a queue stores the decoded bytes.

    Raises:
        ValueError: ``text`` is no value of the subset; the message has the reason.
    """
    cdef Value value
    if not scan_value(text, len(text), &value):
        raise ValueError(value.error.decode())
    if value.missing:
        raise ValueError("a value is missing")
    out = bytearray(stored_size(&value))
    store_value(&value, out)
    return bytes(out)


def map_pairs(bytes text not None) -> list[tuple[bytes, bytes | None]]:
    """Return the pairs of a map in order, (key, value or None), nested values as text.

    Raises:
        ValueError: ``text`` is no map.
    """
    cdef Value value
    cdef Scan scan
    cdef Slice key
    cdef Slice item
    if not scan_value(text, len(text), &value):
        raise ValueError(value.error.decode())
    if not open_map(&value, &scan):
        raise ValueError("not a map")
    pairs = []
    while next_pair(&scan, &key, &item) > 0:
        pairs.append((key.start[:key.size],
                      item.start[:item.size] if item.start != NULL else None))
    return pairs
