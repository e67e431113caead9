from libc.stdint cimport int64_t, uint32_t

from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.queuefile.retention cimport Retention
from quiver_fast.queuefile.tailer cimport Tailer
from quiver_fast.server.messages.chain cimport Chain, Part
from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Queue

cdef class Restorer:
    cdef Appender appender
    cdef dict unfinished
    cdef list whole
    cdef list loose
    cdef dict bytes

    cdef Message *take(
        self, Tailer tailer, const char *start, size_t size, int64_t index, bint meta,
        int64_t now) except? NULL
    cdef Message *take_entry(
        self, Tailer tailer, const char *start, size_t size, int64_t index,
        int64_t now) except? NULL
    cdef Message *take_part(
        self, Tailer tailer, size_t at, Part *part, int64_t index, int64_t now) except? NULL
    cdef Chain *chain_for(self, const Part *part) except? NULL
    cdef Message *take_reference(
        self, const char *bytes, int64_t index, int64_t now) except? NULL
    cdef Message *made_whole(
        self, Chain *chain, uint32_t format, int64_t index, int64_t now) except? NULL
    cdef int hold(self, Retention retention) except -1

cdef int restore_whole(Queue *queue, Message *message, dict states) except -1
