from libc.stdint cimport uint64_t

from quiver_fast.proton.libproton cimport pn_data_t, pn_delivery_get_context, pn_delivery_t
from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Coordinator, Entry, Peer, Queue, Transaction

# The delivery state that carries a transaction's id, part 4.5.8.
cdef enum:
    TRANSACTIONAL_STATE = 0x34

cdef struct StateInTransaction:
    Transaction *transaction
    uint64_t outcome
    bint failed
    bint undeliverable
    # All of the state, where its outcome has annotations; it lives as long as the delivery.
    pn_data_t *annotated

cdef inline Entry *entry_of(pn_delivery_t *delivery) noexcept nogil:
    """Return a delivery's entry; NULL if it has none, or a transaction has its outcome."""
    cdef void *context = pn_delivery_get_context(delivery)
    return NULL if <size_t>context & 1 else <Entry *>context


cdef Transaction *transaction_new(Coordinator *coordinator) noexcept nogil
cdef Transaction *transaction_find(Peer *peer, uint64_t id) noexcept nogil
cdef void transaction_free(Transaction *transaction) noexcept nogil
cdef StateInTransaction read_state(Peer *peer, pn_delivery_t *delivery) noexcept nogil
cdef void answer_in_transaction(
    const Transaction *transaction, pn_delivery_t *delivery, uint64_t outcome) noexcept nogil
cdef bint enlist_message(
    Transaction *transaction, Message *message, Queue *queue) noexcept nogil
cdef bint enlist_outcome(
    const StateInTransaction *state, uint64_t serial, Entry *entry,
    pn_delivery_t *delivery) noexcept nogil
cdef void forget_delivery(pn_delivery_t *delivery) noexcept nogil
cdef bint take_id(const char *start, size_t size, uint64_t *id) noexcept nogil
