"""The data plane of AMQP connections: the calls that other modules make without the GIL.

The C is in plane.h and the files that it names. It is compiled into this module alone, which
needs no engine: the tests drive it by itself.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from quiver_fast.amqp.tls cimport iovec

cdef extern from "plane.h" nogil:
    void c_plane_init "amqp_plane_init"(amqp_plane_t *plane, uint32_t max_frame_size, uint64_t seed)
    void c_plane_free "amqp_plane_free"(amqp_plane_t *plane)
    amqp_event c_plane_next "amqp_plane_next"(amqp_plane_t *plane)
    ssize_t c_plane_fill "amqp_plane_fill"(amqp_plane_t *plane, amqp_source_t source, void *origin)
    amqp_bytes_t c_plane_rest "amqp_plane_rest"(const amqp_plane_t *plane)
    size_t c_plane_whole "amqp_plane_whole"(amqp_bytes_t bytes)
    bint c_plane_drain "amqp_plane_drain"(amqp_plane_t *plane, amqp_bytes_t bytes)
    bint c_plane_flow "amqp_plane_flow"(
        amqp_plane_t *plane, amqp_session_end_t *session, amqp_link_end_t *link, bint echo)
    bint c_plane_credit "amqp_plane_credit"(
        amqp_plane_t *plane, amqp_link_end_t *link, uint32_t more, bint drain)
    bint c_plane_answer "amqp_plane_answer"(
        amqp_plane_t *plane, amqp_session_end_t *session, const amqp_disposition_t *disposition)
    bint c_plane_answer_run "amqp_plane_answer_run"(
        amqp_plane_t *plane, amqp_session_end_t *session, amqp_run_t *run)
    bint c_plane_beat "amqp_plane_beat"(amqp_plane_t *plane)

cdef extern from "input.h" nogil:
    ssize_t c_receive "amqp_receive"(void *origin, void *buffer, size_t size)

cdef extern from "output.h" nogil:
    ssize_t c_send "amqp_send"(void *to, const iovec *parts, int count)
    uint8_t *c_output_room "amqp_output_room"(amqp_output_t *output, size_t size)
    bint c_output_refer "amqp_output_refer"(
        amqp_output_t *output, amqp_bytes_t payload, amqp_hold_t *hold)
    int c_output_write "amqp_output_write"(amqp_output_t *output, amqp_sink_t sink, void *to)
    void c_output_clear "amqp_output_clear"(amqp_output_t *output)

cdef extern from "frames_out.h" nogil:
    uint8_t *c_write_transfer "amqp_write_transfer"(
        uint8_t *out, uint16_t channel, const amqp_transfer_t *transfer)
    uint8_t *c_write_state "amqp_write_state"(uint8_t *out, const amqp_state_t *state)

cdef extern from "values.h" nogil:
    amqp_code c_read_descriptor "amqp_read_descriptor"(amqp_reader_t *reader)
    amqp_section c_read_section "amqp_read_section"(amqp_reader_t *reader)
    amqp_bytes_t c_read_value "amqp_read_value"(amqp_reader_t *reader)
    bint c_read_content "amqp_read_content"(amqp_reader_t *reader, amqp_value_t *value)
    amqp_fields_t c_read_list "amqp_read_list"(amqp_reader_t *reader)
    amqp_fields_t c_read_map "amqp_read_map"(amqp_reader_t *reader)

cdef extern from "stamp.h" nogil:
    void c_stamp_lay "amqp_stamp_lay"(
        amqp_stamp_t *stamp, uint8_t *payload, size_t size, uint16_t channel, uint32_t handle,
        bint settled)

cdef extern from "endpoints.h" nogil:
    amqp_link_end_t *c_session_link "amqp_session_link"(
        const amqp_session_end_t *session, const char *name, size_t size, amqp_role role)
    void c_link_end_release "amqp_link_end_release"(
        amqp_endpoints_t *endpoints, amqp_link_end_t *link)
    void c_session_end_release "amqp_session_end_release"(
        amqp_endpoints_t *endpoints, amqp_session_end_t *session)

cdef extern from "session.h" nogil:
    bint c_sender_drained "amqp_sender_drained"(amqp_link_t *link)

cdef extern from "settlement.h" nogil:
    bint c_unsettled_init "amqp_unsettled_init"(
        amqp_unsettled_t *unsettled, uint32_t first_id, uint32_t capacity, uint32_t limit)
    void c_unsettled_free "amqp_unsettled_free"(amqp_unsettled_t *unsettled)
    bint c_unsettled_add "amqp_unsettled_add"(amqp_unsettled_t *unsettled, bint settled)
    uint32_t c_unsettled_add_all "amqp_unsettled_add_all"(
        amqp_unsettled_t *unsettled, uint32_t count)
    bint c_unsettled_clip "amqp_unsettled_clip"(
        const amqp_unsettled_t *unsettled, uint32_t *first, uint32_t *last)
    bint c_unsettled_settle "amqp_unsettled_settle"(amqp_unsettled_t *unsettled, uint32_t id)
    uint32_t c_unsettled_settle_all "amqp_unsettled_settle_all"(
        amqp_unsettled_t *unsettled, uint32_t first, uint32_t last)
    bint c_run_add "amqp_run_add"(amqp_run_t *run, uint32_t id, amqp_code code, bint settled)

cdef extern from "timers.h" nogil:
    void c_timers_init "amqp_timers_init"(amqp_timers_t *timers, uint32_t patience_ms, int64_t now)
    void c_timers_take_open "amqp_timers_take_open"(amqp_timers_t *timers, uint32_t idle_timeout_ms)
    bint c_timers_is_silent "amqp_timers_is_silent"(const amqp_timers_t *timers, int64_t now)
    bint c_timers_owes "amqp_timers_owes"(const amqp_timers_t *timers, int64_t now)
    int64_t c_timers_next "amqp_timers_next"(const amqp_timers_t *timers)

cdef extern from "frames.h" nogil:
    int c_read_state "amqp_read_state"(amqp_bytes_t encoded, amqp_state_t *state)

cdef extern from "deliveries.h" nogil:
    void c_deliveries_free "amqp_deliveries_free"(amqp_deliveries_t *deliveries)
    void c_deliveries_tell "amqp_deliveries_tell"(amqp_deliveries_t *deliveries)
    void c_deliveries_release "amqp_deliveries_release"(
        amqp_deliveries_t *deliveries, const amqp_link_end_t *end, uint32_t delivery_id)
    void c_deliveries_accept "amqp_deliveries_accept"(
        amqp_deliveries_t *deliveries, const amqp_link_end_t *end, uint32_t delivery_id)
    void c_session_deliveries_free "amqp_session_deliveries_free"(
        amqp_session_deliveries_t *session)
    void c_session_deliveries_catch_up "amqp_session_deliveries_catch_up"(
        amqp_session_deliveries_t *session)
    void c_walk "amqp_walk"(
        amqp_session_deliveries_t *session, amqp_role role, uint32_t first, uint32_t last)
    amqp_delivery_t *c_walk_next "amqp_walk_next"(amqp_session_deliveries_t *session)
    void c_link_deliveries_drop "amqp_link_deliveries_drop"(amqp_link_deliveries_t *link)
    bint c_delivery_arrive "amqp_delivery_arrive"(
        amqp_link_deliveries_t *link, const amqp_arrival_t *arrival)
    bint c_delivery_keep "amqp_delivery_keep"(amqp_link_deliveries_t *link)
    void c_delivery_take "amqp_delivery_take"(amqp_delivery_t *delivery, size_t size)
    size_t c_delivery_read "amqp_delivery_read"(amqp_delivery_t *delivery, void *out, size_t size)
    void c_delivery_advance "amqp_delivery_advance"(amqp_delivery_t *delivery)
    bint c_delivery_keep_said "amqp_delivery_keep_said"(amqp_delivery_t *delivery)
    amqp_delivery_t *c_delivery_begin "amqp_delivery_begin"(amqp_link_deliveries_t *link)
    size_t c_delivery_send "amqp_delivery_send"(
        amqp_delivery_t *delivery, amqp_bytes_t tag, const amqp_bytes_t *parts,
        bint last, bint settled)
    amqp_delivery_t *c_delivery_send_whole "amqp_delivery_send_whole"(
        amqp_link_deliveries_t *link, amqp_bytes_t tag, amqp_bytes_t payload, bint settled)
    void c_delivery_abort "amqp_delivery_abort"(amqp_delivery_t *delivery)
    void c_delivery_say "amqp_delivery_say"(amqp_delivery_t *delivery, amqp_code code)
    void c_delivery_say_modified "amqp_delivery_say_modified"(
        amqp_delivery_t *delivery, bint failed, bint undeliverable)
    void c_delivery_say_rejected "amqp_delivery_say_rejected"(
        amqp_delivery_t *delivery, const char *condition, const char *description)
    void c_delivery_say_declared "amqp_delivery_say_declared"(
        amqp_delivery_t *delivery, const void *id)
    void c_delivery_say_enlisted "amqp_delivery_say_enlisted"(
        amqp_delivery_t *delivery, const void *id, amqp_code outcome)
    void c_delivery_say_as "amqp_delivery_say_as"(amqp_delivery_t *delivery, amqp_bytes_t state)
    void c_delivery_tell "amqp_delivery_tell"(amqp_delivery_t *delivery)
    void c_delivery_settle "amqp_delivery_settle"(amqp_delivery_t *delivery)
    void c_delivery_drop "amqp_delivery_drop"(amqp_delivery_t *delivery)

cdef extern from "wait.h" nogil:
    void c_wait_init "amqp_wait_init"(amqp_wait_t *wait, bint allowed)
    int64_t c_wait_span "amqp_wait_span"(amqp_wait_t *wait)
    void c_wait_paid "amqp_wait_paid"(amqp_wait_t *wait, bint paid)
    void c_wait_gave_way "amqp_wait_gave_way"(amqp_wait_t *wait)
    void c_wait_yield "amqp_wait_yield"()


cdef void amqp_plane_init(
        amqp_plane_t *plane, uint32_t max_frame_size, uint64_t seed) noexcept nogil:
    c_plane_init(plane, max_frame_size, seed)


cdef void amqp_plane_free(amqp_plane_t *plane) noexcept nogil:
    c_plane_free(plane)


cdef amqp_event amqp_plane_next(amqp_plane_t *plane) noexcept nogil:
    return c_plane_next(plane)


cdef ssize_t amqp_plane_fill(
        amqp_plane_t *plane, amqp_source_t source, void *origin) noexcept nogil:
    return c_plane_fill(plane, source, origin)


cdef amqp_bytes_t amqp_plane_rest(const amqp_plane_t *plane) noexcept nogil:
    return c_plane_rest(plane)


cdef size_t amqp_plane_whole(amqp_bytes_t bytes) noexcept nogil:
    return c_plane_whole(bytes)


cdef bint amqp_plane_drain(amqp_plane_t *plane, amqp_bytes_t bytes) noexcept nogil:
    return c_plane_drain(plane, bytes)


cdef bint amqp_plane_flow(
        amqp_plane_t *plane, amqp_session_end_t *session, amqp_link_end_t *link,
        bint echo) noexcept nogil:
    return c_plane_flow(plane, session, link, echo)


cdef bint amqp_plane_credit(
        amqp_plane_t *plane, amqp_link_end_t *link, uint32_t more, bint drain) noexcept nogil:
    return c_plane_credit(plane, link, more, drain)


cdef bint amqp_plane_answer(
        amqp_plane_t *plane, amqp_session_end_t *session,
        const amqp_disposition_t *disposition) noexcept nogil:
    return c_plane_answer(plane, session, disposition)


cdef bint amqp_plane_answer_run(
        amqp_plane_t *plane, amqp_session_end_t *session, amqp_run_t *run) noexcept nogil:
    return c_plane_answer_run(plane, session, run)


cdef bint amqp_plane_beat(amqp_plane_t *plane) noexcept nogil:
    return c_plane_beat(plane)


cdef ssize_t amqp_receive(void *origin, void *buffer, size_t size) noexcept nogil:
    return c_receive(origin, buffer, size)


cdef ssize_t amqp_send(void *to, const iovec *parts, int count) noexcept nogil:
    return c_send(to, parts, count)


cdef uint8_t *amqp_output_room(amqp_output_t *output, size_t size) noexcept nogil:
    return c_output_room(output, size)


cdef bint amqp_output_refer(
        amqp_output_t *output, amqp_bytes_t payload, amqp_hold_t *hold) noexcept nogil:
    return c_output_refer(output, payload, hold)


cdef int amqp_output_write(amqp_output_t *output, amqp_sink_t sink, void *to) noexcept nogil:
    return c_output_write(output, sink, to)


cdef void amqp_output_clear(amqp_output_t *output) noexcept nogil:
    c_output_clear(output)


cdef uint8_t *amqp_write_transfer(
        uint8_t *out, uint16_t channel, const amqp_transfer_t *transfer) noexcept nogil:
    return c_write_transfer(out, channel, transfer)


cdef uint8_t *amqp_write_state(uint8_t *out, const amqp_state_t *state) noexcept nogil:
    return c_write_state(out, state)


cdef void amqp_stamp_lay(
        amqp_stamp_t *stamp, uint8_t *payload, size_t size, uint16_t channel, uint32_t handle,
        bint settled) noexcept nogil:
    c_stamp_lay(stamp, payload, size, channel, handle, settled)


cdef amqp_link_end_t *amqp_session_link(
        const amqp_session_end_t *session, const char *name, size_t size,
        amqp_role role) noexcept nogil:
    return c_session_link(session, name, size, role)


cdef void amqp_link_end_release(amqp_endpoints_t *endpoints, amqp_link_end_t *link) noexcept nogil:
    c_link_end_release(endpoints, link)


cdef void amqp_session_end_release(
        amqp_endpoints_t *endpoints, amqp_session_end_t *session) noexcept nogil:
    c_session_end_release(endpoints, session)


cdef bint amqp_sender_drained(amqp_link_t *link) noexcept nogil:
    return c_sender_drained(link)


cdef bint amqp_unsettled_init(
        amqp_unsettled_t *unsettled, uint32_t first_id, uint32_t capacity,
        uint32_t limit) noexcept nogil:
    return c_unsettled_init(unsettled, first_id, capacity, limit)


cdef void amqp_unsettled_free(amqp_unsettled_t *unsettled) noexcept nogil:
    c_unsettled_free(unsettled)


cdef bint amqp_unsettled_add(amqp_unsettled_t *unsettled, bint settled) noexcept nogil:
    return c_unsettled_add(unsettled, settled)


cdef uint32_t amqp_unsettled_add_all(amqp_unsettled_t *unsettled, uint32_t count) noexcept nogil:
    return c_unsettled_add_all(unsettled, count)


cdef bint amqp_unsettled_clip(
        const amqp_unsettled_t *unsettled, uint32_t *first, uint32_t *last) noexcept nogil:
    return c_unsettled_clip(unsettled, first, last)


cdef bint amqp_unsettled_settle(amqp_unsettled_t *unsettled, uint32_t id) noexcept nogil:
    return c_unsettled_settle(unsettled, id)


cdef uint32_t amqp_unsettled_settle_all(
        amqp_unsettled_t *unsettled, uint32_t first, uint32_t last) noexcept nogil:
    return c_unsettled_settle_all(unsettled, first, last)


cdef bint amqp_run_add(amqp_run_t *run, uint32_t id, amqp_code code, bint settled) noexcept nogil:
    return c_run_add(run, id, code, settled)


cdef void amqp_timers_init(
        amqp_timers_t *timers, uint32_t patience_ms, int64_t now) noexcept nogil:
    c_timers_init(timers, patience_ms, now)


cdef void amqp_timers_take_open(amqp_timers_t *timers, uint32_t idle_timeout_ms) noexcept nogil:
    c_timers_take_open(timers, idle_timeout_ms)


cdef bint amqp_timers_is_silent(const amqp_timers_t *timers, int64_t now) noexcept nogil:
    return c_timers_is_silent(timers, now)


cdef bint amqp_timers_owes(const amqp_timers_t *timers, int64_t now) noexcept nogil:
    return c_timers_owes(timers, now)


cdef int64_t amqp_timers_next(const amqp_timers_t *timers) noexcept nogil:
    return c_timers_next(timers)


cdef amqp_code amqp_read_descriptor(amqp_reader_t *reader) noexcept nogil:
    return c_read_descriptor(reader)


cdef amqp_section amqp_read_section(amqp_reader_t *reader) noexcept nogil:
    return c_read_section(reader)


cdef amqp_bytes_t amqp_read_value(amqp_reader_t *reader) noexcept nogil:
    return c_read_value(reader)


cdef bint amqp_read_content(amqp_reader_t *reader, amqp_value_t *value) noexcept nogil:
    return c_read_content(reader, value)


cdef amqp_fields_t amqp_read_list(amqp_reader_t *reader) noexcept nogil:
    return c_read_list(reader)


cdef amqp_fields_t amqp_read_map(amqp_reader_t *reader) noexcept nogil:
    return c_read_map(reader)


cdef int amqp_read_state(amqp_bytes_t encoded, amqp_state_t *state) noexcept nogil:
    return c_read_state(encoded, state)


cdef void amqp_deliveries_free(amqp_deliveries_t *deliveries) noexcept nogil:
    c_deliveries_free(deliveries)


cdef void amqp_deliveries_tell(amqp_deliveries_t *deliveries) noexcept nogil:
    c_deliveries_tell(deliveries)


cdef void amqp_deliveries_release(
        amqp_deliveries_t *deliveries, const amqp_link_end_t *end,
        uint32_t delivery_id) noexcept nogil:
    c_deliveries_release(deliveries, end, delivery_id)


cdef void amqp_deliveries_accept(
        amqp_deliveries_t *deliveries, const amqp_link_end_t *end,
        uint32_t delivery_id) noexcept nogil:
    c_deliveries_accept(deliveries, end, delivery_id)


cdef void amqp_session_deliveries_free(amqp_session_deliveries_t *session) noexcept nogil:
    c_session_deliveries_free(session)


cdef void amqp_session_deliveries_catch_up(amqp_session_deliveries_t *session) noexcept nogil:
    c_session_deliveries_catch_up(session)


cdef void amqp_walk(
        amqp_session_deliveries_t *session, amqp_role role, uint32_t first,
        uint32_t last) noexcept nogil:
    c_walk(session, role, first, last)


cdef amqp_delivery_t *amqp_walk_next(amqp_session_deliveries_t *session) noexcept nogil:
    return c_walk_next(session)


cdef void amqp_link_deliveries_drop(amqp_link_deliveries_t *link) noexcept nogil:
    c_link_deliveries_drop(link)


cdef bint amqp_delivery_arrive(
        amqp_link_deliveries_t *link, const amqp_arrival_t *arrival) noexcept nogil:
    return c_delivery_arrive(link, arrival)


cdef bint amqp_delivery_keep(amqp_link_deliveries_t *link) noexcept nogil:
    return c_delivery_keep(link)


cdef void amqp_delivery_take(amqp_delivery_t *delivery, size_t size) noexcept nogil:
    c_delivery_take(delivery, size)


cdef size_t amqp_delivery_read(amqp_delivery_t *delivery, void *out, size_t size) noexcept nogil:
    return c_delivery_read(delivery, out, size)


cdef void amqp_delivery_advance(amqp_delivery_t *delivery) noexcept nogil:
    c_delivery_advance(delivery)


cdef bint amqp_delivery_keep_said(amqp_delivery_t *delivery) noexcept nogil:
    return c_delivery_keep_said(delivery)


cdef amqp_delivery_t *amqp_delivery_begin(amqp_link_deliveries_t *link) noexcept nogil:
    return c_delivery_begin(link)


cdef size_t amqp_delivery_send(
        amqp_delivery_t *delivery, amqp_bytes_t tag, const amqp_bytes_t *parts,
        bint last, bint settled) noexcept nogil:
    return c_delivery_send(delivery, tag, parts, last, settled)


cdef amqp_delivery_t *amqp_delivery_send_whole(
        amqp_link_deliveries_t *link, amqp_bytes_t tag, amqp_bytes_t payload,
        bint settled) noexcept nogil:
    return c_delivery_send_whole(link, tag, payload, settled)


cdef void amqp_delivery_abort(amqp_delivery_t *delivery) noexcept nogil:
    c_delivery_abort(delivery)


cdef void amqp_delivery_say(amqp_delivery_t *delivery, amqp_code code) noexcept nogil:
    c_delivery_say(delivery, code)


cdef void amqp_delivery_say_modified(
        amqp_delivery_t *delivery, bint failed, bint undeliverable) noexcept nogil:
    c_delivery_say_modified(delivery, failed, undeliverable)


cdef void amqp_delivery_say_rejected(
        amqp_delivery_t *delivery, const char *condition, const char *description) noexcept nogil:
    c_delivery_say_rejected(delivery, condition, description)


cdef void amqp_delivery_say_declared(amqp_delivery_t *delivery, const void *id) noexcept nogil:
    c_delivery_say_declared(delivery, id)


cdef void amqp_delivery_say_enlisted(
        amqp_delivery_t *delivery, const void *id, amqp_code outcome) noexcept nogil:
    c_delivery_say_enlisted(delivery, id, outcome)


cdef void amqp_delivery_say_as(amqp_delivery_t *delivery, amqp_bytes_t state) noexcept nogil:
    c_delivery_say_as(delivery, state)


cdef void amqp_delivery_tell(amqp_delivery_t *delivery) noexcept nogil:
    c_delivery_tell(delivery)


cdef void amqp_delivery_settle(amqp_delivery_t *delivery) noexcept nogil:
    c_delivery_settle(delivery)


cdef void amqp_delivery_drop(amqp_delivery_t *delivery) noexcept nogil:
    c_delivery_drop(delivery)


cdef void amqp_wait_init(amqp_wait_t *wait, bint allowed) noexcept nogil:
    c_wait_init(wait, allowed)


cdef int64_t amqp_wait_span(amqp_wait_t *wait) noexcept nogil:
    return c_wait_span(wait)


cdef void amqp_wait_paid(amqp_wait_t *wait, bint paid) noexcept nogil:
    c_wait_paid(wait, paid)


cdef void amqp_wait_gave_way(amqp_wait_t *wait) noexcept nogil:
    c_wait_gave_way(wait)


cdef void amqp_wait_yield() noexcept nogil:
    c_wait_yield()
