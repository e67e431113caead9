# A connection that this server makes, and makes again when it is lost.
cdef struct Dial:
    # Of the socket while it connects.
    Watch watch
    Hook hook
    Peer *peer
    # When to try next, or to give up trying (monotonic ns).
    int64_t due
    # The Connector.
    void *owner
    void (*lost)(Dial *dial, Peer *peer) noexcept nogil
