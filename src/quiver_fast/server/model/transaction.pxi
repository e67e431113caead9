"""The work of a transaction until it is discharged (AMQP 1.0 part 4).

A transaction is a list of work in the order it came: messages to publish and
outcomes to apply. server.transactions.coordinator begins, commits and rolls back.
"""

# The delivery state that carries a transaction's id, part 4.5.8.
cdef enum:
    TRANSACTIONAL_STATE = 0x34

cdef struct StateInTransaction:
    Transaction *transaction
    uint64_t outcome
    bint failed
    bint undeliverable
    # Those of *modified*, as long as the delivery's state.
    amqp_bytes_t annotations

cdef inline Entry *entry_of(const amqp_delivery_t *delivery) noexcept nogil:
    """Return a delivery's entry; NULL if it has none, or a transaction has its outcome."""
    return NULL if <size_t>delivery.context & 1 else <Entry *>delivery.context

cdef inline void delivery_hold(amqp_delivery_t *delivery, Entry *entry) noexcept nogil:
    """Attach an entry to a delivery to a consumer, until its outcome."""
    made(DELIVERY)
    delivery.context = entry

cdef inline void delivery_let_go(amqp_delivery_t *delivery) noexcept nogil:
    """Detach the entry from a delivery, if it has one."""
    if delivery.context != NULL:
        freed(DELIVERY)
    delivery.context = NULL


cdef enum:
    # The bits of an id that are a place in the table. They limit the number of open transactions.
    PLACE_BITS = 20
    FIRST_PLACES = 8


cdef Transaction *transaction_new(Coordinator *coordinator) noexcept nogil:
    """Begin a transaction on a coordinator link; NULL without memory or a free place.

    The low bits of its id are its place in the connection's table.
    """
    cdef Transaction *transaction = <Transaction *>calloc(1, sizeof(Transaction))
    cdef Peer *peer = coordinator.base.peer
    cdef uint32_t place
    if transaction == NULL or not take_place(peer, &place):
        free(transaction)
        return NULL
    peer.container.next_serial += 1
    transaction.id = peer.container.next_serial << PLACE_BITS | place
    transaction.coordinator = coordinator
    list_push(&coordinator.transactions, transaction, &transaction.prev, &transaction.next)
    peer.transactions[place] = transaction
    return transaction


cdef bint take_place(Peer *peer, uint32_t *place) noexcept nogil:
    """Take a free place in the table of transactions; False if there is none."""
    if peer.transaction_count >= peer.container.limits.transactions or (
            peer.transaction_count == peer.transaction_capacity and not add_places(peer)):
        return False
    place[0] = peer.free_transaction
    peer.free_transaction = <uint32_t>(<size_t>peer.transactions[place[0]] >> 1)
    peer.transaction_count += 1
    return True


cdef bint add_places(Peer *peer) noexcept nogil:
    cdef uint32_t capacity = 2 * peer.transaction_capacity + FIRST_PLACES
    cdef uint32_t place
    cdef Transaction **grown = <Transaction **>realloc(
        peer.transactions, capacity * sizeof(Transaction *))
    if grown == NULL:
        return False
    for place in range(peer.transaction_capacity, capacity):
        grown[place] = free_place(place + 1)
    peer.free_transaction = peer.transaction_capacity
    peer.transactions = grown
    peer.transaction_capacity = capacity
    return True


cdef inline Transaction *free_place(uint32_t following) noexcept nogil:
    """Encode the next free place as an odd number: no pointer is odd."""
    return <Transaction *>(<size_t>following << 1 | 1)


cdef Transaction *transaction_find(Peer *peer, uint64_t id) noexcept nogil:
    """Return the connection's transaction with this id, or NULL.

    A transaction whose commit waits for a file counts as discharged and takes no more work.
    """
    cdef uint64_t place = id & ((<uint64_t>1 << PLACE_BITS) - 1)
    cdef Transaction *transaction
    if place >= peer.transaction_capacity:
        return NULL
    transaction = peer.transactions[place]
    if <size_t>transaction & 1 or transaction.id != id or transaction.coordinator.discharge == id:
        return NULL
    return transaction


