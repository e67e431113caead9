from libc.stdint cimport int64_t, uint32_t

from quiver_fast.amqp.data_plane cimport amqp_arrival_t, amqp_code, amqp_session_end_t
from quiver_fast.arrow.amqp.inflow cimport Inflow
from quiver_fast.arrow.amqp.receiver cimport Receiver
from quiver_fast.arrow.run.control cimport Control

cdef class Outcomes:
    # Which parts of the deliveries are to be released and rejected, in millionths, and what of a
    # delivery is due of each.
    cdef int64_t release
    cdef int64_t reject
    cdef int64_t release_due
    cdef int64_t reject_due
    # It is told of the rejected ones, of which there are no records.
    cdef Control control

    cdef amqp_code next(self) noexcept nogil

cdef class ShapedReceiver(Receiver):
    # Of all receivers of the process; None for accepting everything.
    cdef Outcomes outcomes
    cdef readonly int64_t released
    cdef readonly int64_t rejected
    # Work on each message, and times of receiving and of pausing, in nanoseconds; 0 for none.
    cdef int64_t delay
    cdef int64_t receiving
    cdef int64_t pausing
    cdef bint is_paused
    # When to look again at what waits, if nothing wakes us before.
    cdef int64_t next_step
    # A message is taken and not answered yet: until when it is worked on, and its delivery.
    cdef bint is_busy
    cdef int64_t busy_until
    cdef bint is_owed
    cdef amqp_session_end_t *owed_session
    cdef uint32_t owed_id
    cdef amqp_code owed_code

    cdef amqp_code choose(
        self, Inflow *flow, const amqp_arrival_t *arrival) except? amqp_code.AMQP_CODE_NONE nogil
    cdef int step(self, int64_t now) except -1 nogil
    cdef int follow_pauses(self, int64_t now) noexcept nogil
    cdef int answer_later(self, const amqp_arrival_t *arrival, amqp_code code) except -1 nogil
    cdef int finish_work(self) except -1 nogil
