from libc.stdint cimport int64_t, uint8_t

from quiver_fast.engine.link cimport Endpoint
from quiver_fast.engine.scanner cimport ScannedMessage, ScanResult
from quiver_fast.proton.libproton cimport pn_delivery_t

cdef class Receiver(Endpoint):
    cdef bint with_ids
    cdef int64_t credit_window
    cdef int64_t batch_received
    cdef bytes id_prefix
    cdef const char *prefix
    cdef size_t prefix_size
    # The first bytes of the present delivery, as far as SendTime; later ones go to waste.
    cdef uint8_t *head
    cdef size_t head_size
    cdef size_t head_capacity
    cdef uint8_t *waste
    cdef bint scanned
    cdef ScannedMessage message
    cdef int64_t now
    cdef readonly int64_t received
    cdef readonly int64_t aborted

    cdef int loop(self) except -1 nogil
    cdef bint is_drained(self, int64_t now) noexcept nogil
    cdef int take_messages(self) except -1 nogil
    cdef int take_bytes(self, pn_delivery_t *delivery) except -1 nogil
    cdef int grow_head(self) except -1
    cdef int finish_message(self, pn_delivery_t *delivery) except -1 nogil
    cdef int record_with_id(self) except -1 nogil
    cdef int record_with_other_id(self) except -1
    cdef int refuse_message(self, ScanResult result) except -1
    cdef int check_unit(self) except -1
    cdef int top_up(self) noexcept nogil
    cdef int transact(self) except -1
    cdef int ended_by_peer(self, int64_t now) except -1