cdef void transaction_free(Transaction *transaction) noexcept nogil:
    """Free a transaction after its end; messages left in it are dropped."""
    cdef Peer *peer = transaction.coordinator.base.peer
    cdef uint32_t place = <uint32_t>(transaction.id & ((<uint64_t>1 << PLACE_BITS) - 1))
    cdef Work *work = transaction.first
    cdef Work *following
    list_remove(&transaction.coordinator.transactions, transaction,
                &transaction.prev, &transaction.next)
    peer.transactions[place] = free_place(peer.free_transaction)
    peer.free_transaction = place
    peer.transaction_count -= 1
    holder_add(&peer.holder, -<int64_t>transaction.bytes)
    while work != NULL:
        following = work.next
        if work.message != NULL:
            message_release(work.message)
        if work.changed != NULL:
            message_release(work.changed)
        free(work)
        work = following
    free(transaction)


cdef bint take_id(const char *start, size_t size, uint64_t *id) noexcept nogil:
    """Read a transaction's id; only ids that this server gave are valid."""
    if size != sizeof(uint64_t):
        return False
    memcpy(id, start, size)
    return True


cdef StateInTransaction read_state(Peer *peer, amqp_bytes_t encoded) noexcept nogil:
    """Read a transactional-state: [txn-id, outcome] (part 4.5.8)."""
    cdef StateInTransaction state
    cdef amqp_state_t said
    cdef uint64_t id
    memset(&state, 0, sizeof(state))
    if amqp_read_state(encoded, &said) != 0:
        return state
    if not take_id(<const char *>said.txn_id.start, said.txn_id.size, &id):
        return state
    state.transaction = transaction_find(peer, id)
    state.outcome = said.outcome
    state.failed = said.delivery_failed
    state.undeliverable = said.undeliverable_here
    state.annotations = said.annotations
    return state


cdef void state_lost(Peer *peer, amqp_bytes_t said) noexcept nogil:
    """Let the transaction of a state fail, because its message is lost (part 4.4.4.1)."""
    cdef Transaction *transaction = read_state(peer, said).transaction
    if transaction != NULL:
        transaction.incomplete = True


cdef void state_waits(Peer *peer, amqp_bytes_t said) noexcept nogil:
    """Note that the message of a state may be unread when its transaction is discharged."""
    cdef Transaction *transaction = read_state(peer, said).transaction
    if transaction != NULL:
        transaction.behind = True


cdef void answer_in_transaction(
        const Transaction *transaction, amqp_delivery_t *delivery,
        uint64_t outcome) noexcept nogil:
    """Give a delivery a transactional-state with a provisional outcome."""
    amqp_delivery_say_enlisted(delivery, &transaction.id, <amqp_code>outcome)


cdef void add_bytes(Transaction *transaction, size_t bytes) noexcept nogil:
    transaction.bytes += bytes
    holder_add(&transaction.coordinator.base.peer.holder, <int64_t>bytes)


cdef Work *add_work(Transaction *transaction) noexcept nogil:
    cdef Work *work = <Work *>calloc(1, sizeof(Work))
    if work == NULL:
        transaction.incomplete = True
        return NULL
    add_bytes(transaction, sizeof(Work))
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
    add_bytes(transaction, message_memory(message))
    work.message = message
    work.queue = queue
    queue.links += 1
    return True


cdef bint enlist_outcome(
        const StateInTransaction *state, uint64_t serial, Entry *entry, Message *changed,
        amqp_delivery_t *delivery) noexcept nogil:
    """Keep an outcome until commit; ``delivery`` is NULL if the consumer settled it.

    ``serial`` is the serial number of the link that gave the outcome. A changed message is kept
    for the entry.
    """
    cdef Work *work = add_work(state.transaction)
    if work == NULL:
        return False
    work.entry = entry
    work.queue = entry.queue
    if work.queue != NULL:
        # The outcome needs the queue, even after the consumer's link has ended.
        work.queue.links += 1
    work.serial = serial
    work.delivery = delivery
    work.outcome = state.outcome if state.outcome else PN_ACCEPTED
    work.failed = state.failed
    work.undeliverable = state.undeliverable
    work.changed = changed
    if changed != NULL:
        add_bytes(state.transaction, message_memory(changed))
    if delivery != NULL:
        delivery_let_go(delivery)
        delivery.context = <void *>(<size_t>work | 1)
    return True


cdef void forget_delivery(amqp_delivery_t *delivery) noexcept nogil:
    """Detach an outcome from its delivery, which was settled or whose link has ended."""
    cdef size_t context = <size_t>delivery.context
    if context & 1:
        (<Work *>(context & ~<size_t>1)).delivery = NULL
        delivery.context = NULL
