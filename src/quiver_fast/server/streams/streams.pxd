from libc.stdint cimport uint64_t

from quiver_fast.amqp.data_plane cimport amqp_bytes_t, amqp_delivery_t
from quiver_fast.server.messages.messages cimport Chunk, Message
from quiver_fast.server.model.structures cimport Container, Inlet, Outlet, Peer, Queue, Stream
from quiver_fast.server.selectors.selectors cimport filter_matches

cdef void pool_add(Outlet *outlet) noexcept nogil
cdef void pool_remove(Outlet *outlet) noexcept nogil

cdef enum:
    # Idle links that a connection keeps, and the ms after which further ones are detached.
    POOL_MAX = 128
    TRIM_AFTER = 100

cdef inline Stream *stream_of(const Message *message) noexcept nogil:
    return <Stream *>message.stream

cdef inline bint is_chosen(Queue *subscription, const Message *message) noexcept nogil:
    if subscription.not_from and subscription.not_from == message.origin:
        return False
    if subscription.filter == NULL:
        return True
    if message.judged == 0 or subscription.judged != message.judged:
        subscription_judge(subscription, message)
    return subscription.fits

cdef inline void subscription_judge(Queue *subscription, const Message *message) noexcept nogil:
    """Ask a subscription's selector for a message, and keep the answer."""
    subscription.fits = filter_matches(subscription.filter, message)
    subscription.judged = message.judged
    subscription.container.judging_left -= subscription.filter.cost

cdef inline bint is_for(Queue *subscription, const Message *message) noexcept nogil:
    # A stream from another server goes to no other server: it would come back.
    return not (subscription.trunk and message.from_trunk) and (
        not subscription.is_filtered or is_chosen(subscription, message))

cdef inline int subscription_count(const Queue *topic, const Message *message) noexcept nogil:
    cdef Queue *subscription = topic.subscriptions
    cdef int count = 0
    while subscription != NULL:
        count += is_for(subscription, message)
        subscription = subscription.next_subscription
    return count

cdef bint stream_begin(
    Inlet *inlet, amqp_delivery_t *delivery, Message *message, int entries) noexcept nogil
cdef void stream_leave(Message *message, Chunk *position) noexcept nogil
cdef void stream_reason(const Message *message, amqp_bytes_t rejected) noexcept nogil
cdef void stream_decide(
    Stream *stream, uint64_t outcome, bint failed, bint undeliverable) noexcept nogil
cdef void stream_received(Stream *stream) noexcept nogil
cdef void stream_orphan(Stream *stream) noexcept nogil
cdef void reader_join(Outlet **readers, Outlet *outlet) noexcept nogil
cdef void reader_leave(Outlet **readers, Outlet *outlet) noexcept nogil
cdef void sweep_streams(Queue *queue) noexcept nogil

cdef void trunk_opened(Peer *peer) noexcept nogil
cdef void trunk_lost(Peer *peer) noexcept nogil
cdef void trunk_detached(Inlet *inlet) noexcept nogil
cdef bint announce_to(Peer *peer) noexcept nogil
cdef void trunks_announce(Queue *queue) noexcept nogil
cdef void trunks_withdraw(Queue *queue) noexcept nogil
cdef void trunks_top_up(Queue *queue) noexcept nogil

cdef Outlet *stream_outlet(Outlet *consumer, bint *later) noexcept nogil
cdef void trim_pool(Peer *peer) noexcept nogil
