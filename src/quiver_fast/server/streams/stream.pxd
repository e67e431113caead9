from libc.stdint cimport uint64_t

from quiver_fast.amqp.data_plane cimport amqp_bytes_t, amqp_delivery_t
from quiver_fast.server.messages.message cimport Chunk, Message
from quiver_fast.server.model.structures cimport Entry, Inlet, Outlet, Queue, Stream
from quiver_fast.server.selectors.filter cimport filter_matches
from quiver_fast.server.selectors.steps cimport Filter

cdef inline Stream *stream_of(const Message *message) noexcept nogil:
    return <Stream *>message.stream

cdef inline bint is_chosen(const Queue *subscription, const Message *message) noexcept nogil:
    if subscription.not_from and subscription.not_from == message.origin:
        return False
    return subscription.filter == NULL or filter_matches(
        <Filter *>subscription.filter, message)

cdef inline bint is_for(const Queue *subscription, const Message *message) noexcept nogil:
    # A stream from another server goes to no other server: it would come back.
    return not (subscription.trunk and message.from_trunk) and (
        not subscription.choosy or is_chosen(subscription, message))

cdef inline int subscription_count(const Queue *topic, const Message *message) noexcept nogil:
    cdef const Queue *subscription = topic.subscriptions
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
