from libc.stdint cimport int64_t

from quiver_fast.arrow.csp.channel cimport Channel, Reply
from quiver_fast.arrow.run.course cimport Course
from quiver_fast.records.writer cimport RecordWriter

cdef class Endpoint:
    cdef Course course
    cdef RecordWriter writer
    cdef Channel channel
    cdef readonly str queue
    # The prefix of this run's ids.
    cdef bytes prefix
    cdef const char *prefix_text
    cdef size_t prefix_size
    cdef bint with_ids
    # The cid of our appender or tailer.
    cdef int64_t cid

    cdef int64_t turn(self, int64_t now) except? -1 nogil
    cdef int await_input(self, int64_t wake) except -1 nogil
    cdef bytes csp(self)
    cdef bytes create(self, bytes event, double timeout)
    cdef int await_start(self) except -1 nogil
    cdef str reason_of(self, const Reply *reply)
