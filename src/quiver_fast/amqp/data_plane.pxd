# The data plane of a connection; plane.h and the files that it includes describe each call.
#
# All modules share one C library; inline functions are compiled into their callers.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from quiver_fast.amqp.tls cimport iovec

cdef extern from "constructors.h" nogil:
    enum:
        DESCRIBED
        NULL_
        TRUE_
        FALSE_
        UINT0
        ULONG0
        LIST0
        UBYTE
        SMALL_UINT
        SMALL_ULONG
        SMALL_LONG
        BOOLEAN
        UINT
        ULONG
        LONG
        TIMESTAMP
        BINARY8
        STRING8
        SYMBOL8
        BINARY32
        STRING32
        SYMBOL32
        LIST8
        LIST32
        MAP8
        MAP32
        ARRAY8

cdef extern from "values.h" nogil:
    ctypedef struct amqp_bytes_t:
        const uint8_t *start
        size_t size

    enum amqp_fault:
        AMQP_FINE
        AMQP_MORE
        AMQP_DECODE_ERROR

    ctypedef struct amqp_reader_t:
        const uint8_t *at
        const uint8_t *end
        amqp_fault fault

    ctypedef struct amqp_fields_t:
        amqp_reader_t inside "in"
        uint32_t left

    ctypedef struct amqp_value_t:
        uint8_t constructor
        amqp_bytes_t content

    enum amqp_section:
        AMQP_SECTION_NONE
        AMQP_SECTION_HEADER
        AMQP_SECTION_DELIVERY_ANNOTATIONS
        AMQP_SECTION_MESSAGE_ANNOTATIONS
        AMQP_SECTION_PROPERTIES
        AMQP_SECTION_APPLICATION_PROPERTIES
        AMQP_SECTION_DATA
        AMQP_SECTION_SEQUENCE
        AMQP_SECTION_VALUE
        AMQP_SECTION_FOOTER

    amqp_reader_t amqp_reader(const uint8_t *start, size_t size)

    enum amqp_code:
        AMQP_CODE_NONE
        AMQP_CODE_OPEN
        AMQP_CODE_ATTACH
        AMQP_CODE_RECEIVED
        AMQP_CODE_ACCEPTED
        AMQP_CODE_REJECTED
        AMQP_CODE_RELEASED
        AMQP_CODE_MODIFIED
        AMQP_CODE_DECLARE
        AMQP_CODE_DISCHARGE
        AMQP_CODE_DECLARED
        AMQP_CODE_TRANSACTIONAL

    amqp_code amqp_read_descriptor(amqp_reader_t *reader)
    amqp_section amqp_read_section(amqp_reader_t *reader)
    amqp_bytes_t amqp_read_value(amqp_reader_t *reader)
    bint amqp_read_bare(
        amqp_reader_t *reader, uint8_t constructor, amqp_value_t *value)
    bint amqp_read_content(amqp_reader_t *reader, amqp_value_t *value)
    amqp_fields_t amqp_read_list(amqp_reader_t *reader)
    amqp_fields_t amqp_read_map(amqp_reader_t *reader)

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
        bint delivery_failed
        bint undeliverable_here
        amqp_bytes_t annotations

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

    int amqp_read_state(amqp_bytes_t encoded, amqp_state_t *state)

cdef extern from "frames_out.h" nogil:
    const int AMQP_FRAME_ROOM
    enum:
        AMQP_TXN_ID_MAX
        AMQP_STATE_ROOM
    uint8_t *amqp_write_transfer(uint8_t *out, uint16_t channel, const amqp_transfer_t *transfer)
    uint8_t *amqp_write_state(uint8_t *out, const amqp_state_t *state)

cdef extern from "session.h" nogil:
    ctypedef struct amqp_session_t:
        uint32_t next_outgoing_id
        uint32_t next_delivery_id
        uint32_t incoming_window
        uint32_t remote_incoming_window

    ctypedef struct amqp_link_t:
        uint32_t delivery_count
        uint32_t credit
        uint32_t drained
        bint drain

    bint amqp_sender_drained(amqp_link_t *link)

