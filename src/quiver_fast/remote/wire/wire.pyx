"""The envelope of the queue protocol: headers, meta-data, csp addresses, events (B.1 to B.6)."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy, memset, strlen

from quiver_fast.remote.wire.scalars cimport Scan, is_blank, is_space
from quiver_fast.remote.wire.textwire cimport (
    Slice, Value, equals, is_empty_argument, next_pair, open_map, parse_int64, unquoted,
)

# The limits of a queue's name (B.3).
cdef size_t MAX_NAME = 1024
cdef size_t MAX_SEGMENT = 128
cdef int MAX_SEGMENTS = 8
cdef size_t MAX_AUTHORITY = 255

# The limits and defaults of hasNext (B.6).
cdef int64_t MAX_BATCH = 65536
cdef int64_t DEFAULT_WAIT = 1000
cdef int64_t MAX_WAIT = 60000

cdef int EVENT_COUNT = 11
# In the order of EventKind.
cdef const char *EVENT_NAMES[11]
EVENT_NAMES[:] = [
    b"", b"submit", b"hasNext", b"lastWrittenIndex", b"createAppender", b"createTailer", b"close",
    b"heartbeat", b"onClientClosing", b"header", b"bye",
]


cdef uint32_t read_header(const char *bytes) noexcept nogil:
    cdef const uint8_t *at = <const uint8_t *>bytes
    return at[0] | at[1] << 8 | at[2] << 16 | <uint32_t>at[3] << 24


cdef void write_header(char *bytes, uint32_t header) noexcept nogil:
    cdef int i
    for i in range(4):
        bytes[i] = <char>(header >> (8 * i) & 0xFF)


# ---- lines ---------------------------------------------------------------------------

cdef Slice next_line(const char **at, const char *end) noexcept nogil:
    """Take a line without its break and the blanks around it."""
    cdef const char *start = at[0]
    cdef const char *stop = <const char *>memchr(start, c"\n", end - start)
    at[0] = end if stop == NULL else stop + 1
    return trimmed(start, end if stop == NULL else stop)


cdef Slice trimmed(const char *start, const char *end) noexcept nogil:
    cdef Slice text
    while start < end and is_space(start[0]):
        start += 1
    while end > start and is_space((end - 1)[0]):
        end -= 1
    text.start = start
    text.size = end - start
    return text


cdef bint starts_with(Slice text, const char *prefix) noexcept nogil:
    cdef size_t size = strlen(prefix)
    return text.size >= size and memcmp(text.start, prefix, size) == 0


cdef bint says_nothing(Slice line) noexcept nogil:
    """Say whether a line is blank, a comment or a document marker."""
    return (line.size == 0 or line.start[0] == c"#" or starts_with(line, b"---")
            or starts_with(line, b"..."))


cdef Slice without_comment(Slice value) noexcept nogil:
    cdef const char *at = value.start
    cdef const char *end = value.start + value.size
    while at < end:
        at = <const char *>memchr(at, c"#", end - at)
        if at == NULL:
            break
        if at == value.start or is_blank((at - 1)[0]):
            return trimmed(value.start, at)
        at += 1
    return value


cdef bint take_value(Slice *value) noexcept nogil:
    """Cut a line's value down to its text; False if its quotes do not match."""
    cdef const char *end
    cdef Slice rest
    cdef char quote
    if value.size == 0 or not (value.start[0] == c'"' or value.start[0] == c"'"):
        value[0] = without_comment(value[0])
        return True
    quote = value.start[0]
    end = <const char *>memchr(value.start + 1, quote, value.size - 1)
    if end == NULL:
        return False
    rest = trimmed(end + 1, value.start + value.size)
    value.start += 1
    value.size = end - value.start
    return rest.size == 0 or (rest.start[0] == c"#" and is_blank(end[1]))


# ---- meta-data -----------------------------------------------------------------------

cdef const char *scan_meta(const char *text, size_t size, MetaData *meta) noexcept nogil:
    """Read the keys of a meta-data document (B.2); return NULL, or the reason of a failure."""
    cdef const char *at = text
    cdef const char *end = text + size
    cdef const char *error = NULL
    cdef Slice line
    memset(meta, 0, sizeof(meta[0]))
    while at < end and error == NULL:
        line = next_line(&at, end)
        if not says_nothing(line):
            error = take_key(line, meta)
    return error


cdef const char *take_key(Slice line, MetaData *meta) noexcept nogil:
    cdef const char *colon = <const char *>memchr(line.start, c":", line.size)
    cdef Slice key
    cdef Slice value
    if colon == NULL:
        return take_route(line, meta)
    # Java's text wire may quote a key.
    key = unquoted(trimmed(line.start, colon))
    value = trimmed(colon + 1, line.start + line.size)
    if equals(key, b"tid"):
        return take_tid(value, &meta.tid)
    if equals(key, b"cid"):
        if meta.has_cid:
            return b"the meta-data has two cids"
        meta.has_cid = True
        if not take_value(&value) or not parse_int64(value, &meta.cid):
            return b"the cid is not a 64-bit integer"
    elif equals(key, b"csp"):
        return take_csp(value, meta)
    return NULL


