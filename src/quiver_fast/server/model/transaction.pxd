from libc.stdint cimport uint64_t

from quiver_fast.amqp.data_plane cimport amqp_bytes_t, amqp_delivery_t
from quiver_fast.loop.balance cimport DELIVERY, freed, made
from quiver_fast.server.messages.messages cimport Message
from quiver_fast.server.model.structures cimport Coordinator, Entry, Peer, Queue, Transaction

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


cdef Transaction *transaction_new(Coordinator *coordinator) noexcept nogil
cdef Transaction *transaction_find(Peer *peer, uint64_t id) noexcept nogil
cdef void transaction_free(Transaction *transaction) noexcept nogil
cdef StateInTransaction read_state(Peer *peer, amqp_bytes_t said) noexcept nogil
cdef void state_lost(Peer *peer, amqp_bytes_t said) noexcept nogil
cdef void state_waits(Peer *peer, amqp_bytes_t said) noexcept nogil
cdef void answer_in_transaction(
    const Transaction *transaction, amqp_delivery_t *delivery,
    uint64_t outcome) noexcept nogil
cdef bint enlist_message(
    Transaction *transaction, Message *message, Queue *queue) noexcept nogil
cdef bint enlist_outcome(
    const StateInTransaction *state, uint64_t serial, Entry *entry, Message *changed,
    amqp_delivery_t *delivery) noexcept nogil
cdef void forget_delivery(amqp_delivery_t *delivery) noexcept nogil
cdef bint take_id(const char *start, size_t size, uint64_t *id) noexcept nogil
