"""A peer, its sessions and links, and the credit of its producers."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset, strlen

from quiver_fast.amqp.data_plane cimport (
    AMQP_ACTIVE, AMQP_BEFORE, AMQP_CODE_ACCEPTED, AMQP_INPUT_AGAIN, AMQP_LENT, AMQP_OURS,
    AMQP_RECEIVER, AMQP_SENDER, AMQP_THEIRS, amqp_bytes_t, amqp_code, amqp_deliveries_tell,
    amqp_delivery_say, amqp_delivery_say_modified, amqp_delivery_say_rejected, amqp_delivery_settle,
    amqp_delivery_t, amqp_hold_t, amqp_link_deliveries_drop, amqp_link_end_release, amqp_link_end_t,
    amqp_output_clear, amqp_output_give_buffer, amqp_output_keep, amqp_output_take_buffer,
    amqp_output_waiting, amqp_output_write, amqp_plane_credit, amqp_plane_drain, amqp_plane_fill,
    amqp_plane_flow, amqp_receive, amqp_send, amqp_session_deliveries_free,
    amqp_session_end_release, amqp_session_end_t, amqp_session_link,
)
from quiver_fast.amqp.tls cimport (
    TLS_AGAIN, TLS_FAILED, iovec, tls_close, tls_events, tls_flush, tls_has_input, tls_read, tls_t,
    tls_waiting, tls_write,
)
from quiver_fast.loop.balance cimport LINK, freed, made as count_made
from quiver_fast.loop.memory cimport hold
from quiver_fast.loop.reactor cimport watch_change
from quiver_fast.proton.libproton cimport (
    PN_ARRAY, PN_LOCAL_ACTIVE, PN_LOCAL_CLOSED, PN_MODIFIED, PN_REJECTED, PN_RELEASED,
    PN_REMOTE_ACTIVE, PN_REMOTE_CLOSED, PN_REMOTE_UNINIT, PN_SYMBOL, pn_bytes, pn_bytes_t,
    pn_condition_is_set, pn_condition_set_description, pn_condition_set_name, pn_condition_t,
    pn_connection_close, pn_connection_condition, pn_connection_driver_finished,
    pn_connection_driver_read_buffer, pn_connection_driver_read_buffer_sized,
    pn_connection_driver_read_close, pn_connection_driver_read_closed,
    pn_connection_driver_read_done, pn_connection_driver_write_buffer,
    pn_connection_driver_write_close, pn_connection_driver_write_closed,
    pn_connection_driver_write_done, pn_connection_offered_capabilities, pn_connection_open,
    pn_connection_properties, pn_connection_remote_container,
    pn_connection_remote_offered_capabilities, pn_connection_state, pn_connection_t, pn_data_clear,
    pn_data_enter, pn_data_exit, pn_data_get_symbol, pn_data_next, pn_data_put_array,
    pn_data_put_map, pn_data_put_string, pn_data_put_symbol, pn_data_rewind, pn_data_t,
    pn_data_type, pn_decref, pn_incref, pn_link_close, pn_link_condition, pn_link_free,
    pn_link_is_sender, pn_link_name, pn_link_session, pn_link_set_context, pn_link_t, pn_rwbytes_t,
    pn_session, pn_session_close, pn_session_free, pn_session_head, pn_session_next,
    pn_session_open, pn_session_set_context, pn_session_set_incoming_capacity, pn_session_state,
    pn_session_t, pn_transport_close_tail, pn_transport_condition, pn_transport_get_channel_max,
    ssize_t,
)
from quiver_fast.proton.libsys cimport EPOLLIN, EPOLLOUT, POLLOUT
from quiver_fast.server.model.lists cimport list_has, list_push, list_remove
from quiver_fast.server.model.marks cimport peer_dirty
from quiver_fast.server.model.roles cimport (
    COORDINATOR, INLET, STREAMS_TO_PEER, TRUNK_CONSUMER, LinkKind, LinkRole,
)
from quiver_fast.server.model.structures cimport (
    Container, Inlet, Link, Peer, Queue, Session, Transaction,
)
from quiver_fast.server.model.transaction cimport TRANSACTIONAL_STATE, read_state, state_lost

include "capability.pxi"
include "names.pxi"
include "peer.pxi"
include "links.pxi"
include "credit.pxi"
