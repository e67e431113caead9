"""The transaction coordinator: declare, discharge, commit and roll back (part 4)."""

cdef int CREDIT = 100
# A declare or a discharge is shorter than this.
cdef size_t REQUEST_MAX = 256


cdef struct Request:
    # Whether it is a declare or a discharge; anything else is refused.
    amqp_code what
    uint64_t id
    bint fail
    # Whether a declare names a global transaction.
    bint distributed


cdef Request read_request(const uint8_t *start, size_t size) noexcept nogil:
    """Read an amqp-value section with a declare or a discharge (parts 4.5.2 and 4.5.3)."""
    cdef Request request
    cdef amqp_reader_t reader = amqp_reader(start, size)
    cdef amqp_fields_t fields
    cdef amqp_value_t value
    request.what = AMQP_CODE_NONE
    request.id = 0
    request.fail = False
    request.distributed = False
    # Other sections may stand before the value.
    while amqp_read_section(&reader) != AMQP_SECTION_VALUE:
        if not amqp_read_content(&reader, &value):
            return request
    request.what = amqp_read_descriptor(&reader)
    fields = amqp_read_list(&reader)
    if reader.fault != AMQP_FINE:
        request.what = AMQP_CODE_NONE
    elif request.what == AMQP_CODE_DISCHARGE:
        read_discharge(&fields, &request)
    elif request.what == AMQP_CODE_DECLARE:
        request.distributed = (
            fields.left > 0 and amqp_read_content(&fields.inside, &value)
            and value.constructor != NULL_)
    return request


cdef void read_discharge(amqp_fields_t *fields, Request *request) noexcept nogil:
    cdef amqp_value_t value
    if fields.left < 1 or not amqp_read_content(&fields.inside, &value) or not take_id(
            <const char *>value.content.start, value.content.size, &request.id):
        request.what = AMQP_CODE_NONE
    elif fields.left > 1 and amqp_read_content(&fields.inside, &value):
        request.fail = value.constructor == TRUE_ or (
            value.constructor == BOOLEAN and value.content.start[0] != 0)


cdef void coordinator_receive(Link *link) noexcept nogil:
    """Answer the controller's requests, in order."""
    cdef amqp_delivery_t *delivery
    while (<Coordinator *>link)._awaited == NULL and not link.refused:
        delivery = link.deliveries.current
        if delivery == NULL:
            break
        if delivery.aborted:
            amqp_delivery_settle(delivery)
            continue
        if delivery.partial:
            break
        if delivery.settled_by_peer:
            # A settled request would get no outcome (parts 4.2 and 4.3).
            link_refuse(link, b"amqp:not-allowed", b"a request to the coordinator came settled")
            break
        if not answer_request(link, delivery, next_request(<Coordinator *>link, delivery)) and (
                not link.refused):
            amqp_delivery_settle(delivery)
    top_up(link)
    peer_dirty(link.peer)


cdef void top_up(Link *link) noexcept nogil:
    cdef int credit
    if link.refused or not is_attached(link):
        return
    credit = credit_of(link)
    if credit <= CREDIT // 2 and not amqp_plane_credit(
            &link.peer.plane, link.deliveries.end, <uint32_t>(CREDIT - credit), False):
        link.peer.deliveries.failed = True


cdef Request next_request(
        Coordinator *coordinator, amqp_delivery_t *delivery) noexcept nogil:
    """Return the request of the current delivery, also of a commit that waited for files."""
    cdef Request request
    cdef char[256] buffer
    cdef size_t n
    if coordinator.discharge:
        request.what = AMQP_CODE_DISCHARGE
        request.id = coordinator.discharge
        request.fail = False
        request.distributed = False
        coordinator.discharge = 0
        return request
    n = amqp_delivery_read(delivery, buffer, REQUEST_MAX)
    return read_request(<const uint8_t *>buffer, n)


