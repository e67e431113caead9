# The server's traffic since its start, and its contents now: for server/readings.pxi.


cdef struct Traffic:
    # Connections that were accepted, or made to other servers.
    uint64_t connections
    # Complete messages from producers and to consumers; their bytes are those of the wire.
    uint64_t messages_in
    uint64_t bytes_in
    uint64_t messages_out
    uint64_t bytes_out
    # Entries in all queues, and their bytes as Queue.bytes counts them.
    uint64_t depth
    uint64_t bytes
    # Queues and topics, subscriptions included; links, of both sides.
    uint64_t queues
    uint64_t links


cdef inline void came_in(Traffic *traffic, size_t size) noexcept nogil:
    """Count a complete message from a producer."""
    traffic.messages_in += 1
    traffic.bytes_in += size


cdef inline void went_out(Traffic *traffic, size_t size) noexcept nogil:
    """Count a complete message to a consumer."""
    traffic.messages_out += 1
    traffic.bytes_out += size
