# Every function of the Proton C engine that quiver-fast uses, by header.
# All of it may run without the GIL. Add only functions that are used.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "<sys/types.h>" nogil:
    ctypedef long ssize_t

cdef extern from "<stdbool.h>" nogil:
    # Callbacks must return C's own type; bint is enough everywhere else.
    ctypedef bint c_bool "bool"

cdef extern from "proton/version.h" nogil:
    const int PN_VERSION_MAJOR
    const int PN_VERSION_MINOR
    const int PN_VERSION_POINT

cdef extern from "proton/types.h" nogil:
    ctypedef struct pn_bytes_t:
        size_t size
        const char *start
    ctypedef struct pn_rwbytes_t:
        size_t size
        char *start
    ctypedef struct pn_connection_t
    ctypedef struct pn_session_t
    ctypedef struct pn_link_t
    ctypedef struct pn_transport_t
    ctypedef struct pn_collector_t
    ctypedef struct pn_data_t
    ctypedef int pn_state_t
    pn_bytes_t pn_bytes(size_t size, const char *start)
    const int PN_LOCAL_UNINIT
    const int PN_LOCAL_ACTIVE
    const int PN_LOCAL_CLOSED
    const int PN_REMOTE_UNINIT
    const int PN_REMOTE_ACTIVE
    const int PN_REMOTE_CLOSED

cdef extern from "proton/object.h" nogil:
    void *pn_incref(void *object)
    int pn_decref(void *object)

cdef extern from "proton/logger.h" nogil:
    ctypedef struct pn_logger_t
    ctypedef enum pn_log_subsystem_t:
        pass
    ctypedef enum pn_log_level_t:
        pass
    ctypedef void (*pn_log_sink_t)(
        long context, pn_log_subsystem_t subsystem, pn_log_level_t level,
        const char *message) noexcept nogil
    pn_logger_t *pn_default_logger()
    pn_log_sink_t pn_logger_get_log_sink(pn_logger_t *logger)
    long pn_logger_get_log_sink_context(pn_logger_t *logger)
    void pn_logger_set_log_sink(pn_logger_t *logger, pn_log_sink_t sink, long context)

cdef extern from "proton/condition.h" nogil:
    ctypedef struct pn_condition_t
    bint pn_condition_is_set(pn_condition_t *condition)
    const char *pn_condition_get_name(pn_condition_t *condition)
    const char *pn_condition_get_description(pn_condition_t *condition)
    int pn_condition_set_name(pn_condition_t *condition, const char *name)
    int pn_condition_set_description(pn_condition_t *condition, const char *description)
    pn_data_t *pn_condition_info(pn_condition_t *condition)

cdef extern from "proton/codec.h" nogil:
    ctypedef enum pn_type_t:
        PN_NULL
        PN_BOOL
        PN_UBYTE
        PN_BYTE
        PN_USHORT
        PN_SHORT
        PN_UINT
        PN_INT
        PN_ULONG
        PN_LONG
        PN_TIMESTAMP
        PN_FLOAT
        PN_DOUBLE
        PN_BINARY
        PN_STRING
        PN_SYMBOL
        PN_MAP
        PN_ARRAY
    pn_data_t *pn_data(size_t capacity)
    void pn_data_free(pn_data_t *data)
    void pn_data_clear(pn_data_t *data)
    void pn_data_rewind(pn_data_t *data)
    bint pn_data_next(pn_data_t *data)
    bint pn_data_enter(pn_data_t *data)
    bint pn_data_exit(pn_data_t *data)
    # A narrowed walk begins again at its present place, and `pn_data_appendn` copies from there.
    void pn_data_narrow(pn_data_t *data)
    void pn_data_widen(pn_data_t *data)
    int pn_data_appendn(pn_data_t *data, pn_data_t *source, int limit)
    pn_type_t pn_data_type(pn_data_t *data)
    int pn_data_put_list(pn_data_t *data)
    int pn_data_put_map(pn_data_t *data)
    int pn_data_put_array(pn_data_t *data, bint described, pn_type_t type)
    int pn_data_put_described(pn_data_t *data)
    int pn_data_put_bool(pn_data_t *data, bint value)
    int pn_data_put_ulong(pn_data_t *data, uint64_t value)
    int pn_data_put_string(pn_data_t *data, pn_bytes_t value)
    int pn_data_put_symbol(pn_data_t *data, pn_bytes_t value)
    pn_bytes_t pn_data_get_bytes(pn_data_t *data)
    pn_bytes_t pn_data_get_symbol(pn_data_t *data)
    bint pn_data_get_bool(pn_data_t *data)
    uint8_t pn_data_get_ubyte(pn_data_t *data)
    int8_t pn_data_get_byte(pn_data_t *data)
    uint16_t pn_data_get_ushort(pn_data_t *data)
    int16_t pn_data_get_short(pn_data_t *data)
    uint32_t pn_data_get_uint(pn_data_t *data)
    int32_t pn_data_get_int(pn_data_t *data)
    uint64_t pn_data_get_ulong(pn_data_t *data)
    int64_t pn_data_get_long(pn_data_t *data)
    int64_t pn_data_get_timestamp(pn_data_t *data)
    float pn_data_get_float(pn_data_t *data)
    double pn_data_get_double(pn_data_t *data)
    bint pn_data_is_described(pn_data_t *data)
    size_t pn_data_size(pn_data_t *data)
    int pn_data_format(pn_data_t *data, char *bytes, size_t *size)
    ssize_t pn_data_encode(pn_data_t *data, char *bytes, size_t size)
    ssize_t pn_data_encoded_size(pn_data_t *data)
    ssize_t pn_data_decode(pn_data_t *data, const char *bytes, size_t size)

