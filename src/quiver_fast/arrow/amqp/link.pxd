from libc.stdint cimport int64_t

from quiver_fast.amqp.data_plane cimport amqp_arrival_t, amqp_disposition_t, amqp_link_end_t
from quiver_fast.arrow.amqp.connection cimport Connection
from quiver_fast.arrow.amqp.transaction cimport Coordinator
from quiver_fast.arrow.run.course cimport Course
from quiver_fast.proton.libproton cimport pn_condition_t, pn_link_t, pn_session_t, pn_terminus_t
from quiver_fast.records.writer cimport RecordWriter

cdef class Endpoint:
    cdef Course course
    cdef RecordWriter writer
    cdef Connection connection
    # Messages of a transaction; 0 and None without transactions.
    cdef int64_t batch_size
    cdef Coordinator coordinator
    cdef pn_session_t *session
    cdef pn_link_t *link
    # The data plane's structure of the link; NULL until it is attached.
    cdef amqp_link_end_t *end
    # Transactions that were discharged over earlier connections.
    cdef int64_t discharged_before
    cdef bint is_sender
    # The peer's attach has no address: a refusal, if a detach follows.
    cdef bint is_doubtful
    cdef str address
    cdef str name

    # Other ends have sessions of their own on the same connection.
    cdef bint is_one_of_many
    # Its number among the ends of the process.
    cdef readonly int64_t number

    cdef int drop_coordinator(self) noexcept
    cdef bint is_ended(self) noexcept nogil
    cdef bint is_over_without(self, int64_t now) noexcept nogil
    cdef int loop(self) except -1 nogil
    cdef int take_input(self) except -1 nogil
    cdef int64_t turn(self, int64_t now) except? -1 nogil
    cdef int await_input(self, int64_t wake) except -1 nogil
    cdef int take_disposition(self, const amqp_disposition_t *disposition) except -1 nogil
    cdef int take_reply(self, const amqp_arrival_t *arrival) except -1 nogil
    cdef int begin(self) noexcept nogil
    cdef int confirm_attach(self) except -1
    cdef bint find_session(self) except -1
    cdef bint find_link(self) except -1
    cdef void *user(self) noexcept
    cdef int open_session(self, int64_t deadline) except -1
    cdef int advance(self, int64_t deadline, str purpose) except -1
    cdef bint ended_by_reason(self) except? -1 nogil
    cdef int await_session(self, int64_t deadline) except -1
    cdef int attach_actively(self, int64_t deadline) except -1
    cdef int attach_passively(self, int64_t deadline) except -1
    cdef int answer(self, pn_link_t *link) except -1
    cdef int refuse(self, pn_link_t *link, const char *name, const char *why) noexcept
    cdef bint usable(self) noexcept nogil
    cdef bint is_refusal(self) noexcept nogil
    cdef bint closed_by_peer(self) except? -1 nogil
    cdef int excuse_lost_connection(self, bint closed) except -1 nogil
    cdef int fail_with(self, pn_condition_t *condition, str what) except -1


cdef bint has_ended(Endpoint end, pn_link_t *link) except? -1 nogil
cdef int ask_for_filters(pn_terminus_t *source, bytes encoded) except -1
cdef int check_filters(Endpoint end, filters) except -1
