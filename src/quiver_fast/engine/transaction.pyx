"""The controller's side of local transactions, AMQP 1.0 part 4."""

from libc.stdint cimport int64_t, uint64_t

from quiver_fast.engine.connection cimport Connection
from quiver_fast.errors import QuiverError, TransactionError
from quiver_fast.proton.libproton cimport (
    PN_ACCEPTED, PN_COORDINATOR, PN_REMOTE_CLOSED, PN_REMOTE_UNINIT, pn_bytes, pn_bytes_t,
    pn_data_clear, pn_data_enter, pn_data_exit, pn_data_get_binary, pn_data_get_ulong,
    pn_data_is_described, pn_data_next, pn_data_put_binary, pn_data_put_described,
    pn_data_put_list, pn_data_put_symbol, pn_data_put_ulong, pn_data_rewind, pn_data_t,
    pn_delivery, pn_delivery_local, pn_delivery_remote, pn_delivery_remote_state,
    pn_delivery_settle, pn_delivery_t, pn_delivery_update, pn_disposition_condition,
    pn_disposition_data, pn_dtag, pn_link_advance, pn_link_credit, pn_link_open,
    pn_link_remote_condition, pn_link_remote_target, pn_link_send, pn_link_state,
    pn_link_target, pn_sender, pn_session_t, pn_terminus_capabilities, pn_terminus_get_type,
    pn_terminus_set_type,
)
from quiver_fast.proton.libsys cimport monotonic_ns

cdef int64_t TIMEOUT = 10 * 1000000000


cdef uint64_t provisional_outcome(pn_delivery_t *delivery) noexcept nogil:
    """Return the outcome inside a transactional-state, 0 if it has none (part 4.5.8)."""
    cdef pn_data_t *data = pn_disposition_data(pn_delivery_remote(delivery))
    cdef uint64_t outcome = 0
    pn_data_rewind(data)
    if not pn_data_next(data) or not pn_data_enter(data):
        return 0
    # Fields: txn-id, outcome.
    if pn_data_next(data) and pn_data_next(data) and pn_data_is_described(data):
        pn_data_enter(data)
        if pn_data_next(data):
            outcome = pn_data_get_ulong(data)
    return outcome


cdef class Coordinator:
    """A control link to the peer's transaction coordinator, one transaction at a time.

    Args:
        connection: an open connection.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.transaction = b""

    cdef int attach(self, pn_session_t *session, str name) except -1:
        """Attach to the coordinator and wait for its credit.

        Raises TransactionError if the peer has none.
        """
        cdef int64_t deadline = monotonic_ns() + TIMEOUT
        cdef pn_data_t *capabilities
        self.link = pn_sender(session, name.encode())
        pn_terminus_set_type(pn_link_target(self.link), PN_COORDINATOR)
        capabilities = pn_terminus_capabilities(pn_link_target(self.link))
        pn_data_put_symbol(capabilities, pn_bytes(23, b"amqp:local-transactions"))
        pn_link_open(self.link)
        try:
            while not self.ready():
                self.connection.advance(deadline, "offer a transaction coordinator")
        except TransactionError:
            raise
        except QuiverError as error:
            # Brokers without transactions end the session or the connection over it.
            raise TransactionError(f"transactions: no coordinator: {error}") from None
        return 0

    def ready(self) -> bool:
        """Say whether the coordinator can be used; raise if the peer refused it."""
        if pn_link_state(self.link) & PN_REMOTE_CLOSED:
            why = self.connection.condition_text(pn_link_remote_condition(self.link))
            raise TransactionError(
                f"{self.connection.peer}: the peer has no transaction coordinator"
                + (f": {why}" if why else ""))
        if pn_link_state(self.link) & PN_REMOTE_UNINIT or pn_link_credit(self.link) <= 0:
            return False
        return pn_terminus_get_type(pn_link_remote_target(self.link)) == PN_COORDINATOR

    cdef uint64_t call(self, bytes body, str purpose) except 0:
        """Send one message to the coordinator and return the state it answers."""
        cdef int64_t deadline = monotonic_ns() + TIMEOUT
        cdef pn_delivery_t *delivery
        cdef uint64_t state
        while pn_link_credit(self.link) <= 0:
            self.ready()
            self.connection.advance(deadline, f"grant credit to {purpose} a transaction")
        self.tag += 1
        tag = b"t%d" % self.tag
        delivery = pn_delivery(self.link, pn_dtag(tag, len(tag)))
        pn_link_send(self.link, body, len(body))
        pn_link_advance(self.link)
        while pn_delivery_remote_state(delivery) == 0:
            self.ready()
            self.connection.advance(deadline, f"{purpose} a transaction")
        state = pn_delivery_remote_state(delivery)
        if state == DECLARED:
            self.transaction = self.declared_id(delivery)
        elif state != PN_ACCEPTED:
            why = self.connection.condition_text(
                pn_disposition_condition(pn_delivery_remote(delivery)))
            raise TransactionError(
                f"{self.connection.peer}: the peer refused to {purpose} a transaction: {why}")
        pn_delivery_settle(delivery)
        return state

    cdef bytes declared_id(self, pn_delivery_t *delivery):
        cdef pn_data_t *data = pn_disposition_data(pn_delivery_remote(delivery))
        cdef pn_bytes_t value
        pn_data_rewind(data)
        if not (pn_data_next(data) and pn_data_enter(data) and pn_data_next(data)):
            raise TransactionError(f"{self.connection.peer}: declared without a transaction id")
        value = pn_data_get_binary(data)
        return value.start[:value.size]

    cdef int declare(self) except -1:
        """Begin a transaction: amqp-value of declare, an empty list (part 4.5.2)."""
        if self.call(b"\x00\x53\x77\x00\x53\x31\x45", "declare") != DECLARED:
            raise TransactionError(f"{self.connection.peer}: the peer declared no transaction")
        return 0

    cdef int discharge(self) except -1:
        """Commit: amqp-value of discharge, [txn-id, fail = false] (part 4.5.3)."""
        size = len(self.transaction)
        fields = b"\x02\xa0" + bytes([size]) + self.transaction + b"\x42"
        self.call(b"\x00\x53\x77\x00\x53\x32\xc0" + bytes([len(fields)]) + fields, "discharge")
        self.transaction = b""
        self.discharged += 1
        return 0

    cdef int enlist(self, pn_delivery_t *delivery, uint64_t outcome) except -1:
        """Put a delivery into the transaction, with ``outcome`` unless it is 0."""
        cdef pn_data_t *data = pn_disposition_data(pn_delivery_local(delivery))
        pn_data_clear(data)
        pn_data_put_list(data)
        pn_data_enter(data)
        pn_data_put_binary(data, pn_bytes(len(self.transaction), self.transaction))
        if outcome:
            pn_data_put_described(data)
            pn_data_enter(data)
            pn_data_put_ulong(data, outcome)
            pn_data_put_list(data)
            pn_data_exit(data)
        pn_data_exit(data)
        pn_delivery_update(delivery, TRANSACTIONAL_STATE)
        return 0
