"""How an outlet frames its messages: room, headers that changed, routes, tags."""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

from quiver_fast.amqp.data_plane cimport (
    amqp_bytes_t, amqp_delivery_begin, amqp_delivery_may_begin, amqp_delivery_may_go,
    amqp_delivery_send, amqp_output_waiting,
)
from quiver_fast.proton.libproton cimport (
    PN_LOCAL_CLOSED, PN_SND_UNSETTLED, pn_connection_state, pn_link_remote_snd_settle_mode,
)
from quiver_fast.server.messages.message cimport HEADER_MAX, Message, chunk_bytes, encode_header
from quiver_fast.server.messages.route cimport ROUTE_MAX, encode_route
from quiver_fast.server.model.roles cimport STREAMS_TO_PEER
from quiver_fast.server.model.structures cimport Entry, Outlet
from quiver_fast.server.model.transaction cimport delivery_hold
from quiver_fast.server.streams.stream cimport stream_of

# Such bytes of a stream, which are already counted in its own memory.
cdef size_t STREAM_OUTGOING_MAX = 32768

cdef char[16] DIGITS
DIGITS[:] = b"0123456789abcdef"


cdef size_t room(Outlet *outlet) noexcept nogil:
    """Return how many more bytes may be framed for the outlet."""
    cdef size_t limit = (
        STREAM_OUTGOING_MAX if outlet.base.role == STREAMS_TO_PEER else OUTGOING_MAX)
    cdef size_t held = amqp_output_waiting(&outlet.base.peer.plane.output)
    if outlet.base.peer.full or held >= limit or not may_transfer(outlet):
        return 0
    return limit - held


cdef inline bint may_transfer(Outlet *outlet) noexcept nogil:
    """Say whether the peer takes a transfer (parts 2.5.6, 2.6.7)."""
    if outlet.base.refused or outlet.base.peer.deliveries.failed or (
            pn_connection_state(outlet.base.peer.driver.connection) & PN_LOCAL_CLOSED):
        return False
    if outlet.delivery != NULL:
        return amqp_delivery_may_go(outlet.delivery)
    return amqp_delivery_may_begin(&outlet.base.deliveries)


cdef size_t write_tag(uint64_t number, char *out) noexcept nogil:
    """Write a delivery tag of ASCII digits, because some clients read tags as text."""
    cdef size_t n = 0
    while True:
        out[n] = DIGITS[number & 15]
        n += 1
        number >>= 4
        if number == 0:
            return n


cdef bint start_delivery(Outlet *outlet, Entry *entry) noexcept nogil:
    """Begin a delivery, with a rewritten header if anything in it changed here.

    False without memory.
    """
    cdef Message *message = entry.message
    cdef bint routed = outlet.base.role == STREAMS_TO_PEER and outlet.base.peer.trunk
    if (routed or has_changed(entry)) and not write_lead(outlet, entry, routed):
        return False
    outlet.delivery = amqp_delivery_begin(&outlet.base.deliveries)
    if outlet.delivery == NULL:
        return False
    outlet.delivery.format = message.format
    delivery_hold(outlet.delivery, entry)
    outlet.tag += 1
    return True


cdef inline bint has_changed(const Entry *entry) noexcept nogil:
    """Say whether the header of a message is not true any more (part 3.2.1).

    A message of another format than AMQP's gets none.
    """
    cdef const Message *message = entry.message
    return (entry.used or message.header.has_ttl) and (
        message.format == 0 or message.header.size > 0)


cdef bint write_lead(Outlet *outlet, Entry *entry, bint routed) noexcept nogil:
    """Write the header as it is now, and a stream's route for another server behind it."""
    cdef Message *message = entry.message
    cdef size_t size = message.header.size
    cdef char *lead = <char *>realloc(
        outlet.lead, HEADER_MAX + size + (ROUTE_MAX + entry.queue.address_size if routed else 0))
    if lead == NULL:
        return False
    outlet.lead = lead
    outlet.lead_sent = 0
    outlet.offset = size
    if has_changed(entry):
        size = encode_header(
            message, entry.failures, not entry.used, outlet.base.peer.container.now_ms, lead)
    else:
        memcpy(lead, chunk_bytes(message.first), size)
    if routed:
        size += encode_route(
            entry.queue.address_size, stream_of(message).presettled, lead + size)
        memcpy(lead + size, entry.queue.address, entry.queue.address_size)
        size += entry.queue.address_size
    outlet.lead_size = size
    return True


cdef size_t send_piece(Outlet *outlet, const void *start, size_t size, bint last) noexcept nogil:
    """Frame what leads the message and the next bytes of it; return how many of these went."""
    cdef char[TAG_MAX] digits
    cdef amqp_bytes_t tag
    cdef amqp_bytes_t[2] parts
    cdef size_t lead = outlet.lead_size - outlet.lead_sent
    cdef size_t sent
    tag.start = <const uint8_t *>digits
    tag.size = write_tag(outlet.tag - 1, digits)
    parts[0].start = <const uint8_t *>outlet.lead + outlet.lead_sent
    parts[0].size = lead
    parts[1].start = <const uint8_t *>start
    parts[1].size = size
    sent = amqp_delivery_send(outlet.delivery, tag, parts, last, is_settled(outlet))
    outlet.lead_sent += min(sent, lead)
    return sent - min(sent, lead)


cdef bint is_settled(const Outlet *outlet) noexcept nogil:
    """Say whether the consumer is sent its messages, or this stream, settled."""
    cdef const Message *message = outlet.sending.message
    return outlet.presettled or message.stream != NULL and stream_of(message).presettled and (
        pn_link_remote_snd_settle_mode(outlet.base.link) != PN_SND_UNSETTLED)
