from libc.stdint cimport int64_t

from quiver_fast.arrow.csp.channel cimport Reply
from quiver_fast.arrow.csp.endpoint cimport Endpoint
from quiver_fast.arrow.run.pacer cimport DelayHistogram, Schedule

cdef class Sender(Endpoint):
    # None: as fast as can be.
    cdef Schedule schedule
    cdef bytes body
    cdef const char *body_text
    cdef size_t body_size
    cdef int64_t window
    cdef bint settlement
    # The tid of the last reply, and how many replies had it: a batch's requests share one.
    cdef int64_t reply_tid
    cdef int64_t reply_count
    cdef readonly int64_t sent
    cdef readonly int64_t settled
    cdef readonly int64_t accepted
    cdef readonly int64_t rejected
    cdef readonly str first_refusal

    cdef bint is_done(self, int64_t now) noexcept nogil
    cdef int64_t allowance(self, int64_t now) noexcept nogil
    cdef int burst(self, int64_t now) except -1 nogil
    cdef int64_t send_time(self) noexcept nogil
    cdef int submit(self, int64_t time, bint more) except -1 nogil
    cdef int collect_replies(self) except -1 nogil
    cdef int take_reply(self, const Reply *reply) except -1 nogil
    cdef int refuse_reply(self, const Reply *reply) except -1
    cdef int record_settlement(self, int64_t sequence) except -1 nogil
    cdef int64_t next_wake(self, int64_t now) noexcept nogil