cdef extern from "proton/connection.h" nogil:
    pn_state_t pn_connection_state(pn_connection_t *connection)
    void pn_connection_open(pn_connection_t *connection)
    void pn_connection_close(pn_connection_t *connection)
    void pn_connection_collect(pn_connection_t *connection, pn_collector_t *collector)
    void pn_connection_set_container(pn_connection_t *connection, const char *container)
    void pn_connection_set_hostname(pn_connection_t *connection, const char *hostname)
    const char *pn_connection_get_container(pn_connection_t *connection)
    const char *pn_connection_remote_container(pn_connection_t *connection)
    const char *pn_transport_get_user(pn_transport_t *transport)
    pn_data_t *pn_connection_properties(pn_connection_t *connection)
    pn_data_t *pn_connection_remote_properties(pn_connection_t *connection)
    pn_data_t *pn_connection_offered_capabilities(pn_connection_t *connection)
    pn_data_t *pn_connection_remote_offered_capabilities(pn_connection_t *connection)
    pn_data_t *pn_connection_remote_desired_capabilities(pn_connection_t *connection)
    pn_condition_t *pn_connection_condition(pn_connection_t *connection)
    pn_condition_t *pn_connection_remote_condition(pn_connection_t *connection)

cdef extern from "proton/session.h" nogil:
    pn_session_t *pn_session(pn_connection_t *connection)
    pn_state_t pn_session_state(pn_session_t *session)
    pn_condition_t *pn_session_remote_condition(pn_session_t *session)
    pn_condition_t *pn_session_condition(pn_session_t *session)
    void pn_session_open(pn_session_t *session)
    void pn_session_close(pn_session_t *session)
    void pn_session_free(pn_session_t *session)
    pn_session_t *pn_session_head(pn_connection_t *connection, pn_state_t state)
    pn_session_t *pn_session_next(pn_session_t *session, pn_state_t state)
    void *pn_session_get_context(pn_session_t *session)
    void pn_session_set_context(pn_session_t *session, void *context)
    void pn_session_set_incoming_capacity(pn_session_t *session, size_t capacity)

cdef extern from "proton/terminus.h" nogil:
    ctypedef struct pn_terminus_t
    ctypedef enum pn_terminus_type_t:
        PN_UNSPECIFIED
        PN_SOURCE
        PN_COORDINATOR
    ctypedef enum pn_distribution_mode_t:
        PN_DIST_MODE_UNSPECIFIED
        PN_DIST_MODE_COPY
        PN_DIST_MODE_MOVE
    ctypedef enum pn_expiry_policy_t:
        PN_EXPIRE_WITH_LINK
        PN_EXPIRE_NEVER
    ctypedef enum pn_durability_t:
        PN_NONDURABLE
        PN_DELIVERIES
    pn_durability_t pn_terminus_get_durability(pn_terminus_t *terminus)
    int pn_terminus_set_durability(pn_terminus_t *terminus, pn_durability_t durability)
    pn_expiry_policy_t pn_terminus_get_expiry_policy(pn_terminus_t *terminus)
    pn_data_t *pn_terminus_properties(pn_terminus_t *terminus)
    int pn_terminus_set_expiry_policy(pn_terminus_t *terminus, pn_expiry_policy_t policy)
    pn_terminus_type_t pn_terminus_get_type(pn_terminus_t *terminus)
    int pn_terminus_set_type(pn_terminus_t *terminus, pn_terminus_type_t type)
    const char *pn_terminus_get_address(pn_terminus_t *terminus)
    int pn_terminus_set_address(pn_terminus_t *terminus, const char *address)
    bint pn_terminus_is_dynamic(pn_terminus_t *terminus)
    int pn_terminus_set_dynamic(pn_terminus_t *terminus, bint dynamic)
    pn_distribution_mode_t pn_terminus_get_distribution_mode(pn_terminus_t *terminus)
    int pn_terminus_set_distribution_mode(
        pn_terminus_t *terminus, pn_distribution_mode_t mode)
    int pn_terminus_set_timeout(pn_terminus_t *terminus, uint32_t seconds)
    pn_data_t *pn_terminus_outcomes(pn_terminus_t *terminus)
    pn_data_t *pn_terminus_filter(pn_terminus_t *terminus)
    int pn_terminus_copy(pn_terminus_t *terminus, pn_terminus_t *src)
    pn_data_t *pn_terminus_capabilities(pn_terminus_t *terminus)

