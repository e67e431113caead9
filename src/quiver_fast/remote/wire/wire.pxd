# The envelope of the queue protocol: document headers, routes, events.

from libc.stdint cimport int64_t, uint32_t

from quiver_fast.remote.wire.textwire cimport Slice, Value

# The header of a document (B.1), little-endian on the wire.
cdef enum Header:
    LENGTH_MASK = 0x3FFFFFFF
    META = 0x40000000           # bit 30: meta-data
    MORE = 0x80000000           # bit 31: more for this transmission
    END_OF_STREAM = 0xC0000000
    HEADER_SIZE = 4
    MAX_META = 65536
    MAX_DATA = 16777216 + 65536

# A tid in the client's form, which is echoed; size 0: there is none. `more`: the request
# has bit 31, so its reply has it too (B.1).
cdef struct Tid:
    unsigned char size
    unsigned char more
    char text[22]

# The keys of a meta-data document. Without a csp its start is NULL.
cdef struct MetaData:
    Slice csp
    bint has_cid
    int64_t cid
    Tid tid

cdef enum View:
    VIEW_QUEUE
    VIEW_APPENDER
    VIEW_TAILER
    VIEW_UNKNOWN

# A parsed csp; the slices are parts of its text.
cdef struct Csp:
    Slice authority
    Slice name
    View view
    int64_t cid                 # of `#tailer/<cid>`, else 0
    const char *error           # NULL, or the reason why it is malformed

cdef enum EventKind:
    EVENT_UNKNOWN
    EVENT_SUBMIT
    EVENT_HAS_NEXT
    EVENT_LAST_WRITTEN_INDEX
    EVENT_CREATE_APPENDER
    EVENT_CREATE_TAILER
    EVENT_CLOSE
    EVENT_HEARTBEAT
    EVENT_ON_CLIENT_CLOSING
    EVENT_HEADER
    EVENT_BYE

# One request: the event's name, and the beginning of its argument.
cdef struct Event:
    EventKind kind
    Slice name
    const char *argument
    size_t argument_size

# The arguments of hasNext, with the defaults of B.6.
cdef struct HasNext:
    bint has_index
    int64_t index
    int64_t batch
    int64_t wait_ms

cdef uint32_t read_header(const char *bytes) noexcept nogil
cdef void write_header(char *bytes, uint32_t header) noexcept nogil
cdef const char *scan_meta(const char *text, size_t size, MetaData *meta) noexcept nogil
cdef Slice without_preamble(const char *text, size_t size) noexcept nogil
cdef bint scan_index(Slice reply, int64_t *index) noexcept nogil
cdef void scan_csp(Slice text, Csp *csp) noexcept nogil
cdef bint scan_event(const char *text, size_t size, Event *event) noexcept nogil
cdef const char *scan_has_next(const Value *value, HasNext *request) noexcept nogil
cdef const char *scan_create_tailer(const Value *value, bint *creates) noexcept nogil


cdef inline char *end_document(char *header, char *out, uint32_t bits) noexcept nogil:
    """Write a document's header, after padding its body with spaces to a multiple of 4.

    Java's wires in padded mode miss every second document otherwise (B.1).
    """
    while (out - header) & 3:
        out[0] = c" "
        out += 1
    write_header(header, bits | <uint32_t>(out - header - HEADER_SIZE))
    return out
