"""What a receiver keeps of the messages that come in: parts of one, and frames that have to wait.

    Inflow    the first bytes of a message that comes in several frames, up to SendTime
    Backlog   arrival · payload · arrival · payload · …    while no transaction is open for them

The session's window bounds the backlog: it is given again when a frame is taken.
"""

from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memmove

from quiver_fast.amqp.data_plane cimport amqp_arrival_t
from quiver_fast.arrow.amqp.scanner cimport (
    SCAN_FOUND, SCAN_MALFORMED, SCAN_MORE, ScanResult, scan_message,
)
from quiver_fast.proton.libproton cimport pn_link_t

# Room for the bytes before SendTime; it grows if they are more.
cdef size_t FIRST_HEAD = 4096
# Room for the first frames of a backlog.
cdef size_t FIRST_CAPACITY = 65536


cdef Inflow *new_inflow(pn_link_t *link) except NULL:
    cdef Inflow *flow = <Inflow *>calloc(1, sizeof(Inflow))
    if flow == NULL:
        raise MemoryError("no memory for a receive buffer")
    flow.link = link
    return flow


cdef void free_inflow(Inflow *flow) noexcept nogil:
    if flow != NULL:
        free(flow.head)
        free(flow)


cdef ScanResult keep_head(
        Inflow *flow, const uint8_t *bytes, size_t size) except? SCAN_MALFORMED nogil:
    """Keep bytes of a message until SendTime is found in them, or more than LARGEST_HEAD.

    Returns the result of the scan of all bytes so far. Raises MemoryError.
    """
    cdef ScanResult result = SCAN_MORE
    cdef size_t part
    while size and result == SCAN_MORE and flow.head_size <= LARGEST_HEAD:
        if flow.head_size == flow.head_capacity:
            grow_head(flow)
        part = min(size, flow.head_capacity - flow.head_size)
        memcpy(flow.head + flow.head_size, bytes, part)
        flow.head_size += part
        bytes += part
        size -= part
        result = scan_message(flow.head, flow.head_size, &flow.message)
    flow.scanned = result == SCAN_FOUND
    return result


cdef int grow_head(Inflow *flow) except -1 nogil:
    # Allocated on demand: links with whole messages need no buffer.
    cdef size_t capacity = 2 * flow.head_capacity if flow.head_capacity else FIRST_HEAD
    cdef uint8_t *larger = <uint8_t *>realloc(flow.head, capacity)
    if larger == NULL:
        with gil:
            raise MemoryError("no memory for a receive buffer")
    flow.head = larger
    flow.head_capacity = capacity
    return 0


cdef class Backlog:
    """A queue of arrivals and their payloads."""

    def __dealloc__(self) -> None:
        free(self.memory)

    cdef int put(self, const amqp_arrival_t *arrival) except -1 nogil:
        """Append a copy of a frame's arrival; of its bytes only the payload is kept.

        Raises MemoryError.
        """
        cdef size_t size = sizeof(amqp_arrival_t) + arrival.payload.size
        if self.capacity - self.end < size:
            self.make_room(size)
        memcpy(self.memory + self.end, arrival, sizeof(amqp_arrival_t))
        if arrival.payload.size:
            memcpy(self.memory + self.end + sizeof(amqp_arrival_t),
                   arrival.payload.start, arrival.payload.size)
        self.end += size
        self.frames += 1
        self.messages += arrival.first
        return 0

    cdef int make_room(self, size_t size) except -1 nogil:
        cdef size_t capacity = max(self.capacity, FIRST_CAPACITY)
        cdef uint8_t *larger
        if self.begin:
            memmove(self.memory, self.memory + self.begin, self.end - self.begin)
            self.end -= self.begin
            self.begin = 0
        while capacity - self.end < size:
            capacity *= 2
        larger = <uint8_t *>realloc(self.memory, capacity)
        if larger == NULL:
            with gil:
                raise MemoryError("no memory for messages that wait")
        self.memory = larger
        self.capacity = capacity
        return 0

    cdef int take(self, amqp_arrival_t *arrival) noexcept nogil:
        """Take the oldest frame; its payload is valid until the next `put`. There has to be one."""
        memcpy(arrival, self.memory + self.begin, sizeof(amqp_arrival_t))
        self.begin += sizeof(amqp_arrival_t)
        arrival.payload.start = self.memory + self.begin
        self.begin += arrival.payload.size
        self.frames -= 1
        self.messages -= arrival.first
        if self.begin == self.end:
            self.begin = self.end = 0
        return 0