cdef extern from "proton/link.h" nogil:
    ctypedef enum pn_snd_settle_mode_t:
        PN_SND_UNSETTLED
        PN_SND_SETTLED
    ctypedef enum pn_rcv_settle_mode_t:
        PN_RCV_FIRST
    pn_link_t *pn_sender(pn_session_t *session, const char *name)
    pn_link_t *pn_receiver(pn_session_t *session, const char *name)
    bint pn_link_is_sender(pn_link_t *link)
    pn_state_t pn_link_state(pn_link_t *link)
    pn_condition_t *pn_link_condition(pn_link_t *link)
    pn_condition_t *pn_link_remote_condition(pn_link_t *link)
    pn_link_t *pn_link_head(pn_connection_t *connection, pn_state_t state)
    pn_link_t *pn_link_next(pn_link_t *link, pn_state_t state)
    void pn_link_open(pn_link_t *link)
    void pn_link_close(pn_link_t *link)
    void pn_link_detach(pn_link_t *link)
    void pn_link_free(pn_link_t *link)
    void *pn_link_get_context(pn_link_t *link)
    void pn_link_set_context(pn_link_t *link, void *context)
    pn_session_t *pn_link_session(pn_link_t *link)
    pn_data_t *pn_link_properties(pn_link_t *link)
    void pn_link_set_max_message_size(pn_link_t *link, uint64_t size)
    pn_snd_settle_mode_t pn_link_remote_snd_settle_mode(pn_link_t *link)
    pn_rcv_settle_mode_t pn_link_remote_rcv_settle_mode(pn_link_t *link)
    const char *pn_link_name(pn_link_t *link)
    pn_terminus_t *pn_link_source(pn_link_t *link)
    pn_terminus_t *pn_link_target(pn_link_t *link)
    pn_terminus_t *pn_link_remote_source(pn_link_t *link)
    pn_terminus_t *pn_link_remote_target(pn_link_t *link)
    void pn_link_set_snd_settle_mode(pn_link_t *link, pn_snd_settle_mode_t mode)
    void pn_link_set_rcv_settle_mode(pn_link_t *link, pn_rcv_settle_mode_t mode)

cdef extern from "proton/disposition.h" nogil:
    const uint64_t PN_RECEIVED
    const uint64_t PN_ACCEPTED
    const uint64_t PN_REJECTED
    const uint64_t PN_RELEASED
    const uint64_t PN_MODIFIED

cdef extern from "proton/event.h" nogil:
    ctypedef struct pn_event_t
    ctypedef enum pn_event_type_t:
        PN_CONNECTION_REMOTE_OPEN
        PN_CONNECTION_REMOTE_CLOSE
        PN_SESSION_REMOTE_OPEN
        PN_SESSION_REMOTE_CLOSE
        PN_LINK_REMOTE_OPEN
        PN_LINK_REMOTE_CLOSE
        PN_LINK_REMOTE_DETACH
    pn_event_type_t pn_event_type(pn_event_t *event)
    pn_session_t *pn_event_session(pn_event_t *event)
    pn_link_t *pn_event_link(pn_event_t *event)

cdef extern from "proton/transport.h" nogil:
    int pn_transport_set_channel_max(pn_transport_t *transport, int channel_max)
    uint16_t pn_transport_get_channel_max(pn_transport_t *transport)
    void pn_transport_set_server(pn_transport_t *transport)
    void pn_transport_require_auth(pn_transport_t *transport, bint required)
    int pn_transport_close_tail(pn_transport_t *transport)
    pn_condition_t *pn_transport_condition(pn_transport_t *transport)
    void pn_transport_set_max_frame(pn_transport_t *transport, uint32_t size)
    void pn_transport_set_idle_timeout(pn_transport_t *transport, uint32_t timeout)