cdef const char *take_csp(Slice value, MetaData *meta) noexcept nogil:
    if meta.csp.start != NULL:
        return b"the meta-data has two csps"
    if starts_with(value, b"!!null"):
        value.size = 0
    if not take_value(&value):
        return b"the csp is malformed"
    meta.csp = value
    return NULL


cdef const char *take_route(Slice line, MetaData *meta) noexcept nogil:
    """Take a line without a key: the RFC's table of services routes by the relative URI."""
    cdef Csp csp
    line = without_comment(line)
    scan_csp(line, &csp)
    if csp.error != NULL:
        return b"a line of the meta-data has no colon and is no route"
    return take_csp(line, meta)


cdef const char *take_tid(Slice value, Tid *tid) noexcept nogil:
    cdef int64_t number
    if tid.size:
        return b"the meta-data has two tids"
    if not take_value(&value) or not parse_int64(value, &number):
        return b"the tid is not a 64-bit integer"
    tid.size = <unsigned char>value.size
    memcpy(tid.text, value.start, value.size)
    return NULL


# ---- replies, for our own clients ----------------------------------------------------

cdef Slice without_preamble(const char *text, size_t size) noexcept nogil:
    """Return a document's text without the lines before its event that say nothing."""
    cdef const char *at = text
    cdef const char *end = text + size
    cdef Slice rest
    rest.start = text
    while at < end and says_nothing(next_line(&at, end)):
        rest.start = at
    rest.size = end - rest.start
    return rest


cdef bint scan_index(Slice reply, int64_t *index) noexcept nogil:
    """Read the reply's first line, ``index: <n>``; a comment may follow (the RFC's does)."""
    cdef const char *at = reply.start
    cdef Slice line = next_line(&at, reply.start + reply.size)
    if not starts_with(line, b"index:"):
        return False
    return parse_int64(without_comment(trimmed(line.start + 6, line.start + line.size)), index)


# ---- csp -----------------------------------------------------------------------------

cdef bint is_name_character(char byte) noexcept nogil:
    return (c"a" <= byte <= c"z" or c"A" <= byte <= c"Z" or c"0" <= byte <= c"9"
            or byte == c"_" or byte == c"." or byte == c"-")


cdef bint is_segment(Slice segment) noexcept nogil:
    cdef size_t i
    if not 1 <= segment.size <= MAX_SEGMENT:
        return False
    for i in range(segment.size):
        if not is_name_character(segment.start[i]):
            return False
    return not (equals(segment, b".") or equals(segment, b".."))


cdef bint is_name(Slice name) noexcept nogil:
    """Say whether ``name`` is 1 to 8 segments; none leads out of the data directory."""
    cdef const char *at = name.start
    cdef const char *end = name.start + name.size
    cdef int segments = 0
    cdef Slice segment
    if name.size > MAX_NAME:
        return False
    while at <= end:
        segment.start = at
        at = <const char *>memchr(at, c"/", end - at) if at < end else NULL
        segment.size = (end if at == NULL else at) - segment.start
        segments += 1
        if segments > MAX_SEGMENTS or not is_segment(segment):
            return False
        if at == NULL:
            return True
        at += 1
    return False


cdef bint is_authority(Slice authority) noexcept nogil:
    """Say whether an authority may be repeated in a reply."""
    cdef size_t i
    if authority.size > MAX_AUTHORITY:
        return False
    for i in range(authority.size):
        if not is_name_character(authority.start[i]) and (
                memchr(b":[]@", authority.start[i], 4) == NULL):
            return False
    return True


cdef bint equals_caseless(Slice text, const char *word) noexcept nogil:
    cdef size_t i
    if text.size != strlen(word):
        return False
    for i in range(text.size):
        if (text.start[i] | 0x20) != word[i]:
            return False
    return True


cdef void take_view(Slice view, Csp *csp) noexcept nogil:
    cdef Slice head = view
    if view.size == 0 or equals_caseless(view, b"queue"):
        csp.view = VIEW_QUEUE
    elif equals_caseless(view, b"appender"):
        csp.view = VIEW_APPENDER
    elif equals_caseless(view, b"tailer"):
        csp.view = VIEW_TAILER
    else:
        csp.view = VIEW_UNKNOWN
        head.size = min(view.size, <size_t>6)
        if view.size > 7 and equals_caseless(head, b"tailer") and view.start[6] == c"/":
            view.start += 7
            view.size -= 7
            if parse_int64(view, &csp.cid):
                csp.view = VIEW_TAILER
            else:
                csp.error = b"the cid in the csp is not a 64-bit integer"


cdef void split_view(Slice *path, Slice *view, Csp *csp) noexcept nogil:
    """Cut `#View` or `?view=View` off a path."""
    cdef const char *end = path.start + path.size
    cdef const char *mark = <const char *>memchr(path.start, c"#", path.size)
    if mark == NULL:
        mark = <const char *>memchr(path.start, c"?", path.size)
    view.start = end
    view.size = 0
    if mark == NULL:
        return
    view.start = mark + 1
    view.size = end - view.start
    path.size = mark - path.start
    if mark[0] == c"#":
        return
    if not starts_with(view[0], b"view="):
        csp.error = b"the csp has a query other than view="
        return
    view.start += 5
    view.size -= 5


