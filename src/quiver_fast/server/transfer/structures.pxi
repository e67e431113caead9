# A delivery tag of ASCII digits, because some clients read tags as text.
cdef struct Tag:
    uint8_t _digits[16]
    size_t size

# A link that messages leave by.
cdef struct Outlet:
    Link base
    Outlet *next_idle       # among those that we attached and that have no stream
    # Streams that run to this consumer, on its own link or on links of ours.
    int streams
    # For a link of ours: the consumer of its stream, and that consumer's other links.
    Outlet *_consumer_link
    Outlet *_prev_served
    Outlet *_next_served
    # The links that serve this consumer.
    Outlet *_served
    Outlet *next_reader
    Consumer consumer
    bint presettled         # deliveries are sent settled, and end so
    Tag _tag                # of the last delivery
    # Bytes that go before those of the message: its header as it is now, and a stream's route.
    char *_lead
    size_t _lead_size
    size_t _lead_sent
    # The message that is being sent in parts, and how many bytes of it are sent.
    Entry *_sending
    amqp_delivery_t *delivery
    Chunk *chunk
    size_t offset
    # The reader of its parts, if they are in the file.
    ChainReader *_reader
    # Waits for its session's output to drain; then it is in its peer's list.
    bint clogged
    Outlet *_prev_clogged
    Outlet *_next_clogged

# A link that messages come by.
cdef struct Inlet:
    Link base
    # NULL for an anonymous terminus: each message names its address.
    Queue *queue
    # Message.origin of its messages.
    uint64_t origin
    # Among those that the peer attached to that queue.
    Inlet *prev_inlet
    Inlet *next_inlet
    # The anonymous terminus' last address and its queue; valid until a queue is deleted.
    Queue *last
    uint64_t last_known
    # The message that is arriving in parts, and its bytes as the connection's holder knows them.
    Message *receiving
    size_t counted
    void *_spill             # the Spill: bytes of the arriving message in a file
    # The target has the capability qd.streaming-deliveries.
    bint streaming
    Inlet *prev_streaming
    Inlet *next_streaming
    # Streams that are still arriving, or have no outcome yet.
    Stream *streams
    int stream_count
    # In its queue's list, if it is a consumer of another server.
    Inlet *prev_trunk
    Inlet *next_trunk
    # Where the route of the stream leads that is arriving from another server.
    Queue *destination
    Inlet *prev_bound
    Inlet *next_bound
    # Waits until its stream is sent; in the container's list when it may go on.
    bint awake
    Inlet *next_awake
    # Its deliveries that wait for a sync.
    int unsynced
    # Mean size of its messages, which decides how many it may send ahead.
    size_t mean_size
    Shape _shape
    # A message of one frame has come: its session's window is wide enough for those.
    bint wide
    # Waits in a queue's list for room or for its file, or in the broker's to end a long message.
    Queue *blocked_by
    bint ends_later
    Inlet *prev_waiting
    Inlet *next_waiting
