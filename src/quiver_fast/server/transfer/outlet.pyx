"""Messages out: transfers to a consumer, and the outcomes that come back."""

from libc.stdint cimport uint64_t

from quiver_fast.proton.libproton cimport (
    PN_ACCEPTED, PN_LOCAL_CLOSED, PN_RECEIVED, PN_RELEASED, PN_SND_UNSETTLED,
    pn_connection_state, pn_delivery, pn_delivery_abort, pn_delivery_aborted, pn_delivery_clear,
    pn_delivery_remote, pn_delivery_remote_state, pn_delivery_settle, pn_delivery_settled,
    pn_delivery_t, pn_delivery_update, pn_disposition_is_failed,
    pn_disposition_is_undeliverable, pn_dtag, pn_link_advance, pn_link_credit,
    pn_link_get_drain, pn_link_remote_snd_settle_mode, pn_link_send, pn_session_outgoing_bytes,
    pn_session_remote_incoming_window, pn_unsettled_head, pn_unsettled_next, pnx_pass,
)
from quiver_fast.server.connections.peer cimport link_refuse, peer_clear_socket
from quiver_fast.server.messages.chain cimport (
    chain_close, chain_of, chain_open, chain_read, chain_was_cut,
)
from quiver_fast.server.messages.message cimport (
    HEADER_MAX, STREAM_LOW, Chunk, Message, chunk_bytes, encode_header, message_empty,
    message_release, message_trim,
)
from quiver_fast.server.messages.route cimport ROUTE_MAX, encode_route
from quiver_fast.server.model.lists cimport list_push, list_remove
from quiver_fast.server.model.structures cimport (
    Consumer, Entry, Outlet, Peer, Queue, Stream, delivery_hold, delivery_let_go, inlet_wake,
    peer_dirty, queue_dirty,
)
from quiver_fast.server.model.transaction cimport (
    TRANSACTIONAL_STATE, StateInTransaction, enlist_outcome, entry_of, forget_delivery, read_state,
)
from quiver_fast.server.nodes.queue cimport (
    consumer_drain, consumer_leave, consumer_ready, consumer_unready, entry_drop,
)
from quiver_fast.server.streams.pool cimport pool_add, pool_remove
from quiver_fast.server.streams.stream cimport (
    reader_join, reader_leave, stream_leave, stream_of,
)
from quiver_fast.server.transfer.annotate cimport outcome_said
from quiver_fast.server.transfer.outcome cimport apply_outcome, entry_done, return_entry
from quiver_fast.server.transfer.serving cimport forget_consumer, leave_consumer

# Unsent bytes of a session: the limit for a consumer that does not read.
cdef size_t OUTGOING_MAX = 131072
# The same for a stream, whose bytes are already counted in its own memory.
cdef size_t STREAM_OUTGOING_MAX = 32768
# Bytes to frame at once of a stream that is forwarded without copies.
cdef size_t PASS_MAX = 131072
# Bytes of a long message to give to the engine at once: a frame of 64 KiB without its
# header.
cdef size_t PIECE = 65024

cdef char[16] DIGITS
DIGITS[:] = b"0123456789abcdef"


cdef inline bint has_room(Outlet *outlet) noexcept nogil:
    return room(outlet) > 0


cdef inline size_t room(Outlet *outlet) noexcept nogil:
    """Return how many more bytes the engine may get for the outlet's session."""
    cdef size_t limit = STREAM_OUTGOING_MAX if outlet.ours else OUTGOING_MAX
    cdef size_t held = pn_session_outgoing_bytes(outlet.base.session)
    # Framed bytes are not counted, so nothing is added while they cannot be written.
    if outlet.base.peer.full or held >= limit:
        return 0
    if outlet.sending != NULL and outlet.sending.message.stream != NULL and (
            not may_transfer(outlet)):
        # A stream waits in its sender's window and not in ours.
        return 0
    return limit - held


cdef inline bint may_transfer(Outlet *outlet) noexcept nogil:
    """Say whether the peer takes transfers of the current delivery (parts 2.5.6, 2.6.7)."""
    return (
        pn_session_remote_incoming_window(outlet.base.session) > 0
        and pn_link_credit(outlet.base.link) > 0 and not outlet.base.refused
        and not pn_connection_state(outlet.base.peer.driver.connection) & PN_LOCAL_CLOSED)


