"""Framing of an outlet's messages: room, changed headers, routes, tags."""

cdef enum:
    # Bytes of a long message to frame at once.
    PIECE = 65024
    # Framed bytes of a connection that are not written: more are not added for a consumer.
    OUTGOING_MAX = 131072
    # The most bytes of a frame besides its message, with those that a header may grow by.
    FRAME_HEAD = 128

cdef inline uint32_t credit(const Outlet *outlet) noexcept nogil:
    cdef const amqp_link_end_t *end = outlet.base.deliveries.end
    return end.counts.credit if end != NULL else 0

cdef inline bint exceeds(const Outlet *outlet, uint64_t size) noexcept nogil:
    """Say whether a message, as far as it has come, is more than a link takes (part 2.7.3).

    Another server sends such a message back.
    """
    cdef const amqp_link_end_t *end = outlet.base.deliveries.end
    return end != NULL and end.max_message_size[<int>AMQP_THEIRS] != 0 and (
        size > end.max_message_size[<int>AMQP_THEIRS] and not outlet.base.peer.trunk)

# The most waiting output for a stream of ours, whose bytes also count in the stream's memory.
cdef size_t STREAM_OUTGOING_MAX = 32768

# The digits of a tag.
cdef enum:
    FIRST_DIGIT = 0x30
    LAST_DIGIT = 0x39


cdef size_t room(Outlet *outlet) noexcept nogil:
    """Return how many more bytes may be framed for the outlet."""
    cdef size_t limit = (
        STREAM_OUTGOING_MAX if outlet.base.role == STREAMS_TO_PEER else OUTGOING_MAX)
    cdef size_t held = amqp_output_waiting(&outlet.base.peer.plane.output)
    if outlet.base.peer.full or held >= limit or not may_transfer(outlet):
        return 0
    return limit - held


cdef bint fits(Outlet *outlet, const Message *message) noexcept nogil:
    """Say whether a message may begin: there is room, and for all of it if a frame takes it."""
    cdef size_t most = outlet.base.peer.plane.endpoints.opened[<int>AMQP_THEIRS].max_frame_size
    cdef size_t left = room(outlet)
    if not message.complete or message.stream != NULL or message.size + FRAME_HEAD > most:
        return left > 0
    return left > 0 and left >= min(message.size + FRAME_HEAD, <size_t>OUTGOING_MAX)


cdef inline bint may_transfer(Outlet *outlet) noexcept nogil:
    """Say whether the peer takes a transfer (parts 2.5.6, 2.6.7)."""
    cdef const Peer *peer = outlet.base.peer
    if outlet.base.refused or peer.deliveries.failed or peer.closed:
        return False
    if outlet.delivery != NULL:
        return amqp_delivery_may_go(outlet.delivery)
    return amqp_delivery_may_begin(&outlet.base.deliveries)


cdef amqp_bytes_t next_tag(Tag *tag) noexcept nogil:
    """Return the tag of the next delivery; it is valid until the next call."""
    cdef size_t place = 0
    # The first digit is the lowest one.
    while place < tag.size and tag._digits[place] == LAST_DIGIT:
        tag._digits[place] = FIRST_DIGIT
        place += 1
    if place < tag.size:
        tag._digits[place] += 1
    else:
        tag._digits[place] = FIRST_DIGIT + (place > 0)
        tag.size += 1
    return tag_bytes(tag)


cdef inline amqp_bytes_t tag_bytes(const Tag *tag) noexcept nogil:
    cdef amqp_bytes_t bytes
    bytes.start = <const uint8_t *>tag._digits
    bytes.size = tag.size
    return bytes


cdef bint start_delivery(Outlet *outlet, Entry *entry) noexcept nogil:
    """Begin a delivery, with a rewritten header if a field changed here.

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
    next_tag(&outlet._tag)
    return True


cdef inline bint has_changed(const Entry *entry) noexcept nogil:
    """Say whether the header of a message has to be rewritten (part 3.2.1).

    A message of another format than AMQP's gets no header, and a malformed one stays.
    """
    cdef const Message *message = entry.message
    return (entry.used or message.header.has_ttl) and (
        message.format == 0 or message.header.size > 0) and not message.header.opaque


cdef bint write_lead(Outlet *outlet, Entry *entry, bint routed) noexcept nogil:
    """Write the present header, followed by the route of a stream to another server."""
    cdef Message *message = entry.message
    cdef size_t size = message.header.size
    cdef char *lead = <char *>realloc(
        outlet._lead, HEADER_MAX + size + (ROUTE_MAX + entry.queue.address_size if routed else 0))
    if lead == NULL:
        return False
    outlet._lead = lead
    outlet._lead_sent = 0
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
    outlet._lead_size = size
    return True


cdef size_t send_piece(
        Outlet *outlet, const void *start, size_t size, amqp_hold_t *hold,
        bint last) noexcept nogil:
    """Frame the message's lead and its next bytes; return how many of these were framed.

    Args:
        hold: keeps the bytes, so that the output can refer to them; NULL to copy them.
    """
    cdef amqp_parts_t parts
    cdef size_t lead = outlet._lead_size - outlet._lead_sent
    cdef size_t sent
    parts.lead.start = <const uint8_t *>outlet._lead + outlet._lead_sent
    parts.lead.size = lead
    parts.rest.start = <const uint8_t *>start
    parts.rest.size = size
    parts.hold = hold
    sent = amqp_delivery_send(
        outlet.delivery, tag_bytes(&outlet._tag), &parts, last, is_settled(outlet))
    outlet._lead_sent += min(sent, lead)
    return sent - min(sent, lead)


cdef bint is_settled(const Outlet *outlet) noexcept nogil:
    """Say whether the consumer gets its messages, or this stream, settled."""
    cdef const Message *message = outlet._sending.message
    return outlet.presettled or message.stream != NULL and stream_of(message).presettled and (
        pn_link_remote_snd_settle_mode(outlet.base.link) != PN_SND_UNSETTLED)
