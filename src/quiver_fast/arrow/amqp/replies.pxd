from libc.stdint cimport int64_t, uint8_t

from quiver_fast.amqp.data_plane cimport amqp_bytes_t, amqp_value_t
from quiver_fast.records.log_histogram cimport LogHistogram

# The parts of a request or a reply that the other side needs; a start of NULL is a missing one.
cdef struct Letter:
    # The message-id with its constructor, and the address that the reply goes to.
    amqp_bytes_t id
    amqp_bytes_t reply_to
    amqp_value_t correlation
    # When the responder sent the reply, and when it took the request; -1 where it does not say.
    int64_t send_time
    int64_t receive_time

# Read the first bytes of a message; return whether they have properties.
cdef bint read_letter(const uint8_t *data, size_t size, Letter *letter) noexcept nogil

cdef enum Verdict:
    IN_TIME
    LATE
    DUPLICATE
    FOREIGN


cdef class Replies:
    # In ticks of the run's unit.
    cdef readonly int64_t timeout
    cdef int64_t[4] verdicts
    cdef int64_t timed_out
    cdef LogHistogram back
    cdef LogHistogram work

    cdef int count(self, Verdict verdict, const Letter *letter, int64_t now) noexcept nogil


cdef class Requests:
    cdef Replies replies
    # Of each request that may be answered in time: when it was due; of an answered one ANSWERED.
    cdef int64_t *due
    cdef int64_t room
    # The numbers of the first of them and of the last; no request has number 0.
    cdef int64_t oldest
    cdef int64_t newest
    # Of those, how many have no reply.
    cdef int64_t waiting
    # A bit for each request that has had a reply.
    cdef uint8_t *answered
    cdef int64_t bits

    cdef int add(self, int64_t due) except -1 nogil
    cdef int make_room(self) except -1 nogil
    cdef int expire(self, int64_t now) noexcept nogil
    cdef Verdict answer(self, int64_t number, int64_t now) noexcept nogil
