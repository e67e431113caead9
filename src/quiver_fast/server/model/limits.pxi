# The limits of a server's peers, from its keys.
cdef struct Limits:
    size_t queue_bytes
    uint64_t message_size
    int credit
    size_t connections
    size_t sessions
    # Links that we attach share one session of each connection.
    bint shared_sessions
    size_t links
    uint32_t transactions
    uint32_t frame_size
    uint32_t idle_timeout
    int64_t handshake_ns
