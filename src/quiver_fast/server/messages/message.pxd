from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from quiver_fast.amqp.data_plane cimport amqp_fault, amqp_hold_t, amqp_reader_t

# A piece of a message's bytes; the text follows the struct in the same allocation.
cdef struct Chunk:
    Chunk *next
    uint32_t size
    uint32_t capacity
    # In a stream: how many of its entries still have to send the chunk.
    uint32_t readers

# What the header section says, AMQP 1.0 part 3.2.1.
cdef struct Header:
    uint8_t durable
    uint8_t has_priority
    uint8_t priority
    uint8_t has_ttl
    uint32_t ttl
    uint32_t delivery_count
    # Where the bare message begins: the length of the header section, 0 without one.
    size_t size

cdef struct Message:
    # Its users, of whom an output that sends it by reference is one. The first member.
    amqp_hold_t hold
    # The message-format of its transfers (part 2.7.5); 0 is AMQP's own.
    uint32_t format
    # All its bytes have come; otherwise it is still being received.
    uint8_t complete
    # Its sender aborted it or has left: it must never look like a complete message.
    uint8_t aborted
    # It came over a trunk; a stream, or a topic's message, then never leaves by another trunk.
    uint8_t from_trunk
    # The Stream of a message that is forwarded while it is being received; else NULL.
    # Bytes that all its entries have sent are dropped, so the message cannot be sent again.
    void *stream
    # The Chain of a message whose parts are in its queue's file, else NULL. Bytes in the
    # file are not held in memory.
    void *chain
    # Entries that still have to send it.
    uint32_t readers
    Header header
    # The number of its sender's container, for no-local; 0 without one.
    uint64_t origin
    # When the message expires (monotonic ms); 0 for never.
    int64_t expires
    # Bytes received, and those of them that are still in memory.
    size_t size
    size_t held
    # Its entry in the queue's file; -1 if it has none.
    int64_t index
    Chunk *first
    Chunk *last

# Bytes that a stream with several readers, or none yet, may hold in memory before its sender
# has to wait. A stream with one reader holds nothing.
cdef enum:
    STREAM_HIGH = 65536
    STREAM_LOW = 49152
    # With so many bytes, a message becomes a stream although its link did not ask for that (Q2).
    STREAM_SIZE = 262144

cdef enum HeaderResult:
    HEADER_READ
    HEADER_MORE
    HEADER_MALFORMED

cdef inline char *chunk_bytes(Chunk *chunk) noexcept nogil:
    return <char *>chunk + sizeof(Chunk)

cdef Message *message_new(size_t capacity) noexcept nogil
cdef Message *message_in_parts() noexcept nogil
cdef Message *message_plain(
    const void *start, size_t size, const Header *header, int64_t now) noexcept nogil
cdef void message_release(Message *message) noexcept nogil
cdef char *message_space(Message *message, size_t wanted, size_t *size) noexcept nogil
cdef void message_filled(Message *message, size_t size) noexcept nogil
cdef void message_fit(Message *message) noexcept nogil
cdef void message_drain(Message *message, char *out, size_t size) noexcept nogil
cdef void message_cut(Message *message, size_t at, size_t size) noexcept nogil
cdef void message_trim(Message *message) noexcept nogil
cdef void message_empty(Message *message) noexcept nogil
cdef void message_leave(Message *message, Chunk *position) noexcept nogil
cdef HeaderResult as_header_result(amqp_fault fault) noexcept nogil
cdef void message_forget_header(Message *message) noexcept nogil
cdef HeaderResult message_read_header(Message *message, int64_t now) noexcept nogil
cdef HeaderResult header_read(amqp_reader_t reader, Header *header) noexcept nogil
cdef size_t encode_header(
    const Message *message, uint32_t failures, bint first, int64_t now, char *out) noexcept nogil
cdef HeaderResult message_address(
    const Message *message, const char **address, size_t *size) noexcept nogil

# The longest header section that encode_header writes.
cdef enum:
    HEADER_MAX = 32