cdef extern from "proton/connection_driver.h" nogil:
    ctypedef struct pn_connection_driver_t:
        pn_connection_t *connection
        pn_transport_t *transport
    int pn_connection_driver_init(
        pn_connection_driver_t *driver, pn_connection_t *connection, pn_transport_t *transport)
    int pn_connection_driver_bind(pn_connection_driver_t *driver)
    void pn_connection_driver_destroy(pn_connection_driver_t *driver)
    bint pn_connection_driver_finished(pn_connection_driver_t *driver)
    pn_event_t *pn_connection_driver_next_event(pn_connection_driver_t *driver)
    pn_rwbytes_t pn_connection_driver_read_buffer(pn_connection_driver_t *driver)
    void pn_connection_driver_read_done(pn_connection_driver_t *driver, size_t n)
    bint pn_connection_driver_read_closed(pn_connection_driver_t *driver)
    void pn_connection_driver_read_close(pn_connection_driver_t *driver)
    pn_bytes_t pn_connection_driver_write_buffer(pn_connection_driver_t *driver)
    pn_bytes_t pn_connection_driver_write_done(pn_connection_driver_t *driver, size_t n)
    void pn_connection_driver_write_close(pn_connection_driver_t *driver)
    bint pn_connection_driver_write_closed(pn_connection_driver_t *driver)

cdef extern from "proton/sasl.h" nogil:
    ctypedef struct pn_sasl_t
    ctypedef enum pn_sasl_outcome_t:
        PN_SASL_NONE
        PN_SASL_OK
        PN_SASL_AUTH
        PN_SASL_TEMP
    pn_sasl_t *pn_sasl(pn_transport_t *transport)
    pn_sasl_outcome_t pn_sasl_outcome(pn_sasl_t *sasl)
    void pn_sasl_done(pn_sasl_t *sasl, pn_sasl_outcome_t outcome)
    const char *pn_sasl_get_mech(pn_sasl_t *sasl)
    void pn_sasl_set_allow_insecure_mechs(pn_sasl_t *sasl, bint insecure)

cdef extern from "proton/sasl_plugin.h" nogil:
    ctypedef enum pnx_sasl_state:
        SASL_POSTED_INIT
        SASL_POSTED_MECHANISMS
        SASL_POSTED_RESPONSE
        SASL_POSTED_CHALLENGE
        SASL_POSTED_OUTCOME
        SASL_RECVED_FAILURE
    ctypedef struct pnx_sasl_implementation:
        void (*free)(pn_transport_t *transport) noexcept nogil
        const char *(*list_mechanisms)(pn_transport_t *transport) noexcept nogil
        c_bool (*init_server)(pn_transport_t *transport) noexcept nogil
        c_bool (*init_client)(pn_transport_t *transport) noexcept nogil
        void (*prepare_write)(pn_transport_t *transport) noexcept nogil
        void (*process_init)(
            pn_transport_t *transport, const char *mechanism,
            const pn_bytes_t *recv) noexcept nogil
        void (*process_response)(
            pn_transport_t *transport, const pn_bytes_t *recv) noexcept nogil
        c_bool (*process_mechanisms)(
            pn_transport_t *transport, const char *mechanisms) noexcept nogil
        void (*process_challenge)(
            pn_transport_t *transport, const pn_bytes_t *recv) noexcept nogil
        void (*process_outcome)(
            pn_transport_t *transport, const pn_bytes_t *recv) noexcept nogil
        c_bool (*can_encrypt)(pn_transport_t *transport) noexcept nogil
        ssize_t (*max_encrypt_size)(pn_transport_t *transport) noexcept nogil
        ssize_t (*encode)(
            pn_transport_t *transport, pn_bytes_t data, pn_bytes_t *out) noexcept nogil
        ssize_t (*decode)(
            pn_transport_t *transport, pn_bytes_t data, pn_bytes_t *out) noexcept nogil
    void *pnx_sasl_get_context(pn_transport_t *transport)
    void pnx_sasl_set_context(pn_transport_t *transport, void *context)
    void pnx_sasl_set_bytes_out(pn_transport_t *transport, pn_bytes_t data)
    void pnx_sasl_set_desired_state(pn_transport_t *transport, pnx_sasl_state desired_state)
    void pnx_sasl_set_selected_mechanism(pn_transport_t *transport, const char *mechanism)
    void pnx_sasl_set_succeeded(
        pn_transport_t *transport, const char *username, const char *authzid)
    void pnx_sasl_set_failed(pn_transport_t *transport)
    void pnx_sasl_set_implementation(
        pn_transport_t *transport, const pnx_sasl_implementation *implementation, void *context)
