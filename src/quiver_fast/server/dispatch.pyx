"""Which entry goes to which consumer: one each in turn, streams to who has fewest."""

from libc.stdint cimport int64_t

from quiver_fast.proton.libproton cimport PN_RELEASED, pn_link_drained, pn_link_get_drain
from quiver_fast.server.message cimport Message
from quiver_fast.server.outcome cimport apply_outcome, entry_done
from quiver_fast.server.outlet cimport outlet_idle, outlet_send
from quiver_fast.server.queue cimport (
    consumer_browse, consumer_unready, entry_barred, entry_copy, queue_acquire,
)
from quiver_fast.server.stream cimport stream_leave
from quiver_fast.server.streamlink cimport stream_outlet
from quiver_fast.server.structures cimport Consumer, Entry, Outlet, Queue, peer_dirty


cdef void queue_dispatch(Queue *queue) noexcept nogil:
    """Give available entries to consumers, in order, as far as they can take them."""
    cdef Entry *entry
    cdef Entry *following
    if queue.next_expiry and queue.next_expiry <= queue.container.now_ms:
        expire(queue)
    if queue.browser_count:
        serve_browsers(queue)
    if queue.streams and (queue.sweep or queue.consumer_count == 0):
        sweep(queue)
    queue.sweep = False
    entry = queue.head
    while entry != NULL:
        following = entry.next
        if entry.message.stream != NULL:
            if not dispatch_stream(queue, entry):
                break
        elif queue.ready == NULL:
            if not streams_pass(queue):
                break
        else:
            dispatch_entry(queue, entry)
        entry = following
    if queue.draining:
        answer_drains(queue)


cdef bint streams_pass(Queue *queue) noexcept nogil:
    """Say whether streams overtake messages that wait for credit: they need none of that link."""
    return queue.streams > 0 and least_busy(queue, queue.local_count == 0) != NULL


cdef void sweep(Queue *queue) noexcept nogil:
    """End waiting streams that nobody can take any more, whatever is before them."""
    cdef Entry *entry = queue.head
    cdef Entry *following
    cdef size_t left = queue.streams
    while left:
        following = entry.next
        if entry.message.stream != NULL:
            left -= 1
            if entry.message.aborted:
                drop_aborted(queue, entry)
            elif queue.consumer_count == 0 or is_stranded(queue, entry):
                release_stream(queue, entry)
        entry = following


cdef bint is_stranded(const Queue *queue, const Entry *entry) noexcept nogil:
    """Say whether another server sent it for consumers that are gone."""
    return entry.message.routed and queue.local_count == 0


cdef void dispatch_entry(Queue *queue, Entry *entry) noexcept nogil:
    """Give an entry to the next ready consumer that may have it."""
    cdef Consumer *consumer = queue.ready
    if entry.barred != NULL:
        consumer = first_allowed(queue, entry)
        if consumer == NULL:
            return
    queue_acquire(queue, entry)
    # Whoever got one goes last, if it stays in the ring at all.
    if queue.ready == consumer:
        queue.ready = consumer.next_ready
    outlet_send(consumer.outlet, entry)


cdef Consumer *first_allowed(Queue *queue, Entry *entry) noexcept nogil:
    """Return the first ready consumer whose link did not call the entry undeliverable."""
    cdef Consumer *first = queue.ready
    cdef Consumer *consumer = first
    while True:
        if not entry_barred(entry, consumer.outlet.base.serial):
            return consumer
        consumer = consumer.next_ready
        if consumer == first:
            return NULL