cdef void scan_csp(Slice text, Csp *csp) noexcept nogil:
    """Take a csp apart (B.3)."""
    cdef Slice view
    cdef const char *slash
    memset(csp, 0, sizeof(csp[0]))
    if starts_with(text, b"csp:"):
        text.start += 4
        text.size -= 4
    split_view(&text, &view, csp)
    csp.authority.start = text.start
    if starts_with(text, b"//"):
        text.start += 2
        text.size -= 2
        slash = <const char *>memchr(text.start, c"/", text.size)
        # `//name` (Chronicle's own spelling) has no authority.
        if slash != NULL:
            csp.authority.start = text.start
            csp.authority.size = slash - text.start
            text.size -= slash - text.start
            text.start = slash
    if starts_with(text, b"/"):
        text.start += 1
        text.size -= 1
    csp.name = text
    if not is_authority(csp.authority):
        csp.error = b"the authority of the csp has a character that cannot be in a host or port"
    elif not is_name(csp.name):
        csp.error = (b"a queue's name is 1 to 8 segments of at most 128 letters, digits and _.-, "
                     b"none of them . or ..")
    if csp.error == NULL:
        take_view(view, csp)


# ---- events --------------------------------------------------------------------------

cdef bint scan_event(const char *text, size_t size, Event *event) noexcept nogil:
    """Find an event's name and argument (B.5); False if there is none."""
    cdef const char *at = text
    cdef const char *end = text + size
    cdef const char *line = end
    while at < end and line == end:
        line = at
        if says_nothing(next_line(&at, end)):
            line = end
    while line < end and is_space(line[0]):
        line += 1
    event.name.start = line
    if line < end and line[0] == c'"':
        event.name.start += 1
        line = <const char *>memchr(line + 1, c'"', end - line - 1)
        if line == NULL:
            return False
        event.name.size = line - event.name.start
        line += 1
    else:
        while line < end and is_name_character(line[0]):
            line += 1
        event.name.size = line - event.name.start
        if not is_identifier(event.name):
            return False
    while line < end and is_blank(line[0]):
        line += 1
    if line >= end or line[0] != c":":
        return False
    event.argument = line + 1
    event.argument_size = end - event.argument
    event.kind = kind_of(event.name)
    return True


cdef bint is_identifier(Slice name) noexcept nogil:
    return name.size > 0 and not (
        c"0" <= name.start[0] <= c"9" or name.start[0] == c"." or name.start[0] == c"-")


cdef EventKind kind_of(Slice name) noexcept nogil:
    cdef int i
    for i in range(1, EVENT_COUNT):
        if equals(name, EVENT_NAMES[i]):
            return <EventKind>i
    return EVENT_UNKNOWN


cdef const char *scan_has_next(const Value *value, HasNext *request) noexcept nogil:
    """Read the arguments of hasNext (B.6); NULL, or why they are refused."""
    cdef Scan scan
    cdef Slice key
    cdef Slice item
    cdef const char *error = NULL
    cdef bint has_batch = False
    cdef bint has_wait = False
    request.has_index = False
    request.batch = 1
    request.wait_ms = DEFAULT_WAIT
    if not open_map(value, &scan):
        if not is_empty_argument(value):
            error = b"the argument of hasNext is not a map"
        return error
    while error == NULL and next_pair(&scan, &key, &item) > 0:
        key = unquoted(key)
        if equals(key, b"index"):
            error = take_number(item, &request.has_index, &request.index)
        elif equals(key, b"batch"):
            error = take_number(item, &has_batch, &request.batch)
        elif equals(key, b"wait"):
            error = take_number(item, &has_wait, &request.wait_ms)
    if error == NULL and request.has_index and request.index < 0:
        error = b"index is negative"
    if error == NULL and request.batch < 1:
        error = b"batch is less than 1"
    if error == NULL and request.wait_ms < 0:
        error = b"wait is negative"
    request.batch = min(request.batch, MAX_BATCH)
    request.wait_ms = min(request.wait_ms, MAX_WAIT)
    return error


cdef const char *take_number(Slice item, bint *given, int64_t *number) noexcept nogil:
    if given[0]:
        return b"an argument of hasNext is given twice"
    given[0] = True
    if item.start == NULL or not parse_int64(unquoted(item), number):
        return b"an argument of hasNext is not a 64-bit integer"
    return NULL


cdef const char *scan_create_tailer(const Value *value, bint *creates) noexcept nogil:
    """Read the arguments of createTailer (B.5); NULL, or why they are refused."""
    cdef Scan scan
    cdef Slice key
    cdef Slice item
    creates[0] = True
    if is_empty_argument(value):
        return NULL
    if not open_map(value, &scan):
        return b"the argument of createTailer is not a map"
    while next_pair(&scan, &key, &item) > 0:
        if not equals(unquoted(key), b"create"):
            continue
        creates[0] = equals(item, b"true")
        if not creates[0] and not equals(item, b"false"):
            return b"create is neither true nor false"
    return NULL
