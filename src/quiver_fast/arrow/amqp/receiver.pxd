from libc.stdint cimport int64_t, uint8_t, uint32_t

from quiver_fast.amqp.data_plane cimport amqp_arrival_t, amqp_link_end_t
from quiver_fast.arrow.amqp.incoming cimport Backlog, Inflow
from quiver_fast.arrow.amqp.link cimport Endpoint
from quiver_fast.arrow.amqp.scanner cimport ScanLikeness, ScanResult

cdef class Receiver(Endpoint):
    cdef bint with_ids
    cdef int64_t credit_window
    cdef int64_t batch_received
    cdef bytes id_prefix
    # The filters of our source; None for none.
    cdef object filters
    cdef const char *prefix
    cdef size_t prefix_size
    cdef Inflow *base
    # Messages need only their SendTime: no ids, transactions or bodies. How many there may be.
    cdef bint is_plain
    cdef int64_t most
    # The head of the last whole message, to compare the next one with.
    cdef ScanLikeness likeness
    # Frames that wait for a transaction; the session's window, and frames since its last flow.
    cdef Backlog backlog
    cdef uint32_t window
    cdef uint32_t unreturned
    # Messages since the clock was last read.
    cdef int taken_since
    # Bodies are checked (note_bytes, finish_stream), and messages come over several links.
    cdef bint streaming
    cdef int64_t now
    # Ids, not times, show which messages are of this run.
    cdef bint tells_by_id
    # The peer fails when it is asked to drain.
    cdef bint undrainable
    cdef bint was_drained
    # When the drain began that the peer answers next (monotonic ns; 0 before the first), and
    # whether the wrapper had said before that no sender sends any more.
    cdef int64_t asked_at
    cdef bint asked_last
    # Messages taken before the last drain, and whether that was the second one.
    cdef int64_t taken_before
    cdef bint confirming
    cdef int64_t received
    # Messages that are not of this run: sent before it, and sent during it by others.
    cdef int64_t older
    cdef int64_t foreign
    cdef int64_t aborted

    cdef int64_t taken(self) noexcept nogil
    cdef int64_t goal(self) noexcept nogil
    cdef int drain(self, int64_t now) except -1 nogil
    cdef bint is_drained(self, int64_t now) noexcept nogil
    cdef int ask_for_the_rest(self) except -1 nogil
    cdef int note_drain(self) noexcept nogil
    cdef bint take_plain(self, const amqp_arrival_t *arrival) except -1 nogil
    cdef int take_arrival(self, const amqp_arrival_t *arrival) except -1 nogil
    cdef int take_part(self, Inflow *flow, const amqp_arrival_t *arrival) except -1 nogil
    cdef int take_backlog(self) except -1 nogil
    cdef int give_window(self, amqp_link_end_t *end) except -1 nogil
    cdef int note_bytes(self, Inflow *flow, const uint8_t *bytes, size_t size) noexcept nogil
    cdef int refuse_head(self) except -1
    cdef int finish_message(self, Inflow *flow, const amqp_arrival_t *arrival) except -1 nogil
    cdef size_t own_prefix(self, Inflow *flow) noexcept nogil
    cdef bint is_own(self, Inflow *flow, size_t prefix) noexcept nogil
    cdef int count_other(self, Inflow *flow) except -1 nogil
    cdef int finish_stream(self, Inflow *flow) except -1 nogil
    cdef int record_with_id(self, Inflow *flow, size_t cut, bint is_own) except -1 nogil
    cdef int record_with_other_id(self, Inflow *flow, bint is_own) except -1
    cdef int refuse_message(self, ScanResult result) except -1
    cdef int check_unit(self, Inflow *flow) except -1
    cdef int refuse_unit(self, int64_t sent) except -1
    cdef int top_up(self) except -1 nogil
    cdef bint may_take(self) noexcept nogil
    cdef bint is_ending(self, bint closed, int64_t now) noexcept nogil
    cdef bint is_committed(self, bint ending, int64_t now) except? -1 nogil
    cdef int check_transaction(self) except -1
    cdef int ended_by_peer(self, int64_t now) except -1
