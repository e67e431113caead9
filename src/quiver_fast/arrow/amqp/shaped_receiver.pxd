from libc.stdint cimport int64_t, uint32_t

from quiver_fast.amqp.data_plane cimport (
    amqp_arrival_t, amqp_bytes_t, amqp_code, amqp_session_end_t,
)
from quiver_fast.arrow.amqp.incoming cimport Inflow
from quiver_fast.arrow.amqp.receiver cimport Receiver
from quiver_fast.arrow.run.control cimport Control

cdef class Outcomes:
    # The share of each outcome, in millionths, and the part of a delivery that is due.
    cdef amqp_code[3] codes
    cdef int64_t[3] shares
    cdef int64_t[3] due
    # A modified message counts for the goal: it does not come again.
    cdef bint ends_modified
    # The state *modified* with its fields.
    cdef bytes state
    # It reports rejected messages to the wrapper: they have no records.
    cdef Control control

    cdef amqp_code next(self) noexcept nogil
    cdef int take_back(self, amqp_code code) noexcept nogil
    cdef bint ends(self, amqp_code code) noexcept nogil


cdef class ShapedReceiver(Receiver):
    # Shared by all receivers of the process; None to accept all messages.
    cdef Outcomes outcomes
    cdef int64_t released
    cdef int64_t rejected
    cdef int64_t modified
    # The state of modified messages: bytes of `outcomes`.
    cdef amqp_bytes_t modified_state
    # Refused messages that count for the goal.
    cdef int64_t ended
    # Nanoseconds of work on a message, of receiving before a pause, of a pause; 0 for none.
    cdef int64_t delay
    cdef int64_t receiving
    cdef int64_t pausing
    cdef bint is_paused
    # When the next work or pause begins or ends (monotonic ns).
    cdef int64_t next_step
    # The message that is worked on: until when, and its delivery, if that is not settled.
    cdef bint is_busy
    cdef int64_t busy_until
    cdef bint is_owed
    cdef amqp_session_end_t *owed_session
    cdef uint32_t owed_id
    cdef amqp_code owed_code

    cdef int unchoose(self) noexcept nogil
    cdef int count(self, amqp_code code, int one) noexcept nogil
    cdef int answer_modified(self) except -1 nogil
    cdef int step(self, int64_t now) except -1 nogil
    cdef int follow_pauses(self, int64_t now) noexcept nogil
    cdef amqp_code choose(
        self, Inflow *flow, const amqp_arrival_t *arrival) except? amqp_code.AMQP_CODE_NONE nogil
    cdef int answer_later(self, const amqp_arrival_t *arrival, amqp_code code) except -1 nogil
    cdef int finish_work(self) except -1 nogil