cdef extern from "settlement.h" nogil:
    ctypedef struct amqp_unsettled_t:
        uint32_t oldest
        uint32_t next

    ctypedef struct amqp_run_t:
        uint32_t first
        uint32_t last
        amqp_code code
        bint settled

    bint amqp_unsettled_init(
        amqp_unsettled_t *unsettled, uint32_t first_id, uint32_t capacity, uint32_t limit)
    void amqp_unsettled_free(amqp_unsettled_t *unsettled)
    bint amqp_unsettled_add(amqp_unsettled_t *unsettled, bint settled)
    uint32_t amqp_unsettled_add_all(amqp_unsettled_t *unsettled, uint32_t count)
    bint amqp_unsettled_clip(const amqp_unsettled_t *unsettled, uint32_t *first, uint32_t *last)
    bint amqp_unsettled_settle(amqp_unsettled_t *unsettled, uint32_t id)
    uint32_t amqp_unsettled_settle_all(amqp_unsettled_t *unsettled, uint32_t first, uint32_t last)
    bint amqp_run_add(amqp_run_t *run, uint32_t id, amqp_code code, bint settled)

cdef extern from "stamp.h" nogil:
    const int AMQP_STAMP_TAG

    ctypedef struct amqp_stamp_t:
        uint8_t *frame
        size_t size

    void amqp_stamp_number(const amqp_stamp_t *stamp, uint32_t delivery_id, uint64_t sequence)
    void amqp_stamp_lay(
        amqp_stamp_t *stamp, uint8_t *payload, size_t size, uint16_t channel, uint32_t handle,
        bint settled)

cdef extern from "output.h" nogil:
    ctypedef struct amqp_hold_t:
        uint32_t users
        void (*release)(amqp_hold_t *hold) noexcept nogil

    ctypedef struct amqp_output_t:
        uint8_t *buffer
        size_t capacity

    amqp_hold_t *AMQP_LENT
    ctypedef ssize_t (*amqp_sink_t)(void *to, const iovec *parts, int count)

    ssize_t amqp_send(void *to, const iovec *parts, int count)
    size_t amqp_output_waiting(const amqp_output_t *output)
    void amqp_output_add(amqp_output_t *output, const uint8_t *end)
    uint8_t *amqp_output_room(amqp_output_t *output, size_t size)
    bint amqp_output_refer(amqp_output_t *output, amqp_bytes_t payload, amqp_hold_t *hold)
    int amqp_output_write(amqp_output_t *output, amqp_sink_t sink, void *to)
    ctypedef struct amqp_buffers_t:
        size_t count

    void amqp_output_take_buffer(amqp_output_t *output, amqp_buffers_t *buffers)
    void amqp_output_give_buffer(amqp_output_t *output, amqp_buffers_t *buffers)
    void amqp_buffers_free(amqp_buffers_t *buffers)
    bint amqp_output_keep(amqp_output_t *output, const amqp_hold_t *hold)
    void amqp_output_clear(amqp_output_t *output)

cdef extern from "input.h" nogil:
    const int AMQP_INPUT_END
    const int AMQP_INPUT_AGAIN

    ctypedef struct amqp_input_t:
        uint8_t *buffer
        size_t capacity
        size_t start "from"
        size_t to

    ctypedef ssize_t (*amqp_source_t)(void *origin, void *buffer, size_t size)

    ssize_t amqp_receive(void *origin, void *buffer, size_t size)

cdef extern from "endpoints.h" nogil:
    enum:
        AMQP_OURS
        AMQP_THEIRS

    ctypedef struct amqp_opened_t:
        bint seen
        bint unfit
        uint32_t max_frame_size
        uint16_t channel_max
        uint32_t idle_timeout

    enum amqp_phase:
        AMQP_BEFORE
        AMQP_ACTIVE

    ctypedef struct amqp_session_end_t:
        amqp_session_end_t *next
        amqp_link_end_t *links
        amqp_phase[2] phase
        uint16_t[2] channel
        uint32_t[2] handle_max
        uint32_t[2] attached
        uint32_t window
        amqp_session_t counts
        void *user

    ctypedef struct amqp_link_end_t:
        amqp_session_end_t *session
        uint8_t *name
        size_t name_size
        amqp_role role
        bint unfit
        bint displaced
        amqp_bytes_t default_outcome
        amqp_phase[2] phase
        uint32_t[2] handle
        uint64_t[2] max_message_size
        const char *flaw
        amqp_link_t counts
        size_t attach_size
        size_t values
        void *user

    ctypedef struct amqp_endpoints_t:
        amqp_opened_t[2] opened
        bint takes_refusal
        amqp_session_end_t *sessions
        amqp_link_end_t *attached
        size_t held

    amqp_link_end_t *amqp_link_end_before(const amqp_link_end_t *link)
    amqp_link_end_t *amqp_session_link(
        const amqp_session_end_t *session, const char *name, size_t size, amqp_role role)
    void amqp_link_end_hold(amqp_endpoints_t *endpoints, amqp_link_end_t *link, size_t values)
    void amqp_link_end_release(amqp_endpoints_t *endpoints, amqp_link_end_t *link)
    void amqp_session_end_release(amqp_endpoints_t *endpoints, amqp_session_end_t *session)