cdef void reject(
        Link *link, amqp_delivery_t *delivery, const char *name, const char *why) noexcept nogil:
    """Reject a request, or end its link if its source does not take *rejected* (4.2 and 4.3)."""
    if may_reject(pn_terminus_outcomes(pn_link_remote_source(link.link))):
        amqp_delivery_say_rejected(delivery, NULL, name, why)
    else:
        link_refuse(link, name, why)


cdef bint answer_request(Link *link, amqp_delivery_t *delivery, Request request) noexcept nogil:
    """Carry out a request; return whether the answer waits for a sync or a queue's file."""
    cdef Transaction *transaction
    cdef bint waits
    if request.distributed:
        reject(link, delivery, b"amqp:not-implemented", b"there are no global transactions here")
        return False
    if request.what == AMQP_CODE_DECLARE:
        transaction = transaction_new(<Coordinator *>link)
        if transaction == NULL:
            reject(link, delivery, b"amqp:resource-limit-exceeded",
                   b"the connection has too many open transactions")
            return False
        amqp_delivery_say_declared(delivery, &transaction.id)
        return False
    if request.what != AMQP_CODE_DISCHARGE:
        reject(
            link, delivery, b"amqp:decode-error", b"the request is neither declare nor discharge")
        return False
    transaction = transaction_find(link.peer, request.id)
    if transaction == NULL:
        reject(link, delivery, b"amqp:transaction:unknown-id",
               b"there is no such transaction on this connection")
        return False
    withdraw(transaction)
    if request.fail:
        roll_back(transaction)
    elif is_posted_in_part(transaction):
        roll_back(transaction)
        link_refuse(link, b"amqp:transaction:rollback",
                    b"a message of the transaction has not come to its end")
        return False
    elif transaction.incomplete:
        roll_back(transaction)
        reject(
            link, delivery, b"amqp:transaction:rollback", b"work of the transaction was refused")
        return False
    elif must_wait_for_file(<Coordinator *>link, transaction):
        return True
    elif not transaction_write(transaction):
        roll_back(transaction)
        reject(
            link, delivery, b"amqp:transaction:rollback", b"the queue's file takes no more")
        return False
    else:
        waits = transaction._stored and link.peer.container.group
        commit(transaction)
        if waits and accept_later(link, delivery.id):
            amqp_delivery_drop(delivery)
            return True
        if waits:
            # Without memory for the waiter, nobody would answer after the sync.
            amqp_delivery_say_modified(delivery, True, False)
            return False
    amqp_delivery_say(delivery, AMQP_CODE_ACCEPTED)
    return False


cdef bint must_wait_for_file(
        Coordinator *coordinator, const Transaction *transaction) noexcept nogil:
    """Say whether a commit waits for the file of a new queue. Its link is resumed later.

    The search goes on from where it stopped: a queue keeps its file.
    """
    cdef Work *work = coordinator.unopened if coordinator.unopened != NULL else transaction.first
    while work != NULL and not (
            work.message != NULL and is_stored(work.queue, work.message) and work.queue.opening):
        work = work.next
    coordinator.unopened = work
    if work == NULL:
        return False
    coordinator.discharge = transaction.id
    coordinator._awaited = work.queue
    list_push(&work.queue.discharging, coordinator,
              &coordinator._prev_discharging, &coordinator._next_discharging)
    return True


cdef void stop_waiting(Coordinator *coordinator) noexcept nogil:
    list_remove(&coordinator._awaited.discharging, coordinator,
                &coordinator._prev_discharging, &coordinator._next_discharging)
    coordinator._awaited = NULL


cdef void coordinators_resume(Queue *queue) noexcept nogil:
    """Resume the commits that waited for the queue's file, which is open now or has failed."""
    cdef Coordinator *coordinator
    while queue.discharging != NULL and not queue.opening:
        coordinator = queue.discharging
        stop_waiting(coordinator)
        coordinator_receive(&coordinator.base)


