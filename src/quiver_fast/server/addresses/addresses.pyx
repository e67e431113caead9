"""What an address names: queues, temporary nodes, subscriptions."""

from libc.stdint cimport UINT64_MAX, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, strcpy, strlen, strncmp

import os
import sys
import uuid
from functools import partial

from quiver_fast.amqp.data_plane cimport (
    AMQP_THEIRS, amqp_buffers_free, amqp_delivery_say_modified, amqp_delivery_say_rejected,
    amqp_delivery_settle, amqp_delivery_t, amqp_spares_free,
)
from quiver_fast.errors import OutputError, QuiverError, UsageError, one_line
from quiver_fast.loop.heap cimport heap_free
from quiver_fast.loop.memory cimport account
from quiver_fast.loop.opener cimport Opener
from quiver_fast.loop.reactor cimport Reactor
from quiver_fast.loop.syncer cimport Syncer
from quiver_fast.proton.libproton cimport (
    PN_BINARY, PN_BOOL, PN_BYTE, PN_DOUBLE, PN_EXPIRE_NEVER, PN_FLOAT, PN_INT, PN_LONG, PN_MAP,
    PN_MODIFIED, PN_NONDURABLE, PN_NULL, PN_REJECTED, PN_SHORT, PN_SOURCE, PN_STRING, PN_SYMBOL,
    PN_TIMESTAMP, PN_UBYTE, PN_UINT, PN_ULONG, PN_USHORT, pn_bytes, pn_bytes_t, pn_condition_info,
    pn_connection_condition, pn_connection_open, pn_connection_properties,
    pn_connection_remote_container, pn_connection_remote_desired_capabilities, pn_data,
    pn_data_appendn, pn_data_clear, pn_data_decode, pn_data_encode, pn_data_encoded_size,
    pn_data_enter, pn_data_exit, pn_data_free, pn_data_get_bool, pn_data_get_byte,
    pn_data_get_bytes, pn_data_get_double, pn_data_get_float, pn_data_get_int, pn_data_get_long,
    pn_data_get_short, pn_data_get_symbol, pn_data_get_timestamp, pn_data_get_ubyte,
    pn_data_get_uint, pn_data_get_ulong, pn_data_get_ushort, pn_data_is_described, pn_data_narrow,
    pn_data_next, pn_data_put_array, pn_data_put_bool, pn_data_put_described, pn_data_put_list,
    pn_data_put_map, pn_data_put_symbol, pn_data_put_ulong, pn_data_rewind, pn_data_size, pn_data_t,
    pn_data_type, pn_data_widen, pn_durability_t, pn_link_name, pn_link_remote_source,
    pn_link_source, pn_link_t, pn_terminus_capabilities, pn_terminus_filter,
    pn_terminus_get_durability, pn_terminus_get_expiry_policy, pn_terminus_properties,
    pn_terminus_set_address, pn_terminus_set_durability, pn_terminus_set_expiry_policy,
    pn_terminus_set_type, pn_terminus_t, pn_type_t,
)
from quiver_fast.queuefile.directory import SUBSCRIPTION, QueueDirectory
from quiver_fast.queuefile.folders import folder_of
from quiver_fast.queuefile.live import was_committed
from quiver_fast.queuefile.lock import QueueInUseError
from quiver_fast.queuefile.reserve import NoDescriptorsError
from quiver_fast.security.security cimport Security
from quiver_fast.selectors.property_steps import (
    APPLICATION_PROPERTIES_FILTER, PROPERTIES_FILTER, kind_of, steps_of,
)
from quiver_fast.selectors.selector import LONG_MAX, Step, parse
from quiver_fast.server.addresses import subscription_files
from quiver_fast.server.addresses.refusal import Refusal
from quiver_fast.server.addresses.subscription_files import Description
from quiver_fast.server.connections.connections cimport (
    delivery_reject, has_capability, link_end, link_new, link_refuse, peer_close,
)
from quiver_fast.server.durable.durable cimport (
    Store, forget_shut, is_scarce, must_open_later, report_scarce, store_append, store_leave,
    store_part, store_remove, stores_finish, stores_flush, synced,
)
from quiver_fast.server.messages.messages cimport (
    HEADER_MALFORMED, HEADER_READ, Chunk, HeaderResult, Message, chunk_bytes, commit_size,
    message_address, message_filled, message_in_parts, message_new, message_release, message_space,
)
from quiver_fast.server.model.labels cimport queue_label
from quiver_fast.server.model.lists cimport list_push, list_remove
from quiver_fast.server.model.marks cimport queue_dirty
from quiver_fast.server.model.roles cimport CLIENT, DEFERRED, TRUNK_CONSUMER
from quiver_fast.server.model.structures cimport (
    Consumer, Container, Inlet, Link, Peer, Queue, Transaction, Work,
)
from quiver_fast.server.nodes.nodes cimport (
    add_consumers, consumer_unready, later_forget, queue_append, queue_free, queue_new,
    select_later,
)
from quiver_fast.server.selectors.selectors cimport Selector, filter_take
from quiver_fast.server.streams.streams cimport (
    is_for, stream_begin, stream_decide, stream_of, subscription_judge, trunks_withdraw,
)
from quiver_fast.words import counted

include "broker.pxi"
include "sourcefilter.pxi"
include "deferred.pxi"
include "lifetime.pxi"
include "container_ids.pxi"
include "subscription.pxi"
include "address.pxi"
include "waiting.pxi"
