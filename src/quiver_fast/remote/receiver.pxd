from libc.stdint cimport int64_t

from quiver_fast.remote.channel cimport Reply
from quiver_fast.remote.endpoint cimport Endpoint
from quiver_fast.remote.textwire cimport Slice

cdef class Receiver(Endpoint):
    cdef int64_t batch
    cdef bint from_end
    cdef int64_t next_tid
    cdef int64_t outstanding
    cdef bytes event            # the request, always the same
    cdef const char *event_text
    cdef readonly int64_t received
    # Entries of other runs, passed over.
    cdef readonly int64_t foreign

    cdef int ask(self) except -1 nogil
    cdef int take_replies(self) except -1 nogil
    cdef int take_batch(self, const Reply *reply) except -1 nogil
    cdef bint is_done(self) noexcept nogil
    cdef int take_value(self, Slice value, int64_t time) except -1 nogil
    cdef int refuse(self, str what) except -1
    cdef int fail_reply(self, const Reply *reply) except -1