cdef void withdraw(Transaction *transaction) noexcept nogil:
    """Drop the messages that wait behind a full queue: their transaction ends without them."""
    cdef Peer *peer = transaction.coordinator.base.peer
    cdef Session *session = peer.sessions
    cdef Link *link
    if not transaction.behind:
        return
    transaction.behind = False
    while session != NULL:
        link = session.links
        while link != NULL:
            if link.kind == INLET and withdraw_from(link, transaction):
                transaction.incomplete = True
                inlet_wake(<Inlet *>link)
            link = link.next
        session = session.next


cdef bint withdraw_from(Link *link, const Transaction *transaction) noexcept nogil:
    """Drop a link's unread messages of a transaction; return whether there was one.

    A message that has not come to its end yet is none of the transaction's work.
    """
    cdef amqp_delivery_t *delivery = link.deliveries.current
    cdef bint found = False
    while delivery != NULL:
        if not delivery.partial and is_work_of(transaction, link, delivery):
            # A settlement without an outcome would count as accepted.
            amqp_delivery_say(delivery, AMQP_CODE_RELEASED)
            delivery.code = AMQP_CODE_NONE
            delivery.aborted = True
            found = True
        delivery = delivery.next
    return found


cdef bint is_work_of(
        const Transaction *transaction, Link *link, const amqp_delivery_t *delivery) noexcept nogil:
    return delivery.code == TRANSACTIONAL_STATE and (
        read_state(link.peer, delivery.peer_state).transaction == transaction)


cdef bint is_posted_in_part(const Transaction *transaction) noexcept nogil:
    """Say whether a message of a transaction has begun and not ended (part 4.4.1)."""
    cdef Session *session = transaction.coordinator.base.peer.sessions
    cdef Link *link
    cdef amqp_delivery_t *delivery
    while session != NULL:
        link = session.links
        while link != NULL:
            delivery = link.deliveries.current if link.kind == INLET else NULL
            while delivery != NULL:
                if delivery.partial and is_work_of(transaction, link, delivery):
                    return True
                delivery = delivery.next
            link = link.next
        session = session.next
    return False


cdef void commit(Transaction *transaction) noexcept nogil:
    """Do all the work of a transaction in its order, after it was written to the files."""
    cdef Work *work = transaction.first
    while work != NULL:
        if work.message != NULL:
            publish(work.queue, work.message)
            work.message = NULL
        else:
            if work.queue != NULL and ends_message(work.outcome):
                # The removal has been written.
                work.entry.message.index = -1
            work_said(work)
            apply_outcome(
                work.entry, work.outcome, work.serial, work.failed, work.undeliverable)
            if work.delivery != NULL:
                work.delivery.context = NULL
                delivery_say(work.delivery, work.outcome, work.failed, work.undeliverable)
                amqp_delivery_settle(work.delivery)
        work = work.next
    peer_dirty(transaction.coordinator.base.peer)
    leave_queues(transaction)
    transaction_free(transaction)


cdef void leave_queues(Transaction *transaction) noexcept nogil:
    """Free temporary queues that only the transaction held. Called last."""
    cdef Work *work = transaction.first
    while work != NULL:
        if work.queue != NULL:
            queue_left(work.queue)
        work = work.next


cdef void roll_back(Transaction *transaction) noexcept nogil:
    """Roll back: drop the messages, and take back the outcomes of deliveries (part 4.4.2).

    A delivery that the consumer settled cannot return to it. Its message is available again,
    with a failed delivery.
    """
    cdef Work *work = transaction.first
    while work != NULL:
        if work.entry != NULL and work.delivery != NULL:
            delivery_hold(work.delivery, work.entry)
        elif work.entry != NULL:
            work.entry.failures += 1
            return_entry(work.entry)
        work = work.next
    leave_queues(transaction)
    transaction_free(transaction)


cdef void coordinator_detached(Link *link) noexcept nogil:
    """Roll back the transactions that the controller did not discharge (part 4.3)."""
    cdef Coordinator *coordinator = <Coordinator *>link
    forget_pending(link)
    if coordinator._awaited != NULL:
        stop_waiting(coordinator)
    while coordinator.transactions != NULL:
        withdraw(coordinator.transactions)
        roll_back(coordinator.transactions)
