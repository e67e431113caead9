"""The controller's side of local transactions, AMQP 1.0 part 4.

Only the attach waits. A discharge and the declare of the next transaction are sent
together, and the loop of the run takes their answers as they come.

    enlist … enlist   discharge + declare   ─── one round trip ───   enlist …
"""

from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.string cimport memcpy

from quiver_fast.engine.connection cimport Connection
from quiver_fast.errors import QuiverError, SignalError, TransactionError
from quiver_fast.proton.libproton cimport (
    PN_ACCEPTED, PN_COORDINATOR, PN_REMOTE_CLOSED, PN_REMOTE_UNINIT, pn_bytes, pn_bytes_t,
    pn_condition_is_set, pn_condition_t, pn_data_clear, pn_data_enter, pn_data_exit,
    pn_data_get_binary, pn_data_get_ulong, pn_data_is_described, pn_data_next, pn_data_put_binary,
    pn_data_put_described, pn_data_put_list, pn_data_put_symbol, pn_data_put_ulong,
    pn_data_rewind, pn_data_t, pn_delivery, pn_delivery_local, pn_delivery_remote,
    pn_delivery_remote_state, pn_delivery_settle, pn_delivery_t, pn_delivery_update,
    pn_disposition_condition, pn_disposition_data, pn_dtag, pn_link_advance, pn_link_credit,
    pn_link_open, pn_link_remote_condition, pn_link_remote_target, pn_link_send, pn_link_state,
    pn_link_target, pn_sender, pn_session_remote_condition, pn_session_state, pn_session_t,
    pn_terminus_capabilities, pn_terminus_get_type, pn_terminus_set_type,
)
from quiver_fast.proton.libsys cimport monotonic_ns

# A coordinator that does not answer in this time never will.
cdef int64_t TIMEOUT = 10 * 1000000000

