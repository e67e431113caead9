from libc.stdint cimport int64_t, uint8_t, uint64_t

from quiver_fast.amqp.data_plane cimport amqp_arrival_t, amqp_link_end_t
from quiver_fast.arrow.amqp.body cimport Body
from quiver_fast.arrow.amqp.scanner cimport ScannedMessage, ScanResult
from quiver_fast.proton.libproton cimport pn_link_t

cdef enum:
    # The most bytes of a message up to its application properties.
    LARGEST_HEAD = 64 * 1024 * 1024

# The present delivery of one link, as far as it has come.
cdef struct Inflow:
    pn_link_t *link
    amqp_link_end_t *end
    # The first bytes, up to SendTime; later ones are discarded.
    uint8_t *head
    size_t head_size
    size_t head_capacity
    bint scanned
    ScannedMessage message
    # In streaming mode: the body, when its first bytes came, and how many are recorded.
    Body body
    bint begun
    int64_t first_time
    uint64_t recorded
    # Frames of this link in the backlog.
    int64_t waiting
    Inflow *next

cdef Inflow *new_inflow(pn_link_t *link) except NULL
cdef void free_inflow(Inflow *flow) noexcept nogil
cdef ScanResult keep_head(
    Inflow *flow, const uint8_t *bytes, size_t size) except? ScanResult.SCAN_MALFORMED nogil

cdef class Backlog:
    cdef uint8_t *memory
    cdef size_t capacity
    # The bytes that are not taken yet.
    cdef size_t begin
    cdef size_t end
    cdef readonly int64_t frames
    # Frames that begin a message.
    cdef readonly int64_t messages

    cdef int put(self, const amqp_arrival_t *arrival) except -1 nogil
    cdef int make_room(self, size_t size) except -1 nogil
    cdef int take(self, amqp_arrival_t *arrival) noexcept nogil
