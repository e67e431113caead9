"""Producers that wait until a queue has room, or until its file is open."""

from quiver_fast.proton.libproton cimport (
    PN_MODIFIED, pn_delivery_local, pn_delivery_settle, pn_delivery_t, pn_delivery_update,
    pn_disposition_set_failed, pn_link_current,
)
from quiver_fast.server.addresses.address cimport last_queue
from quiver_fast.server.addresses.broker cimport inlet_bind
from quiver_fast.server.connections.peer cimport link_refuse
from quiver_fast.server.messages.message cimport Message, message_release
from quiver_fast.server.model.lists cimport list_push, list_remove
from quiver_fast.server.model.structures cimport Inlet, Queue
from quiver_fast.server.streams.stream cimport stream_begin, stream_decide, stream_of


cdef bint inlet_must_wait(Inlet *inlet) noexcept nogil:
    """Say whether the link has to wait: its queue has no room for one more message, or no file.

    It is resumed later. Unread bytes stay in the session's window, which stops the
    producer.
    """
    cdef Queue *full
    if inlet.blocked_by != NULL:
        return True
    if inlet.receiving != NULL:
        return False
    # An anonymous terminus waits for the queue of its last message.
    full = full_queue(inlet.queue if inlet.queue != NULL else last_queue(inlet))
    if full == NULL:
        return False
    begin_waiting(inlet, full)
    return True


cdef Queue *full_queue(Queue *queue) noexcept nogil:
    """Return the queue that has no room: this one, or a subscription of this topic."""
    if queue == NULL:
        return NULL
    if not queue.multicast:
        return queue if queue.bytes >= queue.limit else NULL
    queue = queue.subscriptions
    while queue != NULL and queue.bytes < queue.limit:
        queue = queue.next_subscription
    return queue


cdef void begin_waiting(Inlet *inlet, Queue *queue) noexcept nogil:
    inlet.blocked_by = queue
    list_push(&queue.waiting, inlet, &inlet.prev_waiting, &inlet.next_waiting)


cdef void end_waiting(Inlet *inlet) noexcept nogil:
    """Leave the queue's list: the link ends."""
    if inlet.blocked_by == NULL:
        return
    list_remove(&inlet.blocked_by.waiting, inlet, &inlet.prev_waiting, &inlet.next_waiting)
    inlet.blocked_by = NULL


cdef void wait_for_file(Inlet *inlet, Message *message, Queue *queue) noexcept nogil:
    """Keep a message that has to be in its queue's file until the queue has one."""
    inlet.receiving = message
    inlet_bind(inlet, queue)
    queue.container.want_store(queue)
    begin_waiting(inlet, queue)


cdef void refuse_waiting(Inlet *inlet) noexcept nogil:
    """Refuse the messages of producers whose queue's file cannot be opened."""
    while inlet != NULL:
        if inlet.receiving != NULL:
            refuse_message(inlet, pn_link_current(inlet.base.link), inlet.receiving)
        inlet = inlet.next_waiting


cdef void refuse_message(
        Inlet *inlet, pn_delivery_t *delivery, Message *message) noexcept nogil:
    if message.complete:
        inlet.receiving = NULL
        message_release(message)
        refuse_for_now(delivery)
    elif stream_begin(inlet, delivery, message, 0):
        # The rest of the message is dropped.
        stream_decide(stream_of(message), PN_MODIFIED, True, False)
    else:
        link_refuse(&inlet.base, b"amqp:resource-limit-exceeded",
                    b"the server is out of memory")


cdef void refuse_for_now(pn_delivery_t *delivery) noexcept nogil:
    """The disk is full: the sender may try again (modified: delivery-failed)."""
    pn_disposition_set_failed(pn_delivery_local(delivery), True)
    pn_delivery_update(delivery, PN_MODIFIED)
    pn_delivery_settle(delivery)
