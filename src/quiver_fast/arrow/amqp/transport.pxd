from libc.stdint cimport int64_t, uint8_t, uint32_t

from quiver_fast.amqp.data_plane cimport (
    amqp_bytes_t, amqp_code, amqp_event, amqp_link_end_t, amqp_plane_t, amqp_role, amqp_run_t,
    amqp_session_end_t, amqp_timers_t, amqp_wait_t,
)
from quiver_fast.amqp.tls cimport tls_t
from quiver_fast.arrow.run.control cimport Control
from quiver_fast.proton.libproton cimport (
    pn_connection_driver_t, pn_connection_t, pn_link_t, pn_transport_t,
)

cdef class Transport:
    cdef pn_connection_driver_t driver
    cdef pn_connection_t *connection
    cdef pn_transport_t *transport
    cdef amqp_plane_t plane
    cdef amqp_timers_t timers
    cdef amqp_wait_t patience
    # Outcomes that are not sent yet: a range of ids of one session, and its transaction.
    cdef amqp_run_t run
    cdef amqp_session_end_t *run_session
    cdef amqp_bytes_t run_transaction
    cdef int fd
    # NULL where there is no TLS.
    cdef tls_t *tls
    # Nothing more is read: the peer sent FIN, the socket failed, or the engine has finished.
    cdef bint cut
    # All input was taken.
    cdef bint finished
    # The peer sent FIN.
    cdef bint hung_up
    # Nothing more can be written.
    cdef bint lost
    cdef int socket_error
    # The socket is full, and output is pending.
    cdef bint blocked
    # When it last became full, and when it last had room again (monotonic ns).
    cdef int64_t blocked_from
    cdef int64_t blocked_to
    # The peer's open, which has its idle time-out, was read.
    cdef bint knows_timeout
    # The peer was silent for longer than our idle time-out.
    cdef bint silent
    # The peer has sent bytes; the first of them.
    cdef bint heard
    cdef uint8_t first_byte
    cdef int64_t next_tick
    # Why an invalid frame ended the connection; None without one.
    cdef str broken
    cdef object sock
    # A message on the control socket ends a wait for the peer.
    cdef Control control
    # The object whose memory the output refers to.
    cdef object referred

    cdef amqp_event next_event(self) except? amqp_event.AMQP_NO_MEMORY nogil
    cdef bint handle_event(self, amqp_event event) except -1 nogil
    cdef int pump(self) except -1 nogil
    cdef int feed(self, amqp_bytes_t bytes) except -1 nogil
    cdef int drain(self) except -1 nogil
    cdef int fail_unfit(self) except -1 nogil
    cdef int finish_input(self) except -1 nogil
    cdef int refuse_frame(self) except -1
    cdef amqp_link_end_t *end_of(self, pn_link_t *link) except NULL
    cdef int accept(self, amqp_session_end_t *session, uint32_t id, amqp_code code) except -1 nogil
    cdef int send_outcomes(self) except -1 nogil
    cdef int send_transactional(self) except -1 nogil
    cdef int settle(
        self, amqp_session_end_t *session, uint32_t first, uint32_t last) except -1 nogil
    cdef int give_credit(self, amqp_link_end_t *end, uint32_t more, bint drain) except -1 nogil
    cdef int send_flow(self, amqp_session_end_t *session, amqp_link_end_t *end) except -1 nogil
    cdef size_t largest_frame(self) noexcept nogil
    cdef uint32_t transfer(
        self, amqp_link_end_t *end, amqp_bytes_t tag, amqp_bytes_t message,
        bint settled) except? 0 nogil

    cdef int exchange(self, int64_t wait_until) except -1 nogil
    cdef int exchange_awake(self, int64_t until) except -1 nogil
    cdef int exchange_spinning(self, int64_t wait_until) except -1 nogil
    cdef int spin(self) except -1 nogil
    cdef int write(self) except -1 nogil
    cdef int write_output(self) except -1 nogil
    cdef int note_written(self, int state) except -1 nogil
    cdef int read(self) noexcept nogil
    cdef int mark_lost(self, int error) noexcept nogil
    cdef int tick(self) except -1 nogil
    cdef int give_up_peer(self) except -1

cdef int no_memory() except -1 nogil