cdef extern from "plane.h" nogil:
    enum amqp_event:
        AMQP_NOTHING
        AMQP_ARRIVAL
        AMQP_OUTCOME
        AMQP_CREDIT
        AMQP_FOR_ENGINE
        AMQP_REFUSED
        AMQP_NO_MEMORY
        AMQP_DROPPED
        AMQP_ENDING

    enum amqp_extent:
        AMQP_OF_LINK
        AMQP_OF_SESSION

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
        uint32_t max_frame_size
        bint lenient
        bint demands_sasl
        bint held
        amqp_code shortened
        bint unfit
        amqp_input_t input
        amqp_output_t output
        amqp_endpoints_t endpoints
        amqp_arrival_t arrival
        amqp_bytes_t lost
        amqp_disposition_t disposition
        amqp_session_end_t *session
        amqp_link_end_t *link
        amqp_bytes_t control
        amqp_refusal_t refusal

    void amqp_plane_init(amqp_plane_t *plane, uint32_t max_frame_size, uint64_t seed)
    void amqp_plane_free(amqp_plane_t *plane)
    void amqp_plane_secure(amqp_plane_t *plane)
    amqp_event amqp_plane_next(amqp_plane_t *plane)
    ssize_t amqp_plane_fill(amqp_plane_t *plane, amqp_source_t source, void *origin)
    amqp_bytes_t amqp_plane_rest(const amqp_plane_t *plane)
    bint amqp_plane_drain(amqp_plane_t *plane, amqp_bytes_t bytes)
    bint amqp_plane_flow(
        amqp_plane_t *plane, amqp_session_end_t *session, amqp_link_end_t *link, bint echo)
    bint amqp_plane_credit(amqp_plane_t *plane, amqp_link_end_t *link, uint32_t more, bint drain)
    bint amqp_plane_answer(
        amqp_plane_t *plane, amqp_session_end_t *session, const amqp_disposition_t *disposition)
    bint amqp_plane_answer_run(amqp_plane_t *plane, amqp_session_end_t *session, amqp_run_t *run)
    bint amqp_plane_beat(amqp_plane_t *plane)

