from libc.stdint cimport int64_t

from quiver_fast.arrow.csp.channel cimport Reply
from quiver_fast.arrow.csp.endpoint cimport Endpoint
from quiver_fast.remote.wire.textwire cimport Slice

cdef class Receiver(Endpoint):
    cdef int64_t batch
    cdef bint from_end
    cdef int64_t next_tid
    cdef int64_t outstanding
    cdef bytes event            # the request, always the same
    cdef const char *event_text
    # The index after the last entry read.
    cdef int64_t position
    # At the end of the run: the request that asks where the queue ends, and its answer.
    cdef int64_t end_tid
    cdef int64_t queue_end
    cdef readonly int64_t received
    # Entries that are not of this run: written before it, and during it by others.
    cdef readonly int64_t older
    cdef readonly int64_t foreign

    cdef int ask(self) except -1 nogil
    cdef int take_replies(self) except -1 nogil
    cdef int take_batch(self, const Reply *reply) except -1 nogil
    cdef bint is_done(self) noexcept nogil
    cdef bint is_over(self, int64_t now) noexcept nogil
    cdef bint is_drained(self, int64_t now) noexcept nogil
    cdef int ask_for_end(self) except -1
    cdef int take_end(self, const Reply *reply) except -1
    cdef int set_apart(self, Slice id, int64_t sent, bint timed, int64_t time) except -1 nogil
    cdef int take_value(self, Slice value, int64_t time) except -1 nogil
    cdef int refuse(self, str what) except -1
    cdef int fail_reply(self, const Reply *reply) except -1