cdef inline size_t write_tag(uint64_t number, char *out) noexcept nogil:
    """Write a delivery tag of ASCII digits, because some clients read tags as text."""
    cdef size_t n = 0
    while True:
        out[n] = DIGITS[number & 15]
        n += 1
        number >>= 4
        if number == 0:
            return n


cdef bint outlet_idle(Outlet *outlet) noexcept nogil:
    """Say whether the outlet could take one more message now."""
    if outlet.sending != NULL or outlet.base.refused or (
            pn_link_credit(outlet.base.link) <= 0):
        return False
    if has_room(outlet):
        return True
    clog(outlet)
    return False


cdef void update_readiness(Outlet *outlet) noexcept nogil:
    """Put the consumer into its queue's ring if it can take one more, else out of it."""
    cdef Queue *queue = outlet.consumer.queue
    if queue == NULL or outlet.consumer.browser:
        return
    if not outlet_idle(outlet) or outlet.consumer.trunk and queue.local_count:
        consumer_unready(&outlet.consumer)
    elif not outlet.consumer.ready:
        consumer_ready(&outlet.consumer)
        if queue.available:
            queue_dirty(queue)


cdef void clog(Outlet *outlet) noexcept nogil:
    """Resume the outlet when its peer's output has drained."""
    if not outlet.clogged:
        outlet.clogged = True
        list_push(&outlet.base.peer.clogged, outlet,
                  &outlet.prev_clogged, &outlet.next_clogged)


cdef void start_delivery(Outlet *outlet, Entry *entry) noexcept nogil:
    """Begin a delivery, with a rewritten header if anything in it changed here."""
    cdef char[16] tag
    cdef char[HEADER_MAX] header
    cdef size_t size = write_tag(outlet.tag, tag)
    cdef Message *message = entry.message
    outlet.delivery = pn_delivery(outlet.base.link, pn_dtag(tag, size))
    delivery_hold(outlet.delivery, entry)
    outlet.tag += 1
    if entry.used or message.expires:
        size = encode_header(
            message, entry.failures, not entry.used, outlet.base.peer.container.now_ms, header)
        pn_link_send(outlet.base.link, header, size)
        outlet.offset = message.header.size
    if outlet.ours and outlet.base.peer.trunk:
        send_route(outlet, entry)


cdef void send_route(Outlet *outlet, Entry *entry) noexcept nogil:
    """Write a stream's route for another server, behind the header if there is one."""
    cdef char[ROUTE_MAX] route
    cdef size_t size = encode_route(
        entry.queue.address_size, stream_of(entry.message).presettled, route)
    if outlet.offset < entry.message.header.size:
        pn_link_send(
            outlet.base.link, chunk_bytes(entry.message.first), entry.message.header.size)
        outlet.offset = entry.message.header.size
    pn_link_send(outlet.base.link, route, size)
    pn_link_send(outlet.base.link, entry.queue.address, entry.queue.address_size)


cdef void outlet_send(Outlet *outlet, Entry *entry) noexcept nogil:
    """Send an entry that was acquired for this outlet, at once or in parts."""
    outlet.sending = entry
    outlet.chunk = entry.message.first
    outlet.offset = 0
    if not entry.message.complete:
        join_readers(entry.message, outlet)
    if not outlet.ours or pn_link_credit(outlet.base.link) > 0:
        outlet_continue(outlet)
    peer_dirty(outlet.base.peer)


cdef void outlet_continue(Outlet *outlet) noexcept nogil:
    """Send more of the current message, as far as there are room and bytes."""
    cdef Message *message = outlet.sending.message
    cdef bint streaming = message.stream != NULL
    cdef Chunk *chunk
    cdef size_t size
    cdef size_t free
    # The message may be freed with its last entry, but is used after that.
    message.refs += 1
    if outlet.delivery == NULL:
        start_delivery(outlet, outlet.sending)
    if message.chain != NULL:
        send_chain(outlet, message)
        message_release(message)
        update_readiness(outlet)
        return
    chunk = outlet.chunk
    while True:
        size = chunk.size - outlet.offset
        if size:
            free = room(outlet)
            if free == 0:
                clog(outlet)
                break
            size = min(size, min(free, PIECE))
            pn_link_send(outlet.base.link, chunk_bytes(chunk) + outlet.offset, size)
            outlet.offset += size
        elif chunk.next != NULL:
            outlet.chunk = chunk.next
            outlet.offset = 0
            if streaming:
                chunk.readers -= 1
            chunk = outlet.chunk
        else:
            if message.complete:
                outlet_sent(outlet)
            break
    if streaming:
        stream_sent(outlet, message)
    message_release(message)
    update_readiness(outlet)