cdef extern from "deliveries.h" nogil:
    ctypedef struct amqp_encoded_state_t:
        size_t size

    ctypedef struct amqp_spares_t:
        uint32_t count

    ctypedef struct amqp_deliveries_t:
        amqp_plane_t *plane
        amqp_spares_t *spares
        bint failed

    ctypedef struct amqp_register_t:
        uint32_t count

    ctypedef struct amqp_session_deliveries_t:
        amqp_session_end_t *end
        amqp_register_t[2] registers
        size_t unread

    ctypedef struct amqp_link_deliveries_t:
        amqp_deliveries_t *all
        amqp_session_deliveries_t *session
        amqp_link_end_t *end
        amqp_delivery_t *first
        amqp_delivery_t *current
        uint32_t untaken

    ctypedef struct amqp_delivery_t:
        amqp_link_deliveries_t *link
        amqp_delivery_t *next
        void *context
        uint32_t id
        uint32_t format
        bint partial
        bint aborted
        amqp_code code
        bint settled_by_peer
        amqp_bytes_t peer_state
        amqp_encoded_state_t our_state
        size_t pending
        const uint8_t *at
        size_t run

    enum:
        AMQP_LEAST_CHUNK

    ctypedef struct amqp_parts_t:
        amqp_bytes_t lead
        amqp_bytes_t rest
        amqp_hold_t *hold

    bint amqp_delivery_is_fresh(const amqp_delivery_t *delivery)
    bint amqp_delivery_may_begin(const amqp_link_deliveries_t *link)
    bint amqp_delivery_may_go(const amqp_delivery_t *delivery)
    void amqp_spares_free(amqp_spares_t *spares)
    void amqp_deliveries_free(amqp_deliveries_t *deliveries)
    void amqp_deliveries_tell(amqp_deliveries_t *deliveries)
    void amqp_deliveries_settle(
        amqp_deliveries_t *deliveries, const amqp_link_end_t *end, uint32_t first, uint32_t last,
        amqp_code code)
    void amqp_session_deliveries_free(amqp_session_deliveries_t *session)
    void amqp_session_deliveries_catch_up(amqp_session_deliveries_t *session)
    void amqp_walk(
        amqp_session_deliveries_t *session, amqp_role role, uint32_t first, uint32_t last)
    bint amqp_walk_seek(amqp_session_deliveries_t *session)
    amqp_delivery_t *amqp_walk_next(amqp_session_deliveries_t *session)
    const amqp_delivery_t *amqp_walk_later(
        const amqp_session_deliveries_t *session, const amqp_delivery_t *delivery, uint32_t steps)
    void amqp_link_deliveries_drop(amqp_link_deliveries_t *link)
    bint amqp_delivery_arrive(amqp_link_deliveries_t *link, const amqp_arrival_t *arrival)
    bint amqp_delivery_keep(amqp_link_deliveries_t *link)
    void amqp_delivery_take(amqp_delivery_t *delivery, size_t size)
    size_t amqp_delivery_read(amqp_delivery_t *delivery, void *out, size_t size)
    void amqp_delivery_advance(amqp_delivery_t *delivery)
    bint amqp_delivery_keep_said(amqp_delivery_t *delivery)
    amqp_delivery_t *amqp_delivery_begin(amqp_link_deliveries_t *link)
    size_t amqp_delivery_send(
        amqp_delivery_t *delivery, amqp_bytes_t tag, const amqp_parts_t *parts, bint last,
        bint settled)
    amqp_delivery_t *amqp_delivery_send_whole(
        amqp_link_deliveries_t *link, amqp_bytes_t tag, amqp_bytes_t payload, amqp_hold_t *hold,
        bint settled)
    void amqp_delivery_abort(amqp_delivery_t *delivery)
    void amqp_delivery_say(amqp_delivery_t *delivery, amqp_code code)
    void amqp_delivery_say_modified(amqp_delivery_t *delivery, bint failed, bint undeliverable)
    void amqp_delivery_say_rejected(
        amqp_delivery_t *delivery, const void *id, const char *condition, const char *description)
    void amqp_delivery_say_declared(amqp_delivery_t *delivery, const void *id)
    void amqp_delivery_say_enlisted(amqp_delivery_t *delivery, const void *id, amqp_code outcome)
    void amqp_delivery_say_as(amqp_delivery_t *delivery, amqp_bytes_t state)
    void amqp_delivery_tell(amqp_delivery_t *delivery)
    void amqp_delivery_settle(amqp_delivery_t *delivery)
    void amqp_delivery_drop(amqp_delivery_t *delivery)

cdef extern from "timers.h" nogil:
    ctypedef struct amqp_timers_t:
        int64_t patience
        int64_t period
        int64_t heard
        int64_t spoken

    void amqp_timers_init(amqp_timers_t *timers, uint32_t patience_ms, int64_t now)
    void amqp_timers_take_open(amqp_timers_t *timers, uint32_t idle_timeout_ms)
    bint amqp_timers_is_silent(const amqp_timers_t *timers, int64_t now)
    bint amqp_timers_owes(const amqp_timers_t *timers, int64_t now)
    int64_t amqp_timers_next(const amqp_timers_t *timers)

cdef extern from "wait.h" nogil:
    ctypedef struct amqp_wait_t:
        pass

    void amqp_wait_init(amqp_wait_t *wait, bint allowed)
    int64_t amqp_wait_span(amqp_wait_t *wait)
    void amqp_wait_paid(amqp_wait_t *wait, bint paid)
    void amqp_wait_gave_way(amqp_wait_t *wait)
    void amqp_wait_yield()
