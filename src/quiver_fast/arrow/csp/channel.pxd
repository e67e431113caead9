# The client's side of a connection: requests out, replies in.

from libc.stdint cimport int64_t

from quiver_fast.arrow.run.control cimport Control
from quiver_fast.remote.wire.buffer cimport Buffer
from quiver_fast.remote.wire.textwire cimport Slice
from quiver_fast.remote.wire.wire cimport MetaData

# One reply. Its slices are valid until the channel reads again.
cdef struct Reply:
    int64_t tid
    Slice body

cdef class Channel:
    cdef int fd
    cdef object sock
    cdef readonly str peer
    # The address and the port that we are connected to.
    cdef readonly dict place
    # A message on the control socket ends a wait for the peer.
    cdef Control control
    cdef Buffer input
    cdef Buffer output
    cdef MetaData meta          # of the reply whose data comes next
    # The peer closed, or the socket failed with `socket_error`.
    cdef readonly bint cut
    cdef int socket_error
    cdef bint blocked           # the socket is full, and output is pending

    cdef char *request_room(self, size_t size) except NULL nogil
    cdef int request(self, int64_t cid, int64_t tid, const char *event) except -1 nogil
    cdef char *begin_meta(self, char *out, int64_t cid, int64_t tid) noexcept nogil
    cdef int write(self) noexcept nogil
    cdef int read(self) except -1 nogil
    cdef int exchange(self, int64_t wait_until) except -1 nogil
    cdef bint next_reply(self, Reply *reply) except? -1 nogil
    cdef int64_t tid_of_meta(self) noexcept nogil
    cdef int post(self, bytes csp, int64_t tid, bytes event) except -1
    cdef bytes call(self, bytes csp, bytes event, int64_t deadline)
    cdef int lost(self) except -1

cdef bint starts(Slice text, const char *prefix) noexcept nogil
