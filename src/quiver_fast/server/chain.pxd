from libc.stdint cimport int64_t, uint32_t, uint64_t

from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.server.message cimport Message

# Neighbouring entries of a queue's file, both ends included.
cdef struct Span:
    uint64_t first
    uint64_t last

# The entries that hold a message too long for one; what Message.chain points to.
cdef struct Chain:
    # The file's Appender, which stays as long as its queue.
    void *appender
    uint64_t id
    uint32_t parts
    # The last one is written, so the message is whole.
    bint closed
    uint32_t count
    uint32_t capacity
    # `capacity` of them, in the same allocation.
    Span[1] spans

# Where a delivery from the file stands.
cdef struct ChainReader:
    # A Tailer, which maps one file at a time.
    void *tailer
    uint32_t span
    # The entry to read next.
    uint64_t index
    # What is left of the current one.
    const char *at
    size_t left
    # Up to where the file's pages were let go.
    const char *base
    size_t let_go

cdef bint chain_write(Appender appender, Message *message, bint last) noexcept nogil
cdef bint chain_is_part(const char *bytes, size_t size) noexcept nogil
cdef ChainReader *chain_open(const Message *message) noexcept nogil
cdef bint chain_read(ChainReader *reader, const Message *message) noexcept nogil
cdef bint chain_was_cut(const ChainReader *reader) noexcept nogil
cdef void chain_close(ChainReader *reader) noexcept nogil

cdef class ChainRestorer:
    cdef Appender appender
    cdef dict unfinished
    cdef list loose
    cdef Message *add(
        self, const char *bytes, size_t size, int64_t index, int64_t now) except? NULL
