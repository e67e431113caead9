from libc.stdint cimport int64_t

from quiver_fast.arrow.amqp.receiver cimport Receiver

cdef class EmptyingReceiver(Receiver):
    # The queue was seen to be empty.
    cdef bint emptied
    # Messages taken when that last changed, and when the peer has been silent for too long.
    cdef int64_t seen
    cdef int64_t silence_end
