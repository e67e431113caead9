from libc.stdint cimport int64_t

from quiver_fast.arrow.amqp.link cimport Endpoint

cdef class Purger(Endpoint):
    cdef int64_t credit_window
    cdef bint drainable
    cdef bint was_drained
    # When the peer has been silent for too long.
    cdef int64_t silence_end
    cdef readonly int64_t purged
    # How many there were when the last drain was asked for.
    cdef int64_t drained_at

    cdef int loop(self) except -1 nogil
    cdef int take_messages(self, int64_t now) except -1 nogil
    cdef int ask_for_more(self) except -1 nogil