cdef bint dispatch_stream(Queue *queue, Entry *entry) noexcept nogil:
    """Give a stream to a consumer; return False if it must wait for one.

    To a peer that offers qd.streaming-links it goes by a link of its own, whatever
    the credit of the consumer's link; to any other by that link, as its one message.
    """
    cdef Consumer *consumer
    cdef Outlet *outlet
    cdef bint later
    if is_stranded(queue, entry):
        release_stream(queue, entry)
        return True
    if entry.message.complete and queue.ready != NULL:
        # It came to its end before it was sent on: no stream any more.
        dispatch_entry(queue, entry)
        return True
    if entry.message.complete:
        return False
    consumer = least_busy(queue, queue.local_count == 0)
    if consumer == NULL:
        return False
    outlet = consumer.outlet
    if outlet.base.peer.streaming_links:
        outlet = stream_outlet(consumer.outlet, &later)
        if outlet == NULL and later:
            return False
        if outlet == NULL:
            release_stream(queue, entry)
            return True
    queue_acquire(queue, entry)
    consumer.outlet.streams += 1
    outlet.consumer_link = consumer.outlet
    outlet_send(outlet, entry)
    return True


cdef Consumer *least_busy(Queue *queue, bint trunks) noexcept nogil:
    """Return who runs the fewest streams, of those that can take one more; NULL if nobody can.

    Args:
        trunks: other servers are asked.
    """
    cdef Consumer *consumer = queue.consumers
    cdef Consumer *best = NULL
    while consumer != NULL:
        if consumer.trunk == trunks and not consumer.browser and (
                consumer.ready or consumer.outlet.base.peer.streaming_links):
            if best == NULL or consumer.outlet.streams < best.outlet.streams:
                best = consumer
        consumer = consumer.next
    return best


cdef void drop_aborted(Queue *queue, Entry *entry) noexcept nogil:
    queue_acquire(queue, entry)
    stream_leave(entry.message, entry.message.first)
    entry_done(entry)


cdef void release_stream(Queue *queue, Entry *entry) noexcept nogil:
    """Nobody is there to take a stream: its sender hears so, and may send it again."""
    queue_acquire(queue, entry)
    stream_leave(entry.message, entry.message.first)
    apply_outcome(entry, PN_RELEASED, 0, False, False)


cdef void serve_browsers(Queue *queue) noexcept nogil:
    cdef Consumer *consumer = queue.consumers
    while consumer != NULL:
        while consumer.browser and outlet_idle(consumer.outlet):
            if not send_copy(consumer):
                break
        consumer = consumer.next


cdef bint send_copy(Consumer *browser) noexcept nogil:
    """Send a browser its next copy, whose outcome changes nothing here (part 3.5.3)."""
    cdef Entry *entry = consumer_browse(browser)
    cdef Entry *copy
    if entry == NULL:
        return False
    # A stream passes by; there is nothing to come back to.
    if entry.message.stream != NULL:
        return True
    copy = entry_copy(entry)
    if copy == NULL:
        return False
    outlet_send(browser.outlet, copy)
    return True


cdef void expire(Queue *queue) noexcept nogil:
    """Drop available entries whose time to live is over."""
    cdef int64_t now = queue.container.now_ms
    cdef int64_t next_expiry = 0
    cdef Message *message
    cdef Entry *entry = queue.head
    cdef Entry *following
    while entry != NULL:
        following = entry.next
        message = entry.message
        if message.expires and message.expires <= now and message.stream == NULL:
            queue_acquire(queue, entry)
            entry_done(entry)
        elif message.expires and (next_expiry == 0 or message.expires < next_expiry):
            next_expiry = max(message.expires, now + 1)
        entry = following
    queue.next_expiry = next_expiry


cdef void answer_drains(Queue *queue) noexcept nogil:
    """Take back the credit of consumers that asked for a drain and got all there was."""
    cdef Consumer *consumer = queue.consumers
    queue.draining = False
    while consumer != NULL:
        if pn_link_get_drain(consumer.outlet.base.link):
            if consumer.outlet.sending != NULL or consumer.outlet.clogged:
                queue.draining = True
            else:
                pn_link_drained(consumer.outlet.base.link)
                consumer_unready(consumer)
                peer_dirty(consumer.outlet.base.peer)
        consumer = consumer.next
