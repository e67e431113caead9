"""What a transaction holds until it is discharged, AMQP 1.0 part 4.

A transaction is a list of work in the order it came: messages to publish and
outcomes to apply. server.coordinator begins, commits and rolls back.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from quiver_fast.proton.libproton cimport (
    PN_ACCEPTED, PN_MODIFIED, pn_bytes, pn_bytes_t, pn_data_clear, pn_data_enter, pn_data_exit,
    pn_data_get_binary, pn_data_get_bool, pn_data_get_ulong, pn_data_is_described, pn_data_next,
    pn_data_put_binary, pn_data_put_described, pn_data_put_list, pn_data_put_ulong,
    pn_data_rewind, pn_data_t, pn_delivery_local, pn_delivery_remote, pn_delivery_t,
    pn_delivery_update, pn_disposition_data,
)
from quiver_fast.server.message cimport Message, message_release
from quiver_fast.server.structures cimport (
    Entry, Link, Outlet, Peer, Queue, Transaction, Work,
)


cdef Transaction *transaction_new(Link *coordinator) noexcept nogil:
    """Begin a transaction on a coordinator link; NULL without memory."""
    cdef Transaction *transaction = <Transaction *>calloc(1, sizeof(Transaction))
    cdef Peer *peer = coordinator.peer
    if transaction == NULL:
        return NULL
    peer.container.next_serial += 1
    transaction.id = peer.container.next_serial
    transaction.coordinator = coordinator
    transaction.next = peer.transactions
    peer.transactions = transaction
    return transaction


cdef Transaction *transaction_find(Peer *peer, uint64_t id) noexcept nogil:
    """Return the connection's transaction with this id, or NULL."""
    cdef Transaction *transaction = peer.transactions
    while transaction != NULL and transaction.id != id:
        transaction = transaction.next
    return transaction


cdef void transaction_free(Transaction *transaction) noexcept nogil:
    """Forget a transaction, whose work was done or undone; messages left in it are dropped."""
    cdef Transaction **place = &transaction.coordinator.peer.transactions
    cdef Work *work = transaction.first
    cdef Work *following
    while place[0] != transaction:
        place = &place[0].next
    place[0] = transaction.next
    while work != NULL:
        following = work.next
        if work.message != NULL:
            message_release(work.message)
        free(work)
        work = following
    free(transaction)


cdef bint take_id(const char *start, size_t size, uint64_t *id) noexcept nogil:
    """Read a transaction's id; only those that we gave are valid."""
    if size != sizeof(uint64_t):
        return False
    memcpy(id, start, size)
    return True


cdef StateInTransaction read_state(Peer *peer, pn_delivery_t *delivery) noexcept nogil:
    """Read a transactional-state: [txn-id, outcome] (part 4.5.8)."""
    cdef pn_data_t *data = pn_disposition_data(pn_delivery_remote(delivery))
    cdef StateInTransaction state
    cdef pn_bytes_t value
    cdef uint64_t id
    state.transaction = NULL
    state.outcome = 0
    state.failed = False
    state.undeliverable = False
    pn_data_rewind(data)
    if not pn_data_next(data) or not pn_data_enter(data) or not pn_data_next(data):
        return state
    value = pn_data_get_binary(data)
    if not take_id(value.start, value.size, &id):
        return state
    state.transaction = transaction_find(peer, id)
    if pn_data_next(data) and pn_data_is_described(data):
        read_outcome(data, &state)
    return state


cdef void read_outcome(pn_data_t *data, StateInTransaction *state) noexcept nogil:
    pn_data_enter(data)
    if not pn_data_next(data):
        return
    state.outcome = pn_data_get_ulong(data)
    # modified: [delivery-failed, undeliverable-here, …] (part 3.4.5).
    if state.outcome == PN_MODIFIED and pn_data_next(data) and pn_data_enter(data):
        if pn_data_next(data):
            state.failed = pn_data_get_bool(data)
        if pn_data_next(data):
            state.undeliverable = pn_data_get_bool(data)


cdef void answer_in_transaction(
        const Transaction *transaction, pn_delivery_t *delivery, uint64_t outcome) noexcept nogil:
    """Give a delivery a transactional-state with a provisional outcome."""
    cdef pn_data_t *data = pn_disposition_data(pn_delivery_local(delivery))
    pn_data_clear(data)
    pn_data_put_list(data)
    pn_data_enter(data)
    pn_data_put_binary(
        data, pn_bytes(sizeof(uint64_t), <const char *>&transaction.id))
    pn_data_put_described(data)
    pn_data_enter(data)
    pn_data_put_ulong(data, outcome)
    pn_data_put_list(data)
    pn_data_exit(data)
    pn_data_exit(data)
    pn_delivery_update(delivery, TRANSACTIONAL_STATE)


cdef Work *add_work(Transaction *transaction) noexcept nogil:
    cdef Work *work = <Work *>calloc(1, sizeof(Work))
    if work == NULL:
        transaction.incomplete = True
        return NULL
    if transaction.last == NULL:
        transaction.first = work
    else:
        transaction.last.next = work
    transaction.last = work
    return work


cdef bint enlist_message(
        Transaction *transaction, Message *message, Queue *queue) noexcept nogil:
    """Keep a message until commit; takes over its reference. False without memory."""
    cdef Work *work = add_work(transaction)
    if work == NULL:
        return False
    transaction.bytes += message.size
    work.message = message
    work.queue = queue
    queue.links += 1
    return True


cdef bint enlist_outcome(
        const StateInTransaction *state, Outlet *outlet, Entry *entry,
        pn_delivery_t *delivery) noexcept nogil:
    """Keep an outcome until commit. ``delivery`` is NULL if the consumer settled it."""
    cdef Work *work = add_work(state.transaction)
    if work == NULL:
        return False
    work.entry = entry
    work.queue = entry.queue
    if work.queue != NULL:
        # The outcome must find the queue, even when the consumer's link is gone.
        work.queue.links += 1
    work.outlet = outlet
    work.delivery = delivery
    work.outcome = state.outcome if state.outcome else PN_ACCEPTED
    work.failed = state.failed
    work.undeliverable = state.undeliverable
    return True


cdef void forget_delivery(Peer *peer, pn_delivery_t *delivery) noexcept nogil:
    """Leave to the commit an outcome whose delivery the consumer settles after all."""
    cdef Transaction *transaction = peer.transactions
    cdef Work *work
    while transaction != NULL:
        work = transaction.first
        while work != NULL:
            if work.delivery == delivery:
                work.delivery = NULL
            work = work.next
        transaction = transaction.next


cdef void forget_outlet(Peer *peer, Outlet *outlet) noexcept nogil:
    """Leave the outcomes of a link that is gone to the commit, without their deliveries."""
    cdef Transaction *transaction = peer.transactions
    cdef Work *work
    while transaction != NULL:
        work = transaction.first
        while work != NULL:
            if work.outlet == outlet:
                work.delivery = NULL
                work.outlet = NULL
            work = work.next
        transaction = transaction.next
