"""A receiver that is slow, pauses, or refuses messages, as the options say.

    arrival ──> backlog ──> taken: the record ──> worked on ──> accepted
                              └── without one ──> worked on ──> released, rejected or modified

The plain receiver has no part in this: which one a run has is chosen once.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from quiver_fast.amqp.data_plane cimport (
    AMQP_CODE_ACCEPTED, AMQP_CODE_MODIFIED, AMQP_CODE_NONE, AMQP_CODE_REJECTED,
    AMQP_CODE_RELEASED, AMQP_RECEIVER, amqp_arrival_t, amqp_code, amqp_disposition_t,
    amqp_plane_answer,
)
from quiver_fast.arrow.amqp.incoming cimport Inflow
from quiver_fast.arrow.amqp.outcome_text import modified_state
from quiver_fast.arrow.amqp.receiver cimport Receiver
from quiver_fast.arrow.amqp.transport cimport no_memory
from quiver_fast.arrow.run.course cimport OVER
from quiver_fast.errors import MessageError
from quiver_fast.proton.libproton cimport (
    PN_REMOTE_CLOSED, pn_connection_state, pn_session_state,
)
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.receiving import Modify


# A delivery, in the unit of the shares.
cdef int64_t WHOLE = 1000000


cdef class Outcomes:
    """Chooses the outcome of each delivery of a process; spreads outcomes evenly.

    Of any n deliveries from the first on, n * share have the outcome, rounded down.

    Args:
        control: what tells the wrapper how many were rejected.
        release: the share to release, in millionths.
        reject: the share to reject, likewise; all shares are less than the whole together.
        modify: the deliveries to modify.
        alone: no other receiver gets messages that are undeliverable here.
    """

    def __init__(self, control: Control, release: int, reject: int, modify: Modify, *,
                 alone: bool) -> None:
        self.control = control
        self.codes = [AMQP_CODE_REJECTED, AMQP_CODE_RELEASED, AMQP_CODE_MODIFIED]
        self.shares = [reject, release, modify.share]
        self.ends_modified = modify.undeliverable and alone
        self.state = modified_state(modify) if modify.share else b""

    cdef amqp_code next(self) noexcept nogil:
        """Return the outcome of the next delivery."""
        cdef int i
        for i in range(3):
            self.due[i] += self.shares[i]
        # If several are due, the others wait for the next deliveries.
        for i in range(3):
            if self.due[i] >= WHOLE:
                self.due[i] -= WHOLE
                self.control.rejected += self.codes[i] == AMQP_CODE_REJECTED
                return self.codes[i]
        return AMQP_CODE_ACCEPTED

    cdef int take_back(self, amqp_code code) noexcept nogil:
        """Undo an outcome that was not sent: the next delivery has it."""
        cdef int i
        for i in range(3):
            self.due[i] -= self.shares[i]
            if self.codes[i] == code:
                self.due[i] += WHOLE
        self.control.rejected -= code == AMQP_CODE_REJECTED
        return 0

    cdef bint ends(self, amqp_code code) noexcept nogil:
        """Say whether a refused message counts for the goal of the run."""
        return code == AMQP_CODE_REJECTED or (code == AMQP_CODE_MODIFIED and self.ends_modified)


cdef class ShapedReceiver(Receiver):
    """Receive as a consumer that works on each message, pauses periodically, or refuses some.

    A message that may not be taken yet waits in the backlog.
    The count of a run is reached by received and rejected messages together.

    Args:
        delay: microseconds of work on each message.
        receiving, pausing: microseconds of receiving before each pause, and of it; 0 for none.
        outcomes: what becomes of messages; None for accepting all of them.
        options: see Receiver.
    """

    def __init__(self, connection, writer, limits, *, delay: int, receiving: int, pausing: int,
                 outcomes: Outcomes | None, **options: object) -> None:
        super().__init__(connection, writer, limits, **options)
        self.is_plain = False
        self.outcomes = outcomes
        if outcomes is not None:
            self.modified_state.start = <const uint8_t *>outcomes.state
            self.modified_state.size = len(outcomes.state)
        self.delay = 1000 * delay
        self.receiving = 1000 * receiving
        self.pausing = 1000 * pausing
        self.next_step = INT64_MAX

    def account(self) -> "Account":
        # Received are those that were accepted.
        return super().account()._replace(
            received=self.received - self.ended, released=self.released,
            rejected=self.rejected, modified=self.modified)

    def lose(self) -> list[int]:
        # The message that was worked on comes again.
        if self.is_owed and self.owed_code != AMQP_CODE_ACCEPTED:
            self.unchoose()
        self.is_busy = self.is_owed = False
        return super().lose()

    cdef int unchoose(self) noexcept nogil:
        """Undo the counts of the message that was worked on, which was not to be accepted."""
        self.outcomes.take_back(self.owed_code)
        self.count(self.owed_code, -1)
        return 0

    cdef int count(self, amqp_code code, int one) noexcept nogil:
        """Count an outcome other than accepted; -1 takes it back."""
        if code == AMQP_CODE_RELEASED:
            self.released += one
        elif code == AMQP_CODE_REJECTED:
            self.rejected += one
        elif code == AMQP_CODE_MODIFIED:
            self.modified += one
        if self.outcomes.ends(code):
            self.received += one
            self.ended += one
        return 0

    cdef int64_t turn(self, int64_t now) except? -1 nogil:
        cdef int64_t wake
        self.step(now)
        wake = Receiver.turn(self, now)
        if wake != OVER:
            return min(wake, self.next_step)
        # The run is over: nobody waits for the rest of the work.
        if not (pn_session_state(self.session) & PN_REMOTE_CLOSED):
            self.finish_work()
        return OVER

    cdef int step(self, int64_t now) except -1 nogil:
        """Finish work that is due; begin the next."""
        self.next_step = INT64_MAX
        if self.pausing:
            self.follow_pauses(now)
        if self.is_busy and now >= self.busy_until:
            self.finish_work()
        if not self.course.stopping:
            self.taken_since = 0
            self.take_backlog()
        if self.is_busy:
            self.next_step = min(self.next_step, self.busy_until)
        return 0

    cdef int follow_pauses(self, int64_t now) noexcept nogil:
        """Begin or end a pause. Its times count from the begin of the run."""
        cdef int64_t round = self.receiving + self.pausing
        cdef int64_t phase = (now - self.course.started) % round
        self.is_paused = phase >= self.receiving
        self.next_step = now - phase + (round if self.is_paused else self.receiving)
        return 0

    cdef bint may_take(self) noexcept nogil:
        return not self.is_paused and not self.is_busy

    cdef int finish_message(self, Inflow *flow, const amqp_arrival_t *arrival) except -1 nogil:
        """Record a whole message if it is to be accepted, then work on it."""
        cdef amqp_arrival_t recorded = arrival[0]
        cdef amqp_code code = AMQP_CODE_ACCEPTED
        if self.outcomes is not None and flow.scanned:
            code = self.choose(flow, arrival)
        if code == AMQP_CODE_ACCEPTED:
            # Receiver accepts no settled message: `finish_work` answers later.
            recorded.settled = True
            Receiver.finish_message(self, flow, &recorded)
        else:
            flow.scanned = False
            flow.head_size = 0
        return self.answer_later(arrival, code)

    cdef amqp_code choose(
            self, Inflow *flow, const amqp_arrival_t *arrival) except? AMQP_CODE_NONE nogil:
        """Return and count the outcome of a message; one that is not of this run is accepted."""
        cdef amqp_code code
        if not self.is_own(flow, self.own_prefix(flow) if self.with_ids else 0):
            return AMQP_CODE_ACCEPTED
        if arrival.settled:
            with gil:
                raise MessageError(f"{self.connection.peer}: message {self.taken() + 1} came "
                                   "settled: it cannot be refused")
        code = self.outcomes.next()
        self.count(code, 1)
        return code

    cdef int answer_later(self, const amqp_arrival_t *arrival, amqp_code code) except -1 nogil:
        """Begin to work on a message; its delivery is answered at the end of the work."""
        self.is_busy = True
        self.busy_until = monotonic_ns() + self.delay
        self.is_owed = not arrival.settled
        self.owed_session = arrival.link.session
        self.owed_id = arrival.delivery_id
        self.owed_code = code
        return self.finish_work() if self.delay == 0 else 0

    cdef int finish_work(self) except -1 nogil:
        """Answer the message that was worked on, if there is one."""
        self.is_busy = False
        if not self.is_owed:
            return 0
        self.is_owed = False
        if self.owed_code != AMQP_CODE_ACCEPTED and not self.outcomes.ends(self.owed_code):
            # It comes again: a drain that goes on shows no end of the queue.
            self.taken_before = -1
            self.was_drained = False
        if self.owed_code == AMQP_CODE_MODIFIED:
            return self.answer_modified()
        return self.connection.accept(self.owed_session, self.owed_id, self.owed_code)

    cdef int answer_modified(self) except -1 nogil:
        """Settle the message that was worked on as modified, with the fields of the options."""
        cdef amqp_disposition_t disposition
        self.connection.send_outcomes()
        memset(&disposition, 0, sizeof(disposition))
        disposition.role = AMQP_RECEIVER
        disposition.first = disposition.last = self.owed_id
        disposition.settled = True
        disposition.state.code = AMQP_CODE_MODIFIED
        disposition.state.encoded = self.modified_state
        if not amqp_plane_answer(&self.connection.plane, self.owed_session, &disposition):
            no_memory()
        return 0

    cdef int top_up(self) except -1 nogil:
        """Keep the credit window filled; the message that is worked on uses one of it."""
        cdef int64_t credit = self.end.counts.credit + self.backlog.messages + self.is_busy
        cdef int64_t more = self.credit_window - credit
        if self.is_paused or credit > self.credit_window // 2:
            return 0
        if self.course.limits.count:
            more = min(more, self.course.limits.count - self.received - credit + self.is_busy)
        return self.connection.give_credit(self.end, <uint32_t>more, False) if more > 0 else 0

    cdef bint is_ending(self, bint closed, int64_t now) noexcept nogil:
        cdef bint gone = self.connection.cut or (
            pn_connection_state(self.connection.connection) & PN_REMOTE_CLOSED) != 0
        # No peer is left to send outcomes to.
        return closed and gone or Receiver.is_ending(self, closed, now)

    cdef bint is_drained(self, int64_t now) noexcept nogil:
        """Say whether no more messages come. Messages of the backlog return to the peer."""
        if self.backlog.frames and not self.undrainable and self.end.counts.credit == 0:
            return True
        return Receiver.is_drained(self, now)