cdef void drop_sent(Outlet *outlet, Message *message) noexcept nogil:
    """Free the bytes of a stream whose only reader has sent them all."""
    if message.held and outlet.sending != NULL and message.readers == 1 and (
            outlet.chunk == message.first == message.last and outlet.offset == outlet.chunk.size):
        message_empty(message)
        outlet.chunk = message.first
        outlet.offset = 0


cdef Outlet *sole_reader(const Message *message) noexcept nogil:
    """Return the only outlet that is sending a stream; NULL if there are several or none yet."""
    cdef Outlet *outlet = stream_of(message).readers
    if message.readers != 1 or outlet == NULL or outlet.delivery == NULL:
        return NULL
    return outlet


cdef size_t stream_pass(Outlet *outlet, pn_delivery_t *arriving) noexcept nogil:
    """Forward a stream's bytes to its only reader; return how many bytes it took.

    The server holds none of them: the others stay in the window of the sender's session.
    """
    cdef size_t passed = 0
    drop_sent(outlet, outlet.sending.message)
    if outlet.sending.message.held == 0 and room(outlet) > 0:
        passed = pnx_pass(
            arriving, outlet.delivery, PASS_MAX, peer_clear_socket(outlet.base.peer))
        peer_dirty(outlet.base.peer)
    if passed == 0:
        clog(outlet)
    return passed


cdef void send_chain(Outlet *outlet, const Message *message) noexcept nogil:
    """Send more of a message from its queue's file, as far as there is room."""
    cdef size_t size
    if outlet.reader == NULL:
        outlet.reader = chain_open(message)
    while True:
        if outlet.reader == NULL or not chain_read(outlet.reader, message) or (
                chain_was_cut(outlet.reader)):
            send_no_more(outlet)
            return
        if outlet.reader.left == 0:
            # A message that is still arriving goes on when more of it is written.
            if message.complete:
                outlet_sent(outlet)
            return
        # Its header section was rewritten and sent.
        size = min(outlet.offset, outlet.reader.left)
        outlet.offset -= size
        outlet.reader.at += size
        outlet.reader.left -= size
        size = min(outlet.reader.left, min(room(outlet), PIECE))
        if size == 0 and outlet.reader.left:
            clog(outlet)
            return
        pn_link_send(outlet.base.link, outlet.reader.at, size)
        outlet.reader.at += size
        outlet.reader.left -= size


cdef void send_no_more(Outlet *outlet) noexcept nogil:
    """Give up an unreadable message, which stays in the file for the next start; or detach."""
    cdef Entry *entry = outlet.sending
    cdef bint unopened = outlet.reader == NULL
    abort_sending(outlet)
    if unopened:
        link_refuse(&outlet.base, b"amqp:internal-error", b"the queue's file cannot be opened")
        return_entry(entry)
    else:
        entry_drop(entry)


cdef void stream_sent(Outlet *outlet, Message *message) noexcept nogil:
    """Drop the bytes that all entries have sent; below the mark its sender may go on."""
    cdef Stream *stream = stream_of(message)
    message_trim(message)
    drop_sent(outlet, message)
    if stream.inlet != NULL and message.held < STREAM_LOW and not message.complete:
        inlet_wake(stream.inlet)


cdef void outlet_sent(Outlet *outlet) noexcept nogil:
    """The engine has the whole message: end its delivery."""
    cdef Entry *entry = outlet.sending
    cdef pn_delivery_t *delivery = outlet.delivery
    cdef bint settled = outlet.presettled
    if entry.message.stream != NULL:
        settled |= stream_of(entry.message).presettled and (
            pn_link_remote_snd_settle_mode(outlet.base.link) != PN_SND_UNSETTLED)
    end_sending(outlet)
    if settled:
        delivery_let_go(delivery)
        pn_delivery_settle(delivery)
        apply_outcome(entry, PN_ACCEPTED, 0, False, False)
    else:
        pn_link_advance(outlet.base.link)
        if pn_delivery_remote_state(delivery) > PN_RECEIVED:
            outlet_updated(outlet, delivery)


