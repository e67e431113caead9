"""Deliveries: in by an inlet, out by an outlet, and their outcomes."""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy
from posix.fcntl cimport posix_fallocate
from posix.unistd cimport close, pread, pwrite

import os
import sys
import tempfile

from quiver_fast.errors import one_line
from quiver_fast.amqp.data_plane cimport (
    AMQP_CODE_ACCEPTED, AMQP_CODE_MODIFIED, AMQP_CODE_NONE, AMQP_CODE_RELEASED, AMQP_LEAST_CHUNK,
    AMQP_LENT, AMQP_THEIRS, amqp_arrival_t, amqp_bytes_t, amqp_code, amqp_deliveries_settle,
    amqp_delivery_abort, amqp_delivery_advance, amqp_delivery_begin, amqp_delivery_drop,
    amqp_delivery_is_fresh, amqp_delivery_may_begin, amqp_delivery_may_go, amqp_delivery_read,
    amqp_delivery_say, amqp_delivery_say_rejected, amqp_delivery_send, amqp_delivery_send_whole,
    amqp_delivery_settle, amqp_delivery_t, amqp_delivery_take, amqp_hold_t, amqp_link_end_t,
    amqp_output_waiting, amqp_parts_t, amqp_plane_beat, amqp_plane_flow, amqp_read_state,
    amqp_sender_drained, amqp_state_t, amqp_timers_is_silent, amqp_timers_next, amqp_timers_owes,
)
from quiver_fast.loop.heap cimport heap_first
from quiver_fast.loop.memory cimport OVER_LIMIT, Holder, account, hold
from quiver_fast.proton.libproton cimport (
    PN_ACCEPTED, PN_MODIFIED, PN_RECEIVED, PN_REJECTED, PN_RELEASED, PN_SND_UNSETTLED,
    pn_link_remote_snd_settle_mode, ssize_t,
)
from quiver_fast.security.security cimport resume_sasl
from quiver_fast.server.addresses.addresses cimport (
    NO_DESCRIPTORS, SCARCE, Absence, Broker, can_pass, end_waiting, inlet_bind, inlet_must_wait,
    judging_ends, lacks_file, must_be_judged, must_end_later, named_queue, publish,
    queue_of_message, queue_of_stream, refuse_for_now, refuse_waiting, subscription_left,
    wait_for_file, want_store,
)
from quiver_fast.server.connections.connections cimport (
    WIDE_WINDOW, delivery_lost, delivery_reject, delivery_say, fit_session, inlet_top_up,
    is_attached, link_refuse, note_size, peer_borrows, peer_close, peer_cut, peer_flush, peer_keep,
    peer_lend_output, peer_refuse, refuse_transaction, session_of, stream_window, widen_session,
)
from quiver_fast.server.durable.durable cimport (
    accept_later, forget_pending, is_scarce, is_stored, must_wait, note_failure, store_append,
    store_forget, store_part, store_remove,
)
from quiver_fast.server.messages.messages cimport (
    HEADER_MALFORMED, HEADER_MAX, HEADER_MORE, HEADER_READ, PROPERTIES_MORE, ROUTE_MAX, STREAM_HIGH,
    STREAM_LOW, STREAM_SIZE, Chain, Chunk, HeaderResult, Message, Route, Span, chain_close,
    chain_of, chain_open, chain_read, chain_was_cut, chunk_bytes, encode_header, encode_route,
    has_expired, has_shape, message_annotated, message_empty, message_filled, message_fit,
    message_in_parts, message_join, message_memory, message_new, message_plain, message_read,
    message_read_header, message_read_route, message_release, message_space, message_strip_route,
    message_trim, sections_are_plain,
)
from quiver_fast.server.model.limits cimport Limits
from quiver_fast.server.model.lists cimport list_push, list_remove
from quiver_fast.server.model.marks cimport inlet_wake, peer_dirty, queue_dirty
from quiver_fast.server.model.roles cimport (
    CLIENT, STREAMS_FROM_SERVER, STREAMS_TO_PEER, TRUNK_CONSUMER,
)
from quiver_fast.server.model.structures cimport (
    Consumer, Container, Entry, Inlet, Lane, Outlet, Peer, Queue, Session, Stream, Tag, Timer, Work,
)
from quiver_fast.server.model.timer cimport timer_advance, timer_set
from quiver_fast.server.model.traffic cimport went_out
from quiver_fast.server.model.transaction cimport (
    TRANSACTIONAL_STATE, StateInTransaction, answer_in_transaction, delivery_hold, delivery_let_go,
    enlist_message, enlist_outcome, entry_of, forget_delivery, read_state,
)
from quiver_fast.server.model.trim cimport memory_freed
from quiver_fast.server.nodes.nodes cimport (
    all_judged, consumer_browse, consumer_drain, consumer_leave, consumer_ready, consumer_unready,
    entry_bar, entry_copy, entry_drop, is_unwanted, lane_barred, lane_remove, put_new,
    queue_acquire, queue_append, queue_clear, queue_restore, select_later, selective_next, show_new,
    wants,
)
from quiver_fast.server.streams.streams cimport (
    POOL_MAX, TRIM_AFTER, pool_add, pool_remove, reader_join, reader_leave, stream_begin,
    stream_decide, stream_leave, stream_of, stream_orphan, stream_outlet, stream_reason,
    stream_received, subscription_count, sweep_streams, trim_pool,
)

include "outcome.pxi"
include "framing.pxi"
include "peer_timer.pxi"
include "spill.pxi"
include "whole.pxi"
include "memory_holder.pxi"
include "outlet.pxi"
include "dispatch.pxi"
include "forwarding.pxi"
include "passage.pxi"
include "inlet.pxi"
include "unused_queues.pxi"
