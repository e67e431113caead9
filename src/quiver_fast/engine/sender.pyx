"""The sending end: bursts of one patched template, outcomes, schedule, transactions."""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t

from quiver_fast.engine.connection cimport put_symbol
from quiver_fast.engine.link cimport Endpoint
from quiver_fast.engine.template cimport MessageTemplate
from quiver_fast.engine.transaction cimport TRANSACTIONAL_STATE, provisional_outcome
from quiver_fast.errors import PeerError, LinkError, OutcomeError
from quiver_fast.proton.libproton cimport (
    PN_MODIFIED, PN_RECEIVED, PN_REJECTED, PN_RELEASED, PN_SND_SETTLED, PN_SND_UNSETTLED,
    pn_bytes_t, pn_delivery, pn_delivery_abort, pn_delivery_clear, pn_delivery_link,
    pn_delivery_remote, pn_delivery_remote_state, pn_delivery_settle, pn_delivery_settled,
    pn_delivery_t, pn_delivery_tag, pn_delivery_updated, pn_disposition_condition, pn_dtag,
    pn_link_advance, pn_link_credit, pn_link_current, pn_link_drained, pn_link_get_drain,
    pn_link_send, pn_link_set_snd_settle_mode, pn_link_target, pn_session_outgoing_bytes,
    pn_session_remote_incoming_window, pn_terminus_capabilities,
    pn_transport_get_remote_max_frame, pn_work_head, pn_work_next, pnx_send,
)
from quiver_fast.proton.libsys cimport PR_SET_TIMERSLACK, monotonic_ns, prctl, realtime_ns
from quiver_fast.records.digits cimport put_decimal
from quiver_fast.records.formats import SETTLEMENT_SAMPLE_INTERVAL
from quiver_fast.run.pacer cimport DelayHistogram, Schedule

