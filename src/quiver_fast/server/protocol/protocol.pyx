"""Sockets and the engine's events: listener, connector, admission, attach."""

from libc.errno cimport EAGAIN, ECONNABORTED, EINTR, errno
from libc.stdint cimport INT64_MAX, UINT64_MAX, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from posix.unistd cimport close

import os
import socket
import struct
import sys

from quiver_fast import __version__
from quiver_fast.amqp.data_plane cimport (
    AMQP_ARRIVAL, AMQP_BEFORE, AMQP_CODE_ACCEPTED, AMQP_CODE_NONE, AMQP_CODE_RELEASED, AMQP_CREDIT,
    AMQP_DROPPED, AMQP_ENDING, AMQP_FOR_ENGINE, AMQP_NOTHING, AMQP_NO_MEMORY, AMQP_OF_LINK,
    AMQP_OF_SESSION, AMQP_OURS, AMQP_OUTCOME, AMQP_RECEIVER, AMQP_REFUSED, AMQP_SENDER, AMQP_THEIRS,
    amqp_arrival_t, amqp_bytes_t, amqp_deliveries_settle, amqp_delivery_arrive, amqp_delivery_keep,
    amqp_delivery_keep_said, amqp_delivery_t, amqp_disposition_t, amqp_event, amqp_link_end_before,
    amqp_link_end_hold, amqp_link_end_t, amqp_plane_init, amqp_plane_next, amqp_refusal_t,
    amqp_session_deliveries_catch_up, amqp_session_deliveries_t, amqp_timers_init,
    amqp_timers_take_open, amqp_walk, amqp_walk_next, amqp_walk_seek,
)
from quiver_fast.amqp.tls cimport tls_alert, tls_failure, tls_lacks_certificate
from quiver_fast.arguments import endpoint
from quiver_fast.errors import QuiverError, UsageError, one_line
from quiver_fast.loop.balance cimport CONNECTION, made
from quiver_fast.loop.reactor cimport Watch, watch_add, watch_change, watch_remove
from quiver_fast.proton.conditions cimport condition_text
from quiver_fast.proton.libproton cimport (
    PN_CONNECTION_REMOTE_CLOSE, PN_CONNECTION_REMOTE_OPEN, PN_COORDINATOR, PN_DIST_MODE_COPY,
    PN_DIST_MODE_MOVE, PN_DIST_MODE_UNSPECIFIED, PN_EXPIRE_WITH_LINK, PN_LINK_REMOTE_CLOSE,
    PN_LINK_REMOTE_DETACH, PN_LINK_REMOTE_OPEN, PN_LOCAL_ACTIVE, PN_LOCAL_CLOSED, PN_LOCAL_UNINIT,
    PN_NONDURABLE, PN_RCV_FIRST, PN_SESSION_REMOTE_CLOSE, PN_SESSION_REMOTE_OPEN, PN_SND_SETTLED,
    PN_UNSPECIFIED, pn_connection_condition, pn_connection_driver_bind, pn_connection_driver_init,
    pn_connection_driver_next_event, pn_connection_open, pn_connection_remote_condition,
    pn_connection_remote_container, pn_connection_remote_desired_capabilities,
    pn_connection_remote_offered_capabilities, pn_connection_set_container,
    pn_connection_set_hostname, pn_data_size, pn_data_t, pn_event_link, pn_event_session,
    pn_event_t, pn_event_type, pn_link_close, pn_link_condition, pn_link_detach, pn_link_free,
    pn_link_get_context, pn_link_is_sender, pn_link_open, pn_link_remote_rcv_settle_mode,
    pn_link_remote_snd_settle_mode, pn_link_remote_source, pn_link_remote_target, pn_link_session,
    pn_link_set_max_message_size, pn_link_set_rcv_settle_mode, pn_link_set_snd_settle_mode,
    pn_link_source, pn_link_state, pn_link_t, pn_link_target, pn_session_close,
    pn_session_condition, pn_session_free, pn_session_get_context, pn_session_open,
    pn_session_state, pn_session_t, pn_terminus_capabilities, pn_terminus_copy, pn_terminus_filter,
    pn_terminus_get_address, pn_terminus_get_distribution_mode, pn_terminus_get_type,
    pn_terminus_is_dynamic, pn_terminus_outcomes, pn_terminus_properties, pn_terminus_set_address,
    pn_terminus_set_distribution_mode, pn_terminus_set_durability, pn_terminus_set_dynamic,
    pn_terminus_set_expiry_policy, pn_terminus_set_timeout, pn_terminus_set_type, pn_terminus_t,
    pn_transport_condition, pn_transport_get_user, pn_transport_set_channel_max,
    pn_transport_set_idle_timeout, pn_transport_set_max_frame, pn_transport_set_server,
)
from quiver_fast.proton.libsys cimport (
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, IPPROTO_TCP, TCP_NODELAY, monotonic_ns, setsockopt,
)
from quiver_fast.queuefile.reserve cimport accept_connection
from quiver_fast.queuefile.reserve import NoDescriptorsError
from quiver_fast.security.security cimport (
    SaslExchange, Security, conclude_sasl, peer_is_loopback, peer_network, sasl_due,
)
from quiver_fast.server.addresses.addresses cimport (
    Broker, Delay, choose, claim_container, container_of, deferred_ended, deferred_left, is_dynamic,
    known_subscription, last_queue, leave_container, maker_left, node_join, node_leave, origin_of,
    read_filters, read_lifetime, refuse_container, set_lifetime, subscription_closed,
    subscription_of, write_filters,
)
from quiver_fast.server.addresses.addresses import TooManyQueues
from quiver_fast.server.addresses.refusal import Refusal
from quiver_fast.server.connections.connections cimport (
    borrowers_settle, channels, demand_began, demand_ended, demand_join, demand_leave, fit_session,
    has_capability, has_handle, inlet_top_up, introduce, is_router, is_trunk, is_usable,
    keep_capabilities, link_abandon, link_delete, link_end, link_new, link_opened, link_refuse,
    name_leave, name_take, offer_capabilities, open_session, peer_close, peer_cut, peer_drain,
    peer_feed, peer_read, peer_refuse, peer_return, say_transactions, session_close,
    session_delete, session_new, session_of, session_opened, set_condition, stream_inlet,
    takes_streaming_links, wants_input,
)
from quiver_fast.server.durable.durable cimport report_scarce
from quiver_fast.server.model.lists cimport list_push
from quiver_fast.server.model.marks cimport peer_dirty, queue_dirty
from quiver_fast.server.model.roles cimport (
    CLIENT, COORDINATOR, DEFERRED, INLET, OUTLET, STREAMS_FROM_SERVER, LinkKind,
)
from quiver_fast.server.model.structures cimport (
    Consumer, Container, Coordinator, Dial, Entry, Inlet, Link, Outlet, Peer, Queue, Session,
)
from quiver_fast.server.model.timer cimport timer_advance, timer_set
from quiver_fast.server.model.transaction cimport entry_of, state_lost, state_waits
from quiver_fast.server.nodes.nodes cimport consumer_join
from quiver_fast.server.selectors.selectors cimport filter_take
from quiver_fast.server.streams.streams cimport (
    announce_to, trunk_detached, trunk_opened, trunks_announce, trunks_withdraw,
)
from quiver_fast.server.transactions.transactions cimport coordinator_detached, coordinator_receive
from quiver_fast.server.transfer.transfer cimport (
    end_accepted, inlet_arrived, inlet_detached, outlet_detached, outlet_flow, outlet_refused,
    outlet_updated, peer_holds, peer_ring, queue_left, take_whole,
)
from quiver_fast.resolving import resolve, wire_name
from quiver_fast.sockets import Race

include "attach.pxi"
include "refusals.pxi"
include "events.pxi"
include "admission.pxi"
include "connector.pxi"
include "tls_reports.pxi"
include "listener.pxi"
