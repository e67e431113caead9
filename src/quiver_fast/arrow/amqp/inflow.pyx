"""What has come of a message that arrives in parts: its first bytes, up to SendTime."""

from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from quiver_fast.arrow.amqp.scanner cimport (
    SCAN_FOUND, SCAN_MALFORMED, SCAN_MORE, ScanResult, scan_message,
)
from quiver_fast.proton.libproton cimport pn_link_t

# Room for the bytes before SendTime; it grows if they are more.
cdef size_t FIRST_HEAD = 4096


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

    Returns what the scan says of all that was kept. Raises MemoryError.
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
    # Whole messages need none: most links never do.
    cdef size_t capacity = 2 * flow.head_capacity if flow.head_capacity else FIRST_HEAD
    cdef uint8_t *larger = <uint8_t *>realloc(flow.head, capacity)
    if larger == NULL:
        with gil:
            raise MemoryError("no memory for a receive buffer")
    flow.head = larger
    flow.head_capacity = capacity
    return 0
