"""The sending end: bursts of one patched template, outcomes, schedule, transactions."""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t

from quiver_fast.engine.link cimport Endpoint
from quiver_fast.engine.pacer cimport DelayHistogram, Pacer
from quiver_fast.engine.template cimport MessageTemplate
from quiver_fast.engine.transaction cimport TRANSACTIONAL_STATE, provisional_outcome
from quiver_fast.errors import PeerError, LinkError, OutcomeError
from quiver_fast.proton.libproton cimport (
    PN_MODIFIED, PN_RECEIVED, PN_REJECTED, PN_RELEASED, PN_SND_SETTLED, PN_SND_UNSETTLED,
    pn_bytes_t, pn_delivery, pn_delivery_abort, pn_delivery_clear, pn_delivery_link,
    pn_delivery_remote, pn_delivery_remote_state, pn_delivery_settle, pn_delivery_settled,
    pn_delivery_t, pn_delivery_tag, pn_delivery_updated, pn_disposition_condition, pn_dtag,
    pn_link_advance, pn_link_credit, pn_link_current, pn_link_drained, pn_link_get_drain,
    pn_link_send, pn_link_set_snd_settle_mode, pn_session_outgoing_bytes, pn_work_head,
    pn_work_next,
)
from quiver_fast.proton.libsys cimport PR_SET_TIMERSLACK, monotonic_ns, prctl, realtime_ns
from quiver_fast.records.formats import SETTLEMENT_SAMPLE_INTERVAL

# Messages between two writes: enough to fill the socket, few enough to answer flows.
cdef int BURST = 256
# More unsent bytes than this make the engine copy whole buffers at every frame.
cdef size_t OUTGOING_LIMIT = 131072
cdef size_t CHUNK = 65536
cdef int64_t SECOND = 1000000000
# Without one outcome for so long a peer is given up at the end of a run.
cdef int64_t DRAIN_TIMEOUT = 10 * SECOND

# Delivery tags are 4 characters of 6 bits each (text, because some clients cannot
# take a binary tag), unique while fewer than 2^24 deliveries are unsettled.
cdef int TAG_SIZE = 4
cdef int64_t TAG_MASK = 0xFFFFFF

cdef int64_t SETTLEMENT_SAMPLE = SETTLEMENT_SAMPLE_INTERVAL


cdef inline void put_tag(char *tag, int64_t sequence) noexcept nogil:
    cdef int i
    for i in range(TAG_SIZE):
        tag[i] = <char>(48 + ((sequence >> (6 * i)) & 63))


cdef inline int64_t tag_sequence(const char *tag, int64_t newest) noexcept nogil:
    """Return the sequence that a tag stands for: the last one up to ``newest``."""
    cdef int64_t value = 0
    cdef int i
    for i in range(TAG_SIZE):
        value |= <int64_t>(<uint8_t>tag[i] - 48) << (6 * i)
    return newest - ((newest - value) & TAG_MASK)


