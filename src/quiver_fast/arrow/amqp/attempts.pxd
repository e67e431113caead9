from libc.stdint cimport int64_t, uint32_t

from quiver_fast.amqp.data_plane cimport amqp_link_end_t
from quiver_fast.arrow.amqp.connection cimport Connection
from quiver_fast.loop.reactor cimport Watch
from quiver_fast.proton.libproton cimport pn_link_t, pn_session_t

# What an attempt waits for, in this order.
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

# A place in a heap. It stands first: from it the heap's owner finds the attempt.
cdef struct Tick:
    uint32_t place
    void *owner

cdef class Attempt:
    # Its connection, which others may use as well, and the socket that is its own.
    cdef Connection connection
    cdef object sock
    cdef Watch watch
    # When its idle time-outs are to be looked at; for a loop that keeps connections.
    cdef Tick tick
    # The system tells when the socket has room.
    cdef bint awaits_room
    # Monotonic ns: when it was due, when its present step began, when its time is over.
    cdef int64_t due
    cdef int64_t since
    cdef int64_t deadline
    cdef int step
    # How long each step took, in ns; -1 for a step that it did not have.
    cdef int64_t[8] spent
    cdef pn_session_t *session
    cdef pn_link_t *link
    cdef amqp_link_end_t *end
    cdef uint32_t delivery_id
    # Its message is on its way, and has an outcome; and why it was not accepted.
    cdef bint is_sent
    cdef bint is_settled
    cdef str refusal

cdef class Attempts:
    cdef int epoll
    cdef object family
    cdef object address
    cdef object make_connection
    cdef object is_stopped
    cdef int64_t patience
    # All that are under way, the oldest first.
    cdef readonly dict pending
    cdef readonly dict reasons
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