cdef void join_readers(Message *message, Outlet *outlet) noexcept nogil:
    """Register the outlet for more bytes of a message, and for its end."""
    if message.stream != NULL:
        reader_join(&stream_of(message).readers, outlet)
    else:
        reader_join(<Outlet **>&chain_of(message).readers, outlet)


cdef void leave_chain(Outlet *outlet) noexcept nogil:
    reader_leave(<Outlet **>&chain_of(outlet.sending.message).readers, outlet)
    chain_close(outlet.reader)
    outlet.reader = NULL


cdef void end_sending(Outlet *outlet) noexcept nogil:
    """Finish the outlet's current message, sent or not."""
    cdef Message *message = outlet.sending.message
    if message.stream != NULL:
        reader_leave(&stream_of(message).readers, outlet)
        stream_leave(message, outlet.chunk)
    elif message.chain != NULL:
        leave_chain(outlet)
    if outlet.consumer_link != NULL:
        outlet.consumer_link.streams -= 1
        leave_consumer(outlet)
    outlet.sending = NULL
    outlet.delivery = NULL
    if outlet.ours:
        outlet.base.peer.stream_count -= 1
        pool_add(outlet)


cdef void abort_sending(Outlet *outlet) noexcept nogil:
    """Abort the current message, so that it never looks complete to its consumer.

    Its unwritten bytes in the engine do not count for the session any more.
    """
    cdef pn_delivery_t *delivery = outlet.delivery
    end_sending(outlet)
    if delivery != NULL:
        delivery_let_go(delivery)
        pn_delivery_abort(delivery)
    peer_dirty(outlet.base.peer)


cdef void outlet_flow(Outlet *outlet) noexcept nogil:
    """The consumer's credit changed (part 2.6.7)."""
    cdef Queue *queue = outlet.consumer.queue
    if outlet.sending != NULL and outlet.delivery == NULL and (
            pn_link_credit(outlet.base.link) > 0):
        # A stream waited for the peer's credit on the link that we attached for it.
        outlet_continue(outlet)
    if queue != NULL:
        update_readiness(outlet)
        if pn_link_get_drain(outlet.base.link):
            consumer_drain(&outlet.consumer)
        if outlet.consumer.browser or queue.draining != NULL:
            queue_dirty(queue)


cdef void outlets_drained(Peer *peer) noexcept nogil:
    """Resume the outlets that waited for this peer's output to drain."""
    cdef Outlet *outlet = peer.clogged
    cdef Outlet *following
    peer.clogged = NULL
    while outlet != NULL:
        following = outlet.next_clogged
        outlet.clogged = False
        if not has_room(outlet):
            clog(outlet)
        else:
            if outlet.delivery != NULL:
                outlet_continue(outlet)
                peer_dirty(peer)
            outlet_flow(outlet)
        outlet = following


cdef void outlet_updated(Outlet *outlet, pn_delivery_t *delivery) noexcept nogil:
    """Take the consumer's outcome of a delivery (part 3.4)."""
    cdef Entry *entry = entry_of(delivery)
    cdef uint64_t state = pn_delivery_remote_state(delivery)
    cdef bint settled = pn_delivery_settled(delivery)
    if entry == NULL:
        if settled:
            forget_delivery(delivery)
            pn_delivery_settle(delivery)
        return
    if not settled and (state == 0 or state == PN_RECEIVED or (
            outlet.delivery == delivery and not outlet.base.peer.trunk)):
        # Another server's outcome is final: it settles only at the end of the message.
        return
    if outlet.delivery == delivery:
        # The outcome came before the end of the message: the rest need not be sent.
        if entry.message.chain != NULL:
            chain_of(entry.message).outcome = state
        abort_sending(outlet)
        update_readiness(outlet)
    if state == TRANSACTIONAL_STATE:
        enlist(outlet, entry, delivery, settled)
        return
    if state != PN_ACCEPTED:
        outcome_said(entry, state, pn_delivery_remote(delivery))
    # The consumer may settle with another event, before our settlement is written.
    delivery_let_go(delivery)
    apply_outcome(
        entry, state, outlet.base.serial, pn_disposition_is_failed(pn_delivery_remote(delivery)),
        pn_disposition_is_undeliverable(pn_delivery_remote(delivery)))
    if not settled:
        pn_delivery_update(delivery, state)
    pn_delivery_settle(delivery)
    peer_dirty(outlet.base.peer)