cdef class Sender(Endpoint):
    """Send ``x``-filled messages and account for every one of them.

    Args:
        connection, writer, limits, address, name, time_unit, transaction_size: see Endpoint.
        template: the message.
        with_ids: write ids into the records (revisions v1 and v2).
        settlement: write S and s records.
        presettled: send settled (at most once); there are no outcomes then.
    """

    def __init__(self, connection, writer, limits, *, address: str, name: str,
                 template: MessageTemplate, with_ids: bool = False, settlement: bool = False,
                 presettled: bool = False, time_unit: str = "ms",
                 transaction_size: int = 0) -> None:
        super().__init__(connection, writer, limits, address=address, name=name,
                         time_unit=time_unit, transaction_size=transaction_size)
        self.is_sender = True
        self.template = template
        self.with_ids = with_ids
        self.settlement = settlement
        self.presettled = presettled
        self.first_refusal = ""
        if self.limits.rate:
            self.pacer = Pacer(self.limits.rate)
            self.delays = DelayHistogram()

    def prepare(self) -> None:
        mode = PN_SND_SETTLED if self.presettled else PN_SND_UNSETTLED
        pn_link_set_snd_settle_mode(self.link, mode)

    def run(self) -> None:
        """Send until a limit or a signal, then wait for every outcome.

        Raises:
            OutcomeError: messages were rejected, released or modified.
            PeerError, LinkError: the peer failed or left early.
            OutputError: the records could not be written.
            TransactionError: a transaction failed.
        """
        if self.pacer is not None:
            # The kernel may wake a sleeper 50 us late to save power; a schedule must not wait.
            prctl(PR_SET_TIMERSLACK, 1)
        with nogil:
            self.loop()
        refused = self.rejected + self.released + self.modified
        if refused:
            raise OutcomeError(
                f"{self.connection.peer}: {refused} of {self.sent} messages were not accepted: "
                f"{self.rejected} rejected, {self.released} released, {self.modified} modified"
                + (f" (first: {self.first_refusal})" if self.first_refusal else ""))

    @property
    def unsettled(self) -> int:
        """Number of messages that have no outcome."""
        return self.sent - self.settled

    cdef int loop(self) except -1 nogil:
        cdef int64_t now
        cdef int64_t wake
        cdef bint closed
        while True:
            now = monotonic_ns()
            closed = self.closed_by_peer()
            self.collect_outcomes()
            self.flush_records(now)
            self.notice_signals(now)
            if not self.stopping and self.is_done(now):
                self.start_draining(now)
            if closed:
                with gil:
                    return self.ended_by_peer(now)
            self.feed_body()
            if self.batch_size:
                with gil:
                    self.transact()
            if not self.stopping:
                self.burst(now)
            elif self.settled == self.sent and self.body_left == 0:
                return 0
            elif now >= self.drain_deadline:
                if self.interrupted:
                    return 0
                with gil:
                    raise PeerError(
                        f"{self.connection.peer}: {self.sent - self.settled} of {self.sent} "
                        "messages have no outcome and the peer is silent")
            wake = self.next_wake(now)
            if wake and self.pacer is None and not self.stopping and self.connection.linger():
                wake = 0
            self.connection.exchange(wake)

    cdef bint is_done(self, int64_t now) noexcept nogil:
        return (self.limits.count and self.sent >= self.limits.count) or self.time_is_over(now)

    cdef int start_draining(self, int64_t now) noexcept nogil:
        self.stopping = True
        self.drain_deadline = now + DRAIN_TIMEOUT
        return 0

    cdef int64_t allowance(self, int64_t now) noexcept nogil:
        """Return how many more messages count and schedule allow now."""
        cdef int64_t most = INT64_MAX
        cdef int64_t due
        if self.limits.count:
            most = self.limits.count - self.sent
        if self.pacer is not None:
            if self.schedule_start == 0:
                # The schedule begins when the peer first gives credit.
                self.schedule_start = now
                self.schedule_epoch = realtime_ns()
            due = self.pacer.due(now - self.schedule_start) - self.sent
            most = min(most, due)
        if self.batch_size:
            most = min(most, self.batch_size - self.batch_sent)
        return min(most, TAG_MASK - (self.sent - self.settled))

    cdef int burst(self, int64_t now) except -1 nogil:
        """Send what credit, schedule and socket allow, up to BURST messages."""
        cdef int64_t credit = pn_link_credit(self.link)
        cdef int64_t room
        cdef int64_t time = 0
        cdef int i
        if credit <= 0 or self.connection.blocked or self.body_left:
            return 0
        room = min(min(credit, <int64_t>BURST), self.allowance(now))
        for i in range(<int>room):
            if self.pacer is not None or i % self.clock_block == 0:
                time = self.send_time()
            self.send_message(time)
            if self.body_left or pn_session_outgoing_bytes(self.session) >= OUTGOING_LIMIT:
                break
        if room <= 0 and pn_link_get_drain(self.link):
            pn_link_drained(self.link)
        return 0

    cdef int64_t send_time(self) noexcept nogil:
        """Return the time to put into the next message, in the run's unit.

        Under a schedule it is the intended time, so that waiting counts as latency.
        """
        cdef int64_t intended
        cdef int64_t actual = realtime_ns()
        if self.pacer is None:
            return actual // self.time_divisor
        intended = self.schedule_epoch + self.pacer.intended(self.sent)
        self.delays.add(actual - intended)
        return intended // self.time_divisor

    cdef int send_message(self, int64_t time) except -1 nogil:
        cdef char[4] tag
        cdef pn_delivery_t *delivery
        self.template.next_message(time)
        put_tag(tag, self.sent + 1)
        delivery = pn_delivery(self.link, pn_dtag(tag, TAG_SIZE))
        if self.coordinator is not None:
            with gil:
                self.coordinator.enlist(delivery, 0)
        pn_link_send(self.link, self.template.head,
                     self.template.head_size + self.template.block_size)
        self.sent += 1
        self.batch_sent += 1
        self.body_left = self.template.body_size - self.template.block_size
        if self.body_left == 0:
            self.finish_delivery()
        if self.with_ids:
            return self.writer.sent_with_id(
                self.template.digits, self.template.digit_count, time)
        return self.writer.sent(time)

    cdef int finish_delivery(self) noexcept nogil:
        """Tell the engine that the present delivery is whole."""
        if not self.presettled:
            pn_link_advance(self.link)
            return 0
        self.settled += 1
        pn_delivery_settle(pn_link_current(self.link))
        return 0

    cdef int feed_body(self) noexcept nogil:
        """Give the engine more of a large body as it drains."""
        cdef size_t size
        if self.body_left == 0:
            return 0
        while self.body_left and pn_session_outgoing_bytes(self.session) < OUTGOING_LIMIT:
            size = <size_t>min(self.body_left, <uint64_t>CHUNK)
            pn_link_send(self.link, self.template.body, size)
            self.body_left -= size
        if self.body_left == 0:
            self.finish_delivery()
        return 0

    cdef int collect_outcomes(self) except -1 nogil:
        """Take the outcome of every delivery that the last read updated."""
        cdef pn_delivery_t *delivery = pn_work_head(self.connection.connection)
        cdef pn_delivery_t *following
        while delivery != NULL:
            following = pn_work_next(delivery)
            if pn_delivery_updated(delivery) and pn_delivery_link(delivery) == self.link:
                self.take_outcome(delivery)
            delivery = following
        return 0

    cdef int take_outcome(self, pn_delivery_t *delivery) except -1 nogil:
        cdef uint64_t state = pn_delivery_remote_state(delivery)
        if state == TRANSACTIONAL_STATE:
            state = provisional_outcome(delivery)
        if state == PN_RECEIVED or (state == 0 and not pn_delivery_settled(delivery)):
            # Not an outcome yet (part 3.4.1).
            pn_delivery_clear(delivery)
            return 0
        if state == PN_REJECTED:
            self.rejected += 1
        elif state == PN_RELEASED:
            self.released += 1
        elif state == PN_MODIFIED:
            self.modified += 1
        else:
            # Settled without an outcome stands for the default one (part 2.6.12).
            self.accepted += 1
        if state == PN_REJECTED and not self.first_refusal:
            with gil:
                self.note_refusal(delivery)
        if self.settlement:
            self.record_settlement(delivery, realtime_ns() // self.time_divisor)
        self.settled += 1
        if self.stopping and not self.interrupted:
            self.start_draining(monotonic_ns())
        if self.body_left and pn_link_current(self.link) == delivery:
            # The peer decided before the body's end: part 2.6.14, abort the rest.
            self.body_left = 0
            pn_delivery_abort(delivery)
        else:
            pn_delivery_settle(delivery)
        return 0

    cdef int note_refusal(self, pn_delivery_t *delivery) except -1:
        condition = pn_disposition_condition(pn_delivery_remote(delivery))
        self.first_refusal = self.connection.condition_text(condition)
        return 0

    cdef int record_settlement(self, pn_delivery_t *delivery, int64_t time) except -1 nogil:
        cdef char[24] digits
        cdef pn_bytes_t tag = pn_delivery_tag(delivery)
        cdef int64_t sequence = tag_sequence(tag.start, self.sent)
        cdef int64_t rest = sequence
        cdef int at = sizeof(digits)
        while True:
            at -= 1
            digits[at] = <char>(48 + rest % 10)
            rest //= 10
            if rest == 0:
                break
        return self.writer.settled(
            digits + at, sizeof(digits) - at, time, sequence % SETTLEMENT_SAMPLE == 1)

    cdef int64_t next_wake(self, int64_t now) noexcept nogil:
        """Return until when the connection may wait: 0 when there is more to send now."""
        cdef int64_t wake = min(self.next_flush, self.deadline)
        cdef int64_t allowance
        if self.body_left:
            # Whether the engine has room for more shows when its output is written.
            self.connection.write()
            if pn_session_outgoing_bytes(self.session) < OUTGOING_LIMIT:
                return 0
        if self.stopping or self.body_left:
            return min(self.next_flush, self.drain_deadline)
        if pn_link_credit(self.link) <= 0:
            return wake
        allowance = self.allowance(now)
        if allowance > 0:
            return 0
        if self.pacer is not None:
            wake = min(wake, self.schedule_start + self.pacer.intended(self.sent))
        return wake

    cdef int transact(self) except -1:
        """Discharge a batch that is complete, and declare before the next."""
        complete = self.batch_sent >= self.batch_size or self.stopping
        if self.batch_sent and complete and self.settled == self.sent and self.body_left == 0:
            self.coordinator.discharge()
            self.batch_sent = 0
        if not self.stopping and self.batch_sent == 0 and not self.coordinator.transaction:
            self.coordinator.declare()
        return 0

    cdef int ended_by_peer(self, int64_t now) except -1:
        """Judge an orderly end by the peer: right only at the end of a timed run."""
        unsettled = self.unsettled
        if self.limits.count == 0 and self.near_the_end(now):
            # Its time is over as ours is; what it left without an outcome is in the report.
            return 0
        if unsettled == 0 and (self.interrupted or 0 < self.limits.count <= self.sent):
            return 0
        goal = f" of {self.limits.count}" if self.limits.count else ""
        raise LinkError(
            f"{self.connection.peer}: the peer closed the link after {self.sent}{goal} messages, "
            f"{unsettled} of them without an outcome")
