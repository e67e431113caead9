"""The controller's side of local transactions, AMQP 1.0 part 4.

Only the attach waits. A discharge and the declare of the next transaction are sent
together, and the loop of the run takes their answers as they come.

    enlist … enlist   discharge + declare   ─── one round trip ───   enlist …
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from quiver_fast.amqp.data_plane cimport (
    AMQP_CODE_ACCEPTED, AMQP_CODE_DECLARED, AMQP_CODE_NONE, AMQP_RECEIVER, amqp_bytes_t,
    amqp_code, amqp_disposition_t,
)
from quiver_fast.arrow.amqp.connection cimport Connection, error_text
from quiver_fast.errors import (
    LinkError, PeerError, QuiverError, SignalError, TransactionError,
)
from quiver_fast.proton.conditions cimport condition_text
from quiver_fast.proton.libproton cimport (
    PN_COORDINATOR, PN_REMOTE_CLOSED, PN_REMOTE_UNINIT, pn_bytes,
    pn_condition_is_set, pn_condition_t, pn_data_put_symbol, pn_data_t, pn_link_open,
    pn_link_remote_condition, pn_link_remote_target, pn_link_state, pn_link_target, pn_sender,
    pn_session_remote_condition, pn_session_state, pn_session_t, pn_terminus_capabilities,
    pn_terminus_get_type, pn_terminus_set_type,
)
from quiver_fast.proton.libsys cimport monotonic_ns

# A coordinator that does not answer in this time never will.
cdef int64_t TIMEOUT = 10 * 1000000000
# A peer that refuses the control link says why in this time.
cdef int64_t REASON_TIMEOUT = 1000000000

# amqp-value of declare, an empty list (part 4.5.2).
DECLARE = b"\x00\x53\x77\x00\x53\x31\x45"


cdef class Coordinator:
    """A control link to the peer's transaction coordinator, one transaction at a time.

    Args:
        connection: an open connection.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.deadline = INT64_MAX
        self.why = ""

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
            self.connection.step(min(deadline, self.deadline))
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
        if pn_link_state(self.link) & PN_REMOTE_UNINIT:
            return False
        if self.end == NULL:
            self.end = self.connection.end_of(self.link)
            self.end.user = <void *>self
        if self.end.counts.credit == 0:
            return False
        return pn_terminus_get_type(pn_link_remote_target(self.link)) == PN_COORDINATOR

    cdef int refuse(self) except -1:
        """Raise TransactionError if the peer refuses the control link, or ends the session."""
        cdef int64_t now = monotonic_ns()
        if pn_link_state(self.link) & PN_REMOTE_CLOSED:
            self.fail(condition_text(pn_link_remote_condition(self.link)))
        if pn_session_state(self.session) & PN_REMOTE_CLOSED:
            self.fail(condition_text(pn_session_remote_condition(self.session)))
        if pn_link_state(self.link) & PN_REMOTE_UNINIT:
            return 0
        if pn_terminus_get_type(pn_link_remote_target(self.link)) == PN_COORDINATOR:
            return 0
        # An attach without that target refuses the link; a detach with the reason follows (2.6.3).
        self.deadline = min(self.deadline, now + REASON_TIMEOUT)
        if now >= self.deadline:
            self.fail("its attach names none")
        return 0

    def fail(self, why: str) -> None:
        """Raise the TransactionError of a peer without a coordinator."""
        peer = self.connection.peer
        why = why.removeprefix(f"{peer}: ")
        raise TransactionError(
            f"{peer}: the peer has no transaction coordinator" + (f": {why}" if why else ""))

    cdef int check_detach(self) except -1 nogil:
        """Raise LinkError if the peer detached the control link and said why."""
        cdef pn_condition_t *condition = pn_link_remote_condition(self.link)
        if pn_link_state(self.link) & PN_REMOTE_CLOSED and pn_condition_is_set(condition):
            with gil:
                why = condition_text(condition)
                raise LinkError(
                    f"{self.connection.peer}: the peer detached its transaction coordinator: "
                    f"{why}")
        return 0

    cdef bint is_open(self) noexcept nogil:
        """Say whether a transaction is open."""
        return self.id_size > 0

    cdef bint is_idle(self) noexcept nogil:
        """Say whether no request waits for an outcome."""
        return self.deadline == INT64_MAX

    cdef bint has_committed(self, int64_t open_work) noexcept nogil:
        """Say whether the peer accepted each discharge, and no work came after the last one."""
        return open_work == 0 and self.discharges == self.discharged

    cdef bint is_discharging(self) noexcept nogil:
        """Say whether a discharge waits for its outcome."""
        return self.discharge_next or self.discharging.asked

    cdef int declare(self) except -1:
        """Begin a transaction."""
        self.declare_next = True
        return self.ask()

    cdef int discharge(self, bint again) except -1:
        """Commit the open transaction; with ``again``, declare the next one too."""
        name = (<const char *>self.id)[:self.id_size]
        # amqp-value of discharge, [txn-id, fail = false] (part 4.5.3).
        fields = b"\x02\xa0" + bytes([len(name)]) + name + b"\x42"
        # Outcomes of the transaction are sent before its discharge.
        self.connection.send_outcomes()
        self.discharges += 1
        self.discharge_next = True
        self.discharge_body = b"\x00\x53\x77\x00\x53\x32\xc0" + bytes([len(fields)]) + fields
        self.id_size = 0
        self.declare_next = again
        return self.ask()

    cdef int ask(self) except -1:
        """Send the requests that have credit."""
        if self.is_idle():
            self.deadline = monotonic_ns() + TIMEOUT
        if self.discharge_next and self.may_ask():
            self.send(&self.discharging, self.discharge_body)
            self.discharge_next = False
        if self.declare_next and not self.discharge_next and self.may_ask():
            self.send(&self.declaring, DECLARE)
            self.declare_next = False
        return 0

    cdef bint may_ask(self) noexcept nogil:
        return (self.end.counts.credit > 0
                and self.end.session.counts.remote_incoming_window > 0)

    cdef int send(self, Question *question, bytes body) except -1:
        cdef amqp_bytes_t tag
        cdef amqp_bytes_t message
        self.tag += 1
        text = b"t%d" % self.tag
        tag.start = text
        tag.size = len(text)
        message.start = body
        message.size = len(body)
        question.id = self.connection.transfer(self.end, tag, message, False)
        question.asked = True
        question.answer = AMQP_CODE_NONE
        return 0

    cdef int take_disposition(self, const amqp_disposition_t *disposition) except -1 nogil:
        """Keep the outcomes of our requests until the next `poll`."""
        if self.is_idle() or disposition.role != AMQP_RECEIVER or (
                disposition.state.code == AMQP_CODE_NONE):
            return 0
        with gil:
            self.note_answer(&self.discharging, disposition)
            return self.note_answer(&self.declaring, disposition)

    cdef int note_answer(self, Question *question, const amqp_disposition_t *disposition) except -1:
        # Ids are serial numbers: they wrap at 2^32.
        cdef uint32_t span = disposition.last - disposition.first
        if not question.asked or question.answer != AMQP_CODE_NONE or (
                <uint32_t>(question.id - disposition.first) > span):
            return 0
        question.answer = disposition.state.code
        if not self.why:
            self.why = error_text(disposition.state.condition, disposition.state.description)
        if disposition.state.code == AMQP_CODE_DECLARED:
            id = disposition.state.txn_id
            self.declared_id = (<const char *>id.start)[:id.size]
        if not disposition.settled:
            self.connection.settle(self.end.session, question.id, question.id)
        return 0

    cdef int poll(self, int64_t now) except -1 nogil:
        """Take the outcomes that have come; send requests that had no credit."""
        if self.is_idle():
            return 0
        with gil:
            return self.take_answers(now)

    cdef int take_answers(self, int64_t now) except -1:
        if self.discharging.asked and self.discharging.answer != AMQP_CODE_NONE:
            self.take_discharged()
        if self.declaring.asked and self.declaring.answer != AMQP_CODE_NONE:
            self.take_declared()
        if self.discharge_next or self.declare_next:
            self.ask()
        elif not self.discharging.asked and not self.declaring.asked:
            self.deadline = INT64_MAX
        if now >= self.deadline:
            raise PeerError(
                f"{self.connection.peer}: the peer's transaction coordinator does not answer")
        return 0

    cdef int take_discharged(self) except -1:
        self.expect(&self.discharging, AMQP_CODE_ACCEPTED, "discharge")
        self.discharged += 1
        return 0

    cdef int take_declared(self) except -1:
        """Keep the id of the transaction that was declared (part 4.5.5)."""
        self.expect(&self.declaring, AMQP_CODE_DECLARED, "declare")
        if not 0 < len(self.declared_id) <= sizeof(self.id):
            raise TransactionError(f"{self.connection.peer}: declared without a transaction id")
        memcpy(self.id, <const uint8_t *>self.declared_id, len(self.declared_id))
        self.id_size = len(self.declared_id)
        return 0

    cdef int expect(self, Question *question, amqp_code answer, str purpose) except -1:
        """Raise TransactionError unless the peer answered so."""
        question.asked = False
        if question.answer == answer:
            return 0
        raise TransactionError(
            f"{self.connection.peer}: the peer refused to {purpose} a transaction: {self.why}")

    cdef amqp_bytes_t transaction(self) noexcept nogil:
        """Return the id of the open transaction."""
        cdef amqp_bytes_t id
        id.start = self.id
        id.size = self.id_size
        return id