cdef void enlist(
        Outlet *outlet, Entry *entry, pn_delivery_t *delivery, bint settled) noexcept nogil:
    """Put an outcome into its transaction; without a known transaction it is an error."""
    cdef StateInTransaction state = read_state(outlet.base.peer, delivery)
    pn_delivery_clear(delivery)
    if state.transaction == NULL or not enlist_outcome(
            &state, outlet.base.serial, entry,
            NULL if settled or pn_delivery_aborted(delivery) else delivery):
        if state.transaction == NULL:
            link_refuse(&outlet.base, b"amqp:transaction:unknown-id",
                        b"there is no such transaction on this connection")
        else:
            link_refuse(&outlet.base, b"amqp:resource-limit-exceeded",
                        b"the server is out of memory")
        update_readiness(outlet)
        pool_remove(outlet)
        if pn_delivery_aborted(delivery):
            # The rest of its message was not sent: the end of the link does not find it.
            return_entry(entry)
        return
    if settled:
        delivery_let_go(delivery)
        pn_delivery_settle(delivery)


cdef void stream_advance(Message *message) noexcept nogil:
    """Send the bytes that have come of a stream to all its readers."""
    cdef Outlet *outlet = stream_of(message).readers
    cdef Outlet *following
    while outlet != NULL:
        following = outlet.next_reader
        if outlet.delivery != NULL:
            outlet_continue(outlet)
            peer_dirty(outlet.base.peer)
        outlet = following


cdef void stream_abort(Message *message) noexcept nogil:
    """The sender has left: abort the stream at once for all its readers (part 2.7.5)."""
    cdef Stream *stream = stream_of(message)
    cdef Outlet *outlet
    cdef Entry *entry
    message.aborted = True
    while stream.readers != NULL:
        outlet = stream.readers
        entry = outlet.sending
        abort_sending(outlet)
        update_readiness(outlet)
        queue_dirty(entry.queue)
        entry_done(entry)


cdef void outlet_detached(Outlet *outlet) noexcept nogil:
    """Release all messages of the outlet: its link, session or connection has ended."""
    cdef pn_delivery_t *delivery
    cdef pn_delivery_t *following
    cdef Entry *entry
    cdef Entry *latest = NULL
    if outlet.sending != NULL:
        entry = outlet.sending
        abort_sending(outlet)
        apply_outcome(entry, PN_RELEASED, 0, False, False)
    delivery = pn_unsettled_head(outlet.base.link)
    while delivery != NULL:
        following = pn_unsettled_next(delivery)
        entry = entry_of(delivery)
        forget_delivery(delivery)
        if entry != NULL:
            delivery_let_go(delivery)
            entry.next = latest
            latest = entry
        # Some of it may not be written yet.
        pn_delivery_abort(delivery)
        delivery = following
    release_all(latest)
    forget_consumer(outlet)
    unclog(outlet)
    if outlet.ours:
        pool_remove(outlet)
    if outlet.consumer.queue != NULL:
        leave_queue(outlet)


cdef void leave_queue(Outlet *outlet) noexcept nogil:
    """Take the outlet's consumer out of its queue; its messages go to other consumers."""
    cdef Queue *queue = outlet.consumer.queue
    cdef Consumer *consumer
    consumer_leave(&outlet.consumer)
    consumer = queue.consumers
    while queue.local_count == 0 and consumer != NULL:
        if consumer.trunk:
            update_readiness(consumer.outlet)
        consumer = consumer.next
    if queue.available:
        queue.sweep = True
        queue_dirty(queue)


cdef void release_all(Entry *entry) noexcept nogil:
    """Release the deliveries without an outcome, the latest first: each goes to the front."""
    cdef Entry *earlier
    while entry != NULL:
        earlier = entry.next
        return_entry(entry)
        entry = earlier


cdef void unclog(Outlet *outlet) noexcept nogil:
    if not outlet.clogged:
        return
    outlet.clogged = False
    list_remove(&outlet.base.peer.clogged, outlet, &outlet.prev_clogged, &outlet.next_clogged)
