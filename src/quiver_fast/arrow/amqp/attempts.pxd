from libc.stdint cimport int64_t, uint32_t

from quiver_fast.amqp.data_plane cimport amqp_link_end_t
from quiver_fast.arrow.amqp.connection cimport Connection
from quiver_fast.loop.reactor cimport Watch
from quiver_fast.proton.libproton cimport pn_link_t, pn_session_t

# The steps of an attempt, in their order.
cdef enum Step:
    STEP_TCP
    STEP_TLS
    STEP_SASL
    STEP_OPEN
    STEP_BEGIN
    STEP_ATTACH
    STEP_MESSAGE
    STEP_CLOSE
    STEP_COUNT

# An attempt's place in a heap. `place` is the first field: the heap has its address.
cdef struct Tick:
    uint32_t place
    void *owner

cdef class Attempt:
    # Attempts may share the connection; then only one of them has its socket.
    cdef Connection connection
    cdef object sock
    cdef Watch watch
    # When its idle time-outs are due; for a loop that keeps connections.
    cdef Tick tick
    # epoll reports when the socket has room.
    cdef bint awaits_room
    # Monotonic ns: when the attempt was due, when its present step began, when it has failed.
    cdef int64_t due
    cdef int64_t since
    cdef int64_t deadline
    cdef int step
    # Nanoseconds that each step took; -1 for a step that the attempt did not have.
    cdef int64_t[8] spent
    cdef pn_session_t *session
    cdef pn_link_t *link
    cdef amqp_link_end_t *end
    cdef uint32_t delivery_id
    # The message was sent; it has an outcome; why it was not accepted.
    cdef bint is_sent
    cdef bint is_settled
    cdef str refusal

cdef class Attempts:
    cdef int epoll
    cdef object family
    cdef object address
    # The host and port, for messages.
    cdef str place
    cdef object make_connection
    cdef object is_stopped
    cdef int64_t patience
    # Attempts that have begun and not ended, the oldest first.
    cdef readonly dict pending
    cdef readonly dict[str, int] reasons
    cdef readonly int64_t failed

    cdef Attempt connect(self, int64_t due)
    cdef int poll(self, int64_t until) except -1
    cdef int serve(self, Attempt one) except -1
    cdef int open_connection(self, Attempt one) except -1
    cdef int exchange(self, Connection connection) except -1
    cdef int flush(self, Attempt one) except -1
    cdef int advance(self, Attempt one) except -1
    cdef bint has_passed(self, Attempt one) except -1
    cdef int judge_times(self, int64_t now) except -1
    cdef int fail(self, Attempt one, object error) except -1
    cdef int count_reason(self, dict reasons, Attempt one, object error) except -1
    cdef int release(self, Attempt one) except -1
    cdef int take_bytes(self, Attempt one) except -1
    cdef int begin_step(self, Attempt one) except -1
    cdef int take_outcome(self, Connection connection) except -1
    cdef int succeed(self, Attempt one) except -1
