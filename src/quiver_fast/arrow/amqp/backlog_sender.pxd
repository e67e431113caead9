from libc.stdint cimport int64_t

from quiver_fast.arrow.amqp.sender cimport Sender
from quiver_fast.arrow.run.pacer cimport Schedule

cdef class BacklogSchedule(Schedule):
    # Messages before it begins.
    cdef int64_t backlog

cdef class BacklogSender(Sender):
    cdef bint is_full
