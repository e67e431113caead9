# Replies, written into a Buffer: two documents each, meta-data `tid:` and data (B.1).
# Every function returns False when there is no memory for the reply.

from libc.stdint cimport int64_t

from quiver_fast.remote.wire.buffer cimport Buffer
from quiver_fast.remote.wire.textwire cimport Slice
from quiver_fast.remote.wire.wire cimport Tid

# The Java classes of B.7, in the order of their names in reply.pyx.
cdef enum Failure:
    ILLEGAL_ARGUMENT
    ILLEGAL_STATE
    UNSUPPORTED
    OUT_OF_BOUNDS
    NO_SUCH_QUEUE
    IO_FAILURE
    REJECTED
    CORRUPTED

cdef enum:
    # Enough for a reply in which only numbers vary.
    SHORT_REPLY = 192

# The tid of a reply without a request.
cdef Tid UNSOLICITED

cdef bint put_index(Buffer *buffer, const Tid *tid, int64_t index) noexcept nogil
cdef bint put_number(
    Buffer *buffer, const Tid *tid, const char *name, int64_t number) noexcept nogil
cdef bint put_text(Buffer *buffer, const Tid *tid, const char *text) noexcept nogil
cdef bint put_appender(Buffer *buffer, const Tid *tid, Slice authority, Slice queue,
                       int64_t cid) noexcept nogil
cdef bint put_tailer(Buffer *buffer, const Tid *tid, Slice authority, Slice queue, int64_t cid,
                     int64_t start, int64_t end) noexcept nogil
cdef bint put_exception(Buffer *buffer, const Tid *tid, Failure failure,
                        const char *message) noexcept nogil
cdef bint put_nothing_new(Buffer *buffer, const Tid *tid, int64_t index) noexcept nogil

cdef size_t reply_size(const char *entry, size_t size) noexcept nogil

# A batch: begin_batch(), then put_entry() for each, then end_batch().
cdef ssize_t begin_batch(Buffer *buffer, const Tid *tid, int64_t index) noexcept nogil
cdef bint put_entry(Buffer *buffer, const char *entry, size_t size) noexcept nogil
cdef bint end_batch(Buffer *buffer, const Tid *tid, size_t header_at) noexcept nogil
