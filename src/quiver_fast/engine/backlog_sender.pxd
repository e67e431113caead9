from libc.stdint cimport int64_t

from quiver_fast.engine.sender cimport Sender
from quiver_fast.run.pacer cimport Schedule

cdef class BacklogSchedule(Schedule):
    # Messages before it begins.
    cdef int64_t backlog

cdef class BacklogSender(Sender):
    cdef bint is_full