# Messages between two writes: enough to fill the socket, few enough to answer flows.
cdef int BURST = 256
# More unsent bytes than this make an engine of the system's copy whole buffers at every frame.
cdef size_t OUTGOING_LIMIT = 131072
cdef size_t CHUNK = 65536
# A larger body takes more than a fraction of a microsecond to copy.
cdef uint64_t SMALL_BODY = 1024
# Pieces of a body between two looks at what the peer sent.
cdef int PIECES = 16
# Frame header and performative of a transfer (part 2.7.5), with room to spare.
cdef size_t FRAME_OVERHEAD = 128
cdef int64_t SECOND = 1000000000
# At the end of a run, a peer that sends no outcome for so long is given up.
cdef int64_t DRAIN_TIMEOUT = 10 * SECOND
# The least time that a peer has to give its first credit.
cdef int64_t CREDIT_TIMEOUT = 60 * SECOND

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
        exact: keep a schedule awake, on a core of its own, so that no message goes late.
    """

    def __init__(self, connection, writer, limits, *, address: str, name: str,
                 template: MessageTemplate, with_ids: bool = False, settlement: bool = False,
                 presettled: bool = False, exact: bool = False, time_unit: str = "ms",
                 transaction_size: int = 0) -> None:
        super().__init__(connection, writer, limits, address=address, name=name,
                         time_unit=time_unit, transaction_size=transaction_size)
        self.is_sender = True
        self.template = template
        self.with_ids = with_ids
        self.settlement = settlement
        self.presettled = presettled
        self.streaming = self.template.streaming
        self.first_refusal = ""
        if self.limits.rate:
            self.schedule = Schedule(self.limits.rate)
            self.is_exact = exact
        if time_unit != "ms" and self.template.body_size > SMALL_BODY:
            # Four of these take longer than a microsecond.
            self.clock_block = 1

    def prepare(self) -> None:
        mode = PN_SND_SETTLED if self.presettled else PN_SND_UNSETTLED
        pn_link_set_snd_settle_mode(self.link, mode)
        if self.streaming:
            put_symbol(
                pn_terminus_capabilities(pn_link_target(self.link)), b"qd.streaming-deliveries")
        self.lay_frames()

    def lay_frames(self) -> None:
        """Take pieces of the body that fill whole frames of the peer's largest size."""
        cdef size_t largest = pn_transport_get_remote_max_frame(self.connection.transport)
        if largest == 0 or largest > CHUNK:
            largest = CHUNK
        self.frame_payload = largest - FRAME_OVERHEAD
        self.piece = CHUNK // largest * self.frame_payload
        self.first_piece = min(self.template.block_size, self.piece)
        self.body_rest = self.template.body_size - self.first_piece

    def run(self) -> None:
        """Send until a limit or a signal, then wait for every outcome.

        Raises:
            OutcomeError: messages were rejected, released or modified.
            PeerError, LinkError: the peer failed or left early.
            OutputError: the records could not be written.
            TransactionError: a transaction failed.
        """
        if self.schedule is not None:
            # The kernel may wake a sleeper 50 us late to save power; a schedule must not wait.
            prctl(PR_SET_TIMERSLACK, 1)
        with nogil:
            self.control.say_ready()
            self.loop()
        refused = self.rejected + self.released + self.modified
        if refused:
            raise OutcomeError(
                f"{self.connection.peer}: {refused} of {self.sent} messages were not accepted: "
                f"{self.rejected} rejected, {self.released} released, {self.modified} modified"
                + (f" (first: {self.first_refusal})" if self.first_refusal else ""))

    @property
    def delays(self) -> DelayHistogram | None:
        """How late messages went out; None without a rate."""
        return None if self.schedule is None else self.schedule.delays

    @property
    def unsettled(self) -> int:
        """Number of messages that have no outcome."""
        return self.sent - self.settled

    cdef int begin(self) noexcept nogil:
        """Wait with the clock for the first credit: then both ends are ready."""
        self.prepare_clock()
        if self.limits.duration_ns:
            self.deadline = monotonic_ns() + max(self.limits.duration_ns, CREDIT_TIMEOUT)
        return 0

    cdef int await_credit(self, int64_t now) except -1 nogil:
        """Start the clock if there is credit; give up a peer that never gives any."""
        if pn_link_credit(self.link) > 0:
            return self.start_clock()
        if self.time_is_over(now):
            with gil:
                raise PeerError(f"{self.connection.peer}: the peer gave no credit")
        return 0

    cdef int loop(self) except -1 nogil:
        cdef int64_t now
        cdef bint closed
        while True:
            now = monotonic_ns()
            # First the outcomes that came before the end of the link, then the end.
            self.collect_outcomes()
            closed = self.closed_by_peer()
            self.flush_records(now)
            self.notice_wrapper(now)
            self.notice_signals(now)
            if self.started == 0 and not self.stopping:
                self.await_credit(now)
            if self.interrupted and self.body_left and (
                    self.streaming or now >= self.drain_deadline):
                self.aborted += 1
                self.settled += 1
                self.abort_delivery()
            if not self.stopping and self.is_done(now):
                self.start_draining(now)
            if closed:
                with gil:
                    return self.ended_by_peer(now)
            self.feed_body(now)
            if self.batch_size:
                self.transact(now)
            if not self.stopping:
                self.burst(now)
            elif self.is_settled():
                return 0
            elif now >= self.drain_deadline:
                if self.interrupted:
                    return 0
                with gil:
                    self.fail_silent()
            self.await_next(self.next_wake(now))

    cdef int await_next(self, int64_t wake) except -1 nogil:
        """Exchange with the peer, and wait for it or for the next message's time."""
        if wake == 0 or self.stopping:
            return self.connection.exchange(wake)
        if self.schedule is None and self.body_left == 0:
            return self.connection.exchange(0 if self.connection.linger() else wake)
        if self.is_exact and self.body_left == 0:
            return self.connection.exchange_awake(wake)
        return self.connection.exchange(wake)

    cdef int fail_silent(self) except -1:
        raise PeerError(
            f"{self.connection.peer}: {self.sent - self.settled} of {self.sent} "
            "messages have no outcome and the peer is silent")

    cdef bint is_done(self, int64_t now) noexcept nogil:
        return self.control.stopped or self.time_is_over(now) or (
            self.limits.count and self.sent >= self.limits.count)

    cdef int start_draining(self, int64_t now) noexcept nogil:
        self.stopping = True
        self.drain_deadline = now + DRAIN_TIMEOUT
        return 0

    cdef int64_t allowance(self, int64_t now) noexcept nogil:
        """Return how many more messages count and schedule allow now."""
        cdef int64_t most = INT64_MAX
        if self.limits.count:
            most = self.limits.count - self.sent
        if self.schedule is not None:
            # The schedule begins here, when the peer first gives credit.
            most = min(most, self.schedule.due(now) - self.sent)
        if self.batch_size:
            most = min(most, self.batch_size - self.batch_sent)
            if not self.coordinator.is_open():
                return 0
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
            if self.schedule is not None or i % self.clock_block == 0:
                time = self.send_time()
            self.send_message(time)
            if self.body_left:
                self.feed_body(now)
            if self.body_left or pn_session_outgoing_bytes(self.session) >= OUTGOING_LIMIT:
                break
        if room <= 0 and pn_link_get_drain(self.link):
            pn_link_drained(self.link)
        return 0

    cdef int64_t send_time(self) noexcept nogil:
        """Return the time to put into the next message, in the run's unit."""
        if self.schedule is None:
            return realtime_ns() // self.time_divisor
        return self.schedule.send_time(self.sent) // self.time_divisor

    cdef int send_message(self, int64_t time) except -1 nogil:
        cdef char[4] tag
        cdef pn_delivery_t *delivery
        self.template.next_message(time)
        put_tag(tag, self.sent + 1)
        delivery = pn_delivery(self.link, pn_dtag(tag, TAG_SIZE))
        if self.coordinator is not None:
            self.coordinator.enlist(delivery, 0)
        pn_link_send(self.link, self.template.head, self.template.head_size + self.first_piece)
        self.sent += 1
        self.batch_sent += 1
        self.body_left = self.body_rest
        if self.streaming:
            self.begin_stream(time)
        if self.body_left == 0:
            self.finish_delivery()
        else:
            self.section_left = self.template.section_size - self.first_piece
        if self.with_ids:
            return self.writer.sent_with_id(
                self.template.digits, self.template.digit_count, time)
        return self.writer.sent(time)

    cdef int begin_stream(self, int64_t time) noexcept nogil:
        self.message_time = time
        self.first_time = realtime_ns() // self.time_divisor
        self.told = 0
        self.bytes += self.template.body_size - self.body_left
        return 0

    cdef int finish_delivery(self) except -1 nogil:
        """Tell the engine that the present delivery is whole."""
        if self.streaming:
            self.tell(c"F")
        if not self.presettled:
            pn_link_advance(self.link)
            return 0
        self.settled += 1
        pn_delivery_settle(pn_link_current(self.link))
        return 0

    cdef int abort_delivery(self) noexcept nogil:
        """Abort the present delivery, so that the receiver expects no more of it (part 2.6.14)."""
        self.body_left = 0
        pn_delivery_abort(pn_link_current(self.link))
        return 0

    cdef size_t room(self) noexcept nogil:
        """Return how much of a body the engine may be given now.

        The rest of the window is for the next pieces: to fill it at once was slower, and an
        engine of the system's copies at every frame what it cannot frame for want of a window.
        """
        cdef uint64_t window = pn_session_remote_incoming_window(self.session)
        cdef size_t pending = pn_session_outgoing_bytes(self.session)
        cdef uint64_t limit
        if window == 0:
            return 0
        limit = min(<uint64_t>OUTGOING_LIMIT, max(window // 2, <uint64_t>1) * self.frame_payload)
        if pending >= limit:
            return 0
        return min(self.piece, <size_t>(limit - pending))

    cdef int feed_body(self, int64_t now) except -1 nogil:
        """Give the engine and the socket more of a large body, as they take it."""
        cdef size_t room
        for _ in range(PIECES):
            if self.body_left == 0 or self.connection.blocked:
                return 0
            room = self.room()
            if room < self.frame_payload or not self.feed_piece(room, now):
                return 0
        return 0

    cdef bint feed_piece(self, size_t room, int64_t now) except? False nogil:
        """Give the next piece; False when the socket is full."""
        cdef size_t size
        cdef bint is_open = True
        if self.section_left == 0:
            self.section_left = min(self.body_left, self.template.section_size)
            self.template.next_section(self.section_left)
            pn_link_send(self.link, self.template.section, sizeof(self.template.section))
        size = <size_t>min(<uint64_t>room, self.section_left)
        if size < self.body_left:
            is_open = pnx_send(
                self.link, self.template.body, size, self.connection.clear_socket())
        else:
            # By the engine: the last transfer of a body says that it is whole.
            pn_link_send(self.link, self.template.body, size)
        self.section_left -= size
        self.body_left -= size
        if self.streaming:
            self.bytes += size
        if self.stopping and not self.interrupted:
            # The last message is on its way, however long that takes.
            self.drain_deadline = now + DRAIN_TIMEOUT
        if self.body_left == 0:
            self.finish_delivery()
        return is_open

    cdef int tell(self, char kind) except -1 nogil:
        """Record the bytes of the present body that went out since the last time."""
        cdef int64_t given = <int64_t>(self.template.body_size - self.body_left)
        cdef int64_t fresh = given - self.told
        self.told = given
        cdef int64_t time = realtime_ns() // self.time_divisor
        return self.writer.streamed(kind, self.message_time, self.first_time, time, fresh)

    cdef int tell_progress(self) except -1 nogil:
        if self.streaming and self.body_left:
            self.tell(c"B")
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
            # The peer decided before the body's end; it wants no more of it.
            self.abort_delivery()
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
        cdef char *end = put_decimal(digits, sequence)
        return self.writer.settled(
            digits, end - digits, time, sequence % SETTLEMENT_SAMPLE == 1)

    cdef int64_t next_wake(self, int64_t now) noexcept nogil:
        """Return until when the connection may wait: 0 when there is more to send now."""
        cdef int64_t wake = min(self.next_flush, self.deadline)
        cdef int64_t allowance
        if self.body_left:
            # Whether the engine has room for more shows when its output is written.
            self.connection.write()
            if self.connection.blocked or self.room() >= self.frame_payload:
                return 0
        if self.stopping or self.body_left:
            return min(self.next_flush, self.drain_deadline)
        if pn_link_credit(self.link) <= 0:
            return wake
        allowance = self.allowance(now)
        if allowance > 0:
            return 0
        if self.schedule is not None and self.sent >= self.schedule.due(now):
            # Otherwise wait for the transaction; the schedule catches up after that.
            wake = min(wake, self.schedule.wake(self.sent))
        return wake

    cdef bint is_settled(self) noexcept nogil:
        """Say whether every message has its outcome, and every transaction is discharged."""
        if self.settled != self.sent or self.body_left:
            return False
        return self.batch_size == 0 or (
            self.batch_sent == 0 and not self.coordinator.is_discharging())

    cdef int transact(self, int64_t now) except -1 nogil:
        """Discharge a batch that is complete, and declare the next with that."""
        cdef bint complete = self.batch_sent >= self.batch_size or self.stopping
        self.coordinator.poll(now)
        if not self.coordinator.is_idle() or self.settled != self.sent or self.body_left:
            return 0
        if self.batch_sent and complete:
            self.batch_sent = 0
            with gil:
                self.coordinator.discharge(not self.stopping)
        elif not self.stopping and not self.coordinator.is_open():
            with gil:
                self.coordinator.declare()
        return 0

    cdef int ended_by_peer(self, int64_t now) except -1:
        """Judge an orderly end by the peer: right only at the end of a timed run."""
        unsettled = self.unsettled
        if self.limits.count == 0 and self.near_the_end(now):
            # The peer's time is over as ours is. The report has what is left without an outcome.
            return 0
        if unsettled == 0 and (self.interrupted or 0 < self.limits.count <= self.sent):
            return 0
        goal = f" of {self.limits.count}" if self.limits.count else ""
        raise LinkError(
            f"{self.connection.peer}: the peer closed the link after {self.sent}{goal} messages, "
            f"{unsettled} of them without an outcome")
