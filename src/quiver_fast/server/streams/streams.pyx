"""Streaming deliveries: their content, their own links, and trunks between servers."""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport strcmp

from quiver_fast.amqp.data_plane cimport (
    amqp_bytes_t, amqp_delivery_say_as, amqp_delivery_settle, amqp_delivery_t, amqp_delivery_tell,
    amqp_link_end_t,
)
from quiver_fast.loop.balance cimport STREAM, made
from quiver_fast.proton.libproton cimport (
    PN_ACCEPTED, PN_EXPIRE_WITH_LINK, PN_MODIFIED, PN_REJECTED, PN_RELEASED, PN_SND_SETTLED,
    pn_bytes, pn_connection_get_container, pn_connection_remote_container, pn_data_put_symbol,
    pn_link_close, pn_link_open, pn_link_remote_snd_settle_mode, pn_link_source, pn_link_t,
    pn_link_target, pn_receiver, pn_sender, pn_session_t, pn_terminus_capabilities,
    pn_terminus_set_address, pn_terminus_set_expiry_policy,
)
from quiver_fast.server.connections.connections cimport (
    NAME_MAX, awaits_begin, delivery_say, has_channel, inlet_top_up, is_usable, link_new,
    link_opened, peer_close, session_close, session_for, write_name,
)
from quiver_fast.server.messages.messages cimport Chunk, Message, message_fit, message_leave
from quiver_fast.server.model.lists cimport list_has, list_push, list_remove
from quiver_fast.server.model.marks cimport inlet_wake, peer_dirty, queue_dirty
from quiver_fast.server.model.roles cimport INLET, OUTLET, STREAMS_TO_PEER, TRUNK_CONSUMER
from quiver_fast.server.model.structures cimport (
    Container, Inlet, Neighbour, Outlet, Peer, Queue, Stream,
)
from quiver_fast.server.model.timer cimport timer_advance
from quiver_fast.server.model.traffic cimport came_in
from quiver_fast.server.model.trim cimport memory_freed

include "pool.pxi"
include "stream.pxi"
include "trunk.pxi"
include "streamlink.pxi"
