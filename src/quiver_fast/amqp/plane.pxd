# The data plane of a connection; plane.h and the files that it names say what each call does.
#
# Inline functions of C are compiled into who calls them. The others are in this module alone.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from quiver_fast.amqp.tls cimport iovec

cdef extern from "frames_out.h" nogil:
    const int AMQP_FRAME_ROOM
    const int AMQP_STATE_ROOM

cdef extern from "values.h" nogil:
    ctypedef struct amqp_bytes_t:
        const uint8_t *start
        size_t size

    enum amqp_code:
        AMQP_CODE_NONE
        AMQP_CODE_RECEIVED
        AMQP_CODE_ACCEPTED
        AMQP_CODE_REJECTED
        AMQP_CODE_RELEASED
        AMQP_CODE_MODIFIED
        AMQP_CODE_DECLARED
        AMQP_CODE_TRANSACTIONAL

cdef extern from "frames.h" nogil:
    enum amqp_role:
        AMQP_SENDER
        AMQP_RECEIVER

    ctypedef struct amqp_state_t:
        amqp_code code
        amqp_code outcome
        amqp_bytes_t encoded
        amqp_bytes_t txn_id
        amqp_bytes_t condition
        amqp_bytes_t description

    ctypedef struct amqp_transfer_t:
        uint32_t handle
        uint32_t delivery_id
        uint32_t message_format
        bint has_delivery_id
        bint has_message_format
        bint has_settled
        bint settled
        bint more
        bint aborted
        amqp_bytes_t tag
        amqp_bytes_t state
        amqp_bytes_t payload

    ctypedef struct amqp_disposition_t:
        amqp_role role
        uint32_t first
        uint32_t last
        bint settled
        amqp_state_t state

cdef extern from "session.h" nogil:
    ctypedef struct amqp_session_t:
        uint32_t next_outgoing_id
        uint32_t remote_incoming_window

    ctypedef struct amqp_link_t:
        uint32_t delivery_count
        uint32_t credit
        uint32_t drained
        bint drain

cdef extern from "settlement.h" nogil:
    ctypedef struct amqp_unsettled_t:
        uint32_t oldest
        uint32_t next

    ctypedef struct amqp_run_t:
        uint32_t first
        uint32_t last
        amqp_code code
        bint settled

cdef extern from "output.h" nogil:
    ctypedef struct amqp_hold_t:
        pass

    ctypedef struct amqp_output_t:
        pass

    ctypedef ssize_t (*amqp_sink_t)(void *to, const iovec *parts, int count)
    size_t amqp_output_waiting(const amqp_output_t *output)
    void amqp_output_add(amqp_output_t *output, const uint8_t *end)

cdef extern from "input.h" nogil:
    ctypedef ssize_t (*amqp_source_t)(void *origin, void *buffer, size_t size)

cdef extern from "endpoints.h" nogil:
    enum amqp_side:
        AMQP_OURS
        AMQP_THEIRS

    ctypedef struct amqp_opened_t:
        bint seen
        uint32_t max_frame_size
        bint has_idle_timeout
        uint32_t idle_timeout

    ctypedef struct amqp_session_end_t:
        uint16_t[2] channel
        uint32_t window
        amqp_session_t counts

    ctypedef struct amqp_link_end_t:
        amqp_session_end_t *session
        uint32_t[2] handle
        uint64_t[2] max_message_size
        amqp_link_t counts
        void *user

    ctypedef struct amqp_endpoints_t:
        amqp_opened_t[2] opened
        amqp_session_end_t *sessions

cdef extern from "plane.h" nogil:
    enum amqp_event:
        AMQP_NOTHING
        AMQP_ARRIVAL
        AMQP_OUTCOME
        AMQP_CREDIT
        AMQP_FOR_ENGINE
        AMQP_REFUSED
        AMQP_NO_MEMORY

    enum amqp_extent:
        AMQP_OF_LINK
        AMQP_OF_SESSION
        AMQP_OF_CONNECTION

    ctypedef struct amqp_refusal_t:
        amqp_extent extent
        const char *condition
        const char *why

    ctypedef struct amqp_arrival_t:
        amqp_link_end_t *link
        uint32_t delivery_id
        uint32_t message_format
        bint first
        bint more
        bint aborted
        bint settled
        amqp_bytes_t tag
        amqp_bytes_t state
        amqp_bytes_t payload

    ctypedef struct amqp_plane_t:
        amqp_output_t output
        amqp_endpoints_t endpoints
        amqp_arrival_t arrival
        amqp_disposition_t disposition
        amqp_session_end_t *session
        amqp_link_end_t *link
        amqp_bytes_t control
        amqp_refusal_t refusal

cdef extern from "timers.h" nogil:
    ctypedef struct amqp_timers_t:
        int64_t heard
        int64_t spoken

cdef extern from "wait.h" nogil:
    ctypedef struct amqp_wait_t:
        bint may_spin
