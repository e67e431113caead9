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
    # It is in a file and malformed: the message passes unchanged.
    uint8_t opaque
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
    # Its number while a topic's selectors are asked for it; 0 before that.
    uint64_t judged
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
    PROPERTIES_MORE

cdef inline char *chunk_bytes(Chunk *chunk) noexcept nogil:
    return <char *>chunk + sizeof(Chunk)

cdef inline size_t message_memory(const Message *message) noexcept nogil:
    """Return the memory of a message, with the room in its last chunk."""
    cdef const Chunk *last = message.last
    return sizeof(Message) + sizeof(Chunk) + message.held + last.capacity - last.size

cdef inline bint has_expired(const Message *message, int64_t now) noexcept nogil:
    return message.expires != 0 and message.expires <= now

# The longest header section that encode_header writes.
cdef enum:
    HEADER_MAX = 32

# Before the bytes of a raw entry: form 2 of A.6.
cdef enum:
    RAW_HEAD = 6

# Adjacent parts in one file.
cdef struct Span:
    int64_t cycle
    # Offsets of the first part and behind the last one.
    size_t at
    size_t end
    uint32_t parts
    # Index of the first part if parts are entries; else -1.
    int64_t index
    # The hold that keeps the file.
    size_t held

# A message that is sent from the queue's file; Message.chain points to it.
cdef struct Chain:
    # How to free it; has to be the first member.
    void (*end)(void *chain) noexcept nogil
    # The file's Appender, which stays as long as its queue, and its Retention, which is ours.
    void *appender
    void *retention
    uint64_t id
    uint32_t parts
    # Bytes of the message in the parts.
    uint64_t size
    # The last part is written, so the message is complete.
    bint closed
    # It has one part, an entry that is the message as it is.
    bint single
    # The message's entry in its queue while it arrives; NULL after the entry's end.
    bint shown
    void *entry
    # The Inlet that it arrives by, to be woken at the entry's end.
    void *inlet
    # The consumer's outcome, if it came before the end of the message.
    uint64_t outcome
    # Outlets that send the message while it arrives.
    void *readers
    uint32_t count
    uint32_t capacity
    # `capacity` of them, in the same allocation.
    Span[1] spans

# Where a delivery from the file stands.
cdef struct ChainReader:
    # A Tailer, which maps one file at a time.
    void *tailer
    uint32_t span
    # Parts of that span that were read.
    uint32_t part
    # What is left of the current one.
    const char *at
    size_t left
    # The file's pages up to here were unmapped.
    const char *base
    size_t let_go
    # The next file could not be opened for want of descriptors or memory: the message is whole.
    bint unopened

# A part as it is in the file.
cdef struct Part:
    uint64_t id
    uint32_t number
    uint32_t ending
    const char *bytes
    size_t size

cdef inline Chain *chain_of(const Message *message) noexcept nogil:
    return <Chain *>message.chain

# The address of a stream from another server, and its properties there.
cdef struct Route:
    # Points into the message; valid until the route is stripped.
    const char *address
    size_t size
    bint streaming
    # Its sender sent it settled.
    bint presettled
    # Where the section ends, in the message's first chunk.
    size_t end

# The most that encode_route writes.
cdef enum:
    ROUTE_MAX = 80

cdef enum:
    SHAPE_HEADER = 32
    SHAPE_WORDS = 16

# The sections of a message that is plain, for the messages that are like it: its size (0 before
# there is one), all bytes of its header, and words of the other sections. Their masks leave all
# bytes that the walk over the sections looks at: descriptors, constructors, sizes and counts.
cdef struct Shape:
    size_t size
    Header header
    uint8_t header_bytes[SHAPE_HEADER]
    int count
    uint32_t offsets[SHAPE_WORDS]
    uint64_t words[SHAPE_WORDS]
    uint64_t masks[SHAPE_WORDS]