# amqp-value of declare, an empty list (part 4.5.2).
DECLARE = b"\x00\x53\x77\x00\x53\x31\x45"


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
        self.deadline = INT64_MAX

    cdef int attach(self, pn_session_t *session, str name) except -1:
        """Attach to the coordinator and wait for its credit.

        Raises TransactionError if the peer has none.
        """
        cdef int64_t deadline = monotonic_ns() + TIMEOUT
        cdef pn_data_t *capabilities
        self.session = session
        self.link = pn_sender(session, name.encode())
        pn_terminus_set_type(pn_link_target(self.link), PN_COORDINATOR)
        capabilities = pn_terminus_capabilities(pn_link_target(self.link))
        pn_data_put_symbol(capabilities, pn_bytes(23, b"amqp:local-transactions"))
        pn_link_open(self.link)
        while not self.ready():
            self.connection.step(deadline)
            self.refuse()
            try:
                self.connection.judge(deadline, "offer a transaction coordinator")
            except SignalError:
                raise
            except QuiverError as error:
                # Brokers without transactions may end the connection over it.
                self.fail(str(error))
        return 0

    cdef bint ready(self) except? -1:
        """Say whether the coordinator can be used."""
        if pn_link_state(self.link) & PN_REMOTE_UNINIT or pn_link_credit(self.link) <= 0:
            return False
        return pn_terminus_get_type(pn_link_remote_target(self.link)) == PN_COORDINATOR

    cdef int refuse(self) except -1:
        """Raise TransactionError if the peer ended the control link, or the session over it."""
        if pn_link_state(self.link) & PN_REMOTE_CLOSED:
            self.fail(self.connection.condition_text(pn_link_remote_condition(self.link)))
        if pn_session_state(self.session) & PN_REMOTE_CLOSED:
            self.fail(self.connection.condition_text(pn_session_remote_condition(self.session)))
        return 0

    def fail(self, why: str) -> None:
        """Raise the TransactionError of a peer without a coordinator."""
        peer = self.connection.peer
        why = why.removeprefix(f"{peer}: ")
        raise TransactionError(
            f"{peer}: the peer has no transaction coordinator" + (f": {why}" if why else ""))

    cdef int look(self) except -1 nogil:
        """Raise TransactionError if the peer detached the control link and said why."""
        cdef pn_condition_t *condition = pn_link_remote_condition(self.link)
        if pn_link_state(self.link) & PN_REMOTE_CLOSED and pn_condition_is_set(condition):
            with gil:
                why = self.connection.condition_text(condition)
                raise TransactionError(
                    f"{self.connection.peer}: the peer detached its transaction coordinator: "
                    f"{why}")
        return 0

    cdef bint is_open(self) noexcept nogil:
        """Say whether there is a transaction to put work into."""
        return self.id_size > 0

    cdef bint is_idle(self) noexcept nogil:
        """Say whether the peer has answered everything."""
        return self.deadline == INT64_MAX

    cdef bint is_discharging(self) noexcept nogil:
        """Say whether a transaction's end is not confirmed."""
        return self.discharge_next or self.discharging != NULL

    cdef int declare(self) except -1:
        """Begin a transaction."""
        self.declare_next = True
        return self.ask()

    cdef int discharge(self, bint again) except -1:
        """Commit the open transaction, and declare the next one with that if ``again``."""
        name = (<const char *>self.id)[:self.id_size]
        # amqp-value of discharge, [txn-id, fail = false] (part 4.5.3).
        fields = b"\x02\xa0" + bytes([len(name)]) + name + b"\x42"
        self.discharge_next = True
        self.discharge_body = b"\x00\x53\x77\x00\x53\x32\xc0" + bytes([len(fields)]) + fields
        self.id_size = 0
        self.declare_next = again
        return self.ask()

    cdef int ask(self) except -1:
        """Send what is to be asked, as far as the peer gives credit for it."""
        if self.is_idle():
            self.deadline = monotonic_ns() + TIMEOUT
        if self.discharge_next and pn_link_credit(self.link) > 0:
            self.discharging = self.send(self.discharge_body)
            self.discharge_next = False
        if self.declare_next and not self.discharge_next and pn_link_credit(self.link) > 0:
            self.declaring = self.send(DECLARE)
            self.declare_next = False
        return 0

    cdef pn_delivery_t *send(self, bytes body) except NULL:
        cdef pn_delivery_t *delivery
        self.tag += 1
        tag = b"t%d" % self.tag
        delivery = pn_delivery(self.link, pn_dtag(tag, len(tag)))
        pn_link_send(self.link, body, len(body))
        pn_link_advance(self.link)
        return delivery

    cdef int poll(self, int64_t now) except -1 nogil:
        """Take the answers that have come, and ask what there was no credit for."""
        if self.is_idle():
            return 0
        with gil:
            return self.take_answers(now)

    cdef int take_answers(self, int64_t now) except -1:
        if self.discharging != NULL and pn_delivery_remote_state(self.discharging):
            self.take_discharged()
        if self.declaring != NULL and pn_delivery_remote_state(self.declaring):
            self.take_declared()
        if self.discharge_next or self.declare_next:
            self.ask()
        elif self.discharging == NULL and self.declaring == NULL:
            self.deadline = INT64_MAX
        if now >= self.deadline:
            raise TransactionError(
                f"{self.connection.peer}: the peer's transaction coordinator does not answer")
        return 0

    cdef int take_discharged(self) except -1:
        self.expect(self.discharging, PN_ACCEPTED, "discharge")
        pn_delivery_settle(self.discharging)
        self.discharging = NULL
        self.discharged += 1
        return 0

    cdef int take_declared(self) except -1:
        """Keep the id of the transaction that was declared (part 4.5.5)."""
        cdef pn_data_t *data = pn_disposition_data(pn_delivery_remote(self.declaring))
        cdef pn_bytes_t value
        self.expect(self.declaring, DECLARED, "declare")
        pn_data_rewind(data)
        value.size = 0
        if pn_data_next(data) and pn_data_enter(data) and pn_data_next(data):
            value = pn_data_get_binary(data)
        if not 0 < value.size <= sizeof(self.id):
            raise TransactionError(f"{self.connection.peer}: declared without a transaction id")
        memcpy(self.id, value.start, value.size)
        self.id_size = value.size
        pn_delivery_settle(self.declaring)
        self.declaring = NULL
        return 0

    cdef int expect(self, pn_delivery_t *delivery, uint64_t state, str purpose) except -1:
        """Raise TransactionError unless the peer answered with ``state``."""
        if pn_delivery_remote_state(delivery) == state:
            return 0
        why = self.connection.condition_text(
            pn_disposition_condition(pn_delivery_remote(delivery)))
        raise TransactionError(
            f"{self.connection.peer}: the peer refused to {purpose} a transaction: {why}")

    cdef int enlist(self, pn_delivery_t *delivery, uint64_t outcome) noexcept nogil:
        """Put a delivery into the transaction, with ``outcome`` unless it is 0."""
        cdef pn_data_t *data = pn_disposition_data(pn_delivery_local(delivery))
        pn_data_clear(data)
        pn_data_put_list(data)
        pn_data_enter(data)
        pn_data_put_binary(data, pn_bytes(self.id_size, <const char *>self.id))
        if outcome:
            pn_data_put_described(data)
            pn_data_enter(data)
            pn_data_put_ulong(data, outcome)
            pn_data_put_list(data)
            pn_data_exit(data)
        pn_data_exit(data)
        pn_delivery_update(delivery, TRANSACTIONAL_STATE)
        return 0
