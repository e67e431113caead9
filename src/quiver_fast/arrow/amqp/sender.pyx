"""The sending end: bursts of one patched template, outcomes, schedule, transactions."""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from quiver_fast.amqp.data_plane cimport (
    AMQP_CODE_MODIFIED, AMQP_CODE_NONE, AMQP_CODE_RECEIVED, AMQP_CODE_REJECTED,
    AMQP_CODE_RELEASED, AMQP_CODE_TRANSACTIONAL, AMQP_NOTHING, AMQP_OUTCOME, AMQP_RECEIVER,
    AMQP_THEIRS, amqp_code, amqp_disposition_t, amqp_event, amqp_output_add, amqp_output_room,
    amqp_output_waiting, amqp_sender_drained, amqp_session_end_t, amqp_stamp_number, amqp_stamp_t,
    amqp_state_t, amqp_unsettled_clip, amqp_unsettled_settle, amqp_unsettled_settle_all,
)
from quiver_fast.arrow.amqp.connection cimport error_text, put_symbol
from quiver_fast.arrow.amqp.link cimport Endpoint
from quiver_fast.arrow.amqp.outcome_text import not_accepted, without_outcome
from quiver_fast.arrow.amqp.outgoing cimport MOST_UNSETTLED, Outgoing
from quiver_fast.arrow.amqp.template cimport MessageTemplate
from quiver_fast.arrow.amqp.transport cimport no_memory
from quiver_fast.arrow.run.course cimport OVER, Limits
from quiver_fast.arrow.run.delays cimport CREDIT, ITSELF, OUTCOMES, SOCKET, Cause
from quiver_fast.arrow.run.pacer cimport BacklogSchedule
from quiver_fast.errors import PeerError, LinkError, OutcomeError
from quiver_fast.proton.libproton cimport (
    PN_SND_SETTLED, PN_SND_UNSETTLED, pn_link_set_snd_settle_mode, pn_link_target,
    pn_terminus_capabilities,
)
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.records.digits cimport put_decimal
from quiver_fast.records.formats import SETTLEMENT_SAMPLE_INTERVAL
from quiver_fast.words import counted

# Messages between two writes: enough to fill the socket, few enough to answer flows.
cdef int BURST = 256
# Bytes that may wait for the socket; the last frame may exceed them.
cdef size_t WAITING_LIMIT = 65536
# Four larger bodies take longer than a microsecond to copy.
cdef uint64_t SMALL_BODY = 1024
# Frames of a body between two reads.
cdef int PIECES = 16
cdef int64_t SECOND = 1000000000
# At the end of a run: how long the peer may send no outcome.
cdef int64_t DRAIN_TIMEOUT = 10 * SECOND
# The least time for the peer's first credit.
cdef int64_t CREDIT_TIMEOUT = 60 * SECOND
cdef int64_t SETTLEMENT_SAMPLE = SETTLEMENT_SAMPLE_INTERVAL


cdef class Sender(Endpoint):
    """Send ``x``-filled messages and account for every one of them.

    Args:
        connection, writer, limits, address, name, time_unit, transaction_size: see Endpoint.
        template: the message.
        with_ids: write ids into the records (revisions v1 and v2).
        settlement: write S and s records.
        presettled: send settled (at most once); there are no outcomes then.
        exact: spin on a core until a message is due, so that none goes late.
        asked_silence: seconds without an outcome that a slow receiver was asked for.
    """

    def __init__(self, connection: "Connection", writer: "RecordWriter", limits: Limits, *,
                 address: str, name: str, template: MessageTemplate,
                 with_ids: bool = False, settlement: bool = False, presettled: bool = False,
                 exact: bool = False, time_unit: str = "ms", transaction_size: int = 0,
                 asked_silence: float = 0) -> None:
        super().__init__(connection, writer, limits, address=address, name=name,
                         time_unit=time_unit, transaction_size=transaction_size)
        self.is_sender = True
        self.template = template
        self.outgoing = Outgoing(template, presettled)
        self.streaming = self.template.streaming
        self.with_ids = with_ids
        self.settlement = settlement
        self.first_refusal = ""
        self.course.patience = DRAIN_TIMEOUT + <int64_t>(asked_silence * SECOND)
        self.course.follow_schedule()
        self.is_exact = exact
        if time_unit != "ms" and self.template.largest_size > SMALL_BODY:
            # A block of these takes longer than a microsecond.
            self.course.clock_block = 1

    def prepare(self) -> None:
        # Output refers to the template's body.
        self.connection.referred = self.template
        mode = PN_SND_SETTLED if self.outgoing.presettled else PN_SND_UNSETTLED
        pn_link_set_snd_settle_mode(self.link, mode)
        if self.streaming:
            put_symbol(
                pn_terminus_capabilities(pn_link_target(self.link)), b"qd.streaming-deliveries")

    def use_link(self) -> None:
        """Raise LinkError where the peer takes no messages as large as ours (part 2.7.3)."""
        cdef uint64_t most = self.end.max_message_size[<int>AMQP_THEIRS]
        if most and self.template.size > most:
            raise LinkError(
                f"{self.connection.peer}: '{self.address}' takes messages of at most "
                f"{counted(most, 'byte')}, and ours have {self.template.size} "
                f"(body-size {self.template.largest_size})")
        self.outgoing.attach(self.connection, self.end, self.coordinator)

    def run(self) -> None:
        """Send until a limit or a signal, then wait for every outcome.

        Raises:
            OutcomeError: messages were rejected, released or modified.
            PeerError, LinkError: the peer failed or left early.
            OutputError: the records could not be written.
            TransactionError: a transaction failed.
        """
        with nogil:
            self.course.control.say_ready()
            self.loop()
        self.conclude()

    def conclude(self) -> None:
        if self.rejected + self.released + self.modified:
            raise OutcomeError(not_accepted(self.connection.peer, self.account()))

    def account(self) -> "Account":
        # Presettled messages have arrived when the peer has read all that went out.
        committed = self.coordinator is None or self.coordinator.has_committed(self.batch_sent)
        arrived = self.settled == self.sent and (
            not self.outgoing.presettled or self.connection.was_read())
        return super().account()._replace(
            sent=self.sent, accepted=self.accepted, rejected=self.rejected,
            released=self.released, modified=self.modified, unsettled=self.sent - self.settled,
            aborted=self.aborted, bytes=self.outgoing.bytes, first_refusal=self.first_refusal,
            has_all_outcomes=committed and arrived)

    cdef int begin(self) noexcept nogil:
        """Prepare the clock. It starts with the first credit, when both ends are ready."""
        if self.course.started:
            return 0
        self.course.prepare_clock()
        if self.course.limits.duration_ns:
            self.course.deadline = monotonic_ns() + max(
                self.course.limits.duration_ns, CREDIT_TIMEOUT)
        return 0

    cdef int await_credit(self, int64_t now) except -1 nogil:
        """Start the clock if there is credit; raise PeerError if none came in time."""
        if self.end.counts.credit > 0 and not self.course.control.held:
            # At the time of this turn, with which the schedule begins: else a message more is due.
            self.course.prepare_clock()
            return self.course.begin_at(now)
        if self.course.control.held:
            self.begin()
        elif now >= self.course.deadline:
            with gil:
                raise PeerError(f"{self.connection.peer}: the peer gave no credit")
        return 0

    cdef int64_t turn(self, int64_t now) except? -1 nogil:
        cdef bint closed = self.closed_by_peer()
        cdef int64_t wake
        if now >= self.course.next_flush and self.streaming and self.outgoing.is_open:
            # The message takes longer than a flush: record its progress.
            self.record_body(c"B")
        self.course.notice(now, self.writer)
        if self.course.started == 0 and not self.course.stopping:
            self.await_credit(now)
        if self.course.interrupted and self.outgoing.is_open and not self.outgoing.is_aborting and (
                self.streaming or now >= self.course.drain_deadline):
            self.aborted += 1
            self.settled += 1
            amqp_unsettled_settle(&self.outgoing.unsettled, self.outgoing.delivery_id)
            self.outgoing.abort()
        if not self.course.stopping and self.course.is_over(now, self.sent):
            self.course.start_draining(now)
        if closed:
            with gil:
                self.ended_by_peer(now)
            return OVER
        self.feed_body(now)
        if self.course.stopping and not self.outgoing.is_open:
            self.answer_drain()
        if self.batch_size:
            self.transact(now)
        if not self.course.stopping:
            self.note_waits(now)
            if not self.course.control.held:
                self.burst(now)
            self.note_waits(0)
        elif self.is_settled():
            return OVER
        elif now >= self.course.drain_deadline:
            if self.course.interrupted:
                return OVER
            with gil:
                self.fail_silent()
        wake = self.next_wake(now)
        return wake if self.course.schedule is None else (
            self.course.schedule.sleep_until(wake, now))

    cdef int await_input(self, int64_t wake) except -1 nogil:
        """Exchange; wait for the peer or for the time of the next message."""
        if wake == 0 or self.course.stopping:
            return self.connection.exchange(wake)
        if self.course.schedule is None and not self.outgoing.is_open:
            return self.connection.exchange_spinning(wake)
        if self.is_exact and not self.outgoing.is_open:
            return self.connection.exchange_awake(wake)
        return self.connection.exchange(wake)

    cdef void note_waits(self, int64_t now) noexcept nogil:
        """Note what of the peer a message waits for, since ``now``: 0 after a burst."""
        cdef int64_t began = self.connection.blocked_from
        cdef int64_t ended = self.connection.blocked_to
        if self.course.schedule is None:
            return
        if now and self.course.schedule.was_away(now):
            if began > ended or ended > self.course.schedule.wakes:
                ended = self.course.schedule.wakes
            self.course.schedule.waits.add(SOCKET, began, ended)
            self.course.schedule.waits.be_away(self.course.schedule.wakes, now)
        self.course.schedule.waits.add(SOCKET, began, ended)
        self.course.schedule.note(self.awaited(), now)

    cdef Cause awaited(self) noexcept nogil:
        """Return what of the peer a message has to wait for; ITSELF if for nothing."""
        if self.end.counts.credit == 0 or self.end.session.counts.remote_incoming_window == 0:
            return CREDIT
        if self.sent - self.settled >= MOST_UNSETTLED - 1 or (self.batch_size and (
                self.batch_sent >= self.batch_size or not self.coordinator.is_open())):
            return OUTCOMES
        return ITSELF

    cdef int fail_silent(self) except -1:
        raise PeerError(without_outcome(
            self.connection, self.sent - self.settled, self.sent, self.room() <= 0))

    cdef int64_t allowance(self, int64_t now) noexcept nogil:
        """Return how many more messages count and schedule allow now."""
        cdef int64_t most = INT64_MAX
        if self.course.limits.count:
            most = self.course.limits.count - self.sent
        if self.course.schedule is not None:
            # The schedule begins with the first call, after the first credit.
            most = min(most, self.course.schedule.due(now) - self.sent)
        if self.batch_size:
            most = min(most, self.batch_size - self.batch_sent)
            if not self.coordinator.is_open():
                return 0
        return min(most, MOST_UNSETTLED - 1 - (self.sent - self.settled))

    cdef int burst(self, int64_t now) except -1 nogil:
        """Send as credit, windows, schedule and socket allow, up to BURST messages."""
        cdef int64_t allowed
        cdef int64_t room = self.room()
        cdef int64_t time = 0
        cdef int i
        if room <= 0:
            return 0 if self.end.counts.credit or self.outgoing.is_open else self.answer_drain()
        allowed = self.allowance(now)
        if allowed <= 0:
            return self.answer_drain()
        room = min(room, allowed)
        if self.outgoing.is_stamped:
            return self.send_stamped(room)
        for i in range(<int>room):
            if self.course.schedule is not None or i % self.course.clock_block == 0:
                time = self.course.send_time(self.sent)
            self.begin_message(time)
            self.feed_body(now)
            if self.outgoing.is_open or self.room() <= 0:
                break
        return 0

    cdef int answer_drain(self) except -1 nogil:
        """Answer a drain: use up the credit, because there is nothing to send (part 2.6.7)."""
        if amqp_sender_drained(&self.end.counts):
            self.connection.send_flow(self.end.session, self.end)
        return 0

    cdef int64_t room(self) noexcept nogil:
        """Return how many messages of one frame the peer and the socket take now."""
        cdef amqp_session_end_t *session = self.end.session
        if self.connection.blocked or self.outgoing.is_open:
            return 0
        if amqp_output_waiting(&self.connection.plane.output) >= WAITING_LIMIT:
            return 0
        return min(<int64_t>BURST, min(<int64_t>self.end.counts.credit,
                                       <int64_t>session.counts.remote_incoming_window))

    cdef int send_stamped(self, int64_t count) except -1 nogil:
        """Send ``count`` small messages, each of one frame, or as many as the output takes."""
        cdef amqp_stamp_t *stamp = &self.outgoing.stamp
        cdef uint32_t id
        cdef size_t room = WAITING_LIMIT - amqp_output_waiting(&self.connection.plane.output)
        cdef int64_t time
        cdef int64_t left
        cdef int64_t block
        cdef uint8_t *out
        # The first message shows the size of the others.
        count = min(count, <int64_t>(room // stamp.size) + 1 if stamp.size else 1)
        out = amqp_output_room(&self.connection.plane.output, count * self.outgoing.largest_stamp())
        if out == NULL:
            no_memory()
        self.outgoing.begin_deliveries(count)
        id = self.outgoing.delivery_id
        left = count
        while left:
            time = self.course.send_time(self.sent)
            block = min(left, 1 if self.course.schedule is not None else self.course.clock_block)
            left -= block
            for _ in range(block):
                if self.template.next_message(time) or stamp.size == 0:
                    self.outgoing.write_stamp()
                self.sent += 1
                amqp_stamp_number(stamp, id, self.sent)
                id += 1
                memcpy(out, stamp.frame, stamp.size)
                out += stamp.size
                if self.with_ids:
                    self.record(time)
                else:
                    self.writer.sent(time)
        amqp_output_add(&self.connection.plane.output, out)
        self.outgoing.count_frames(<uint32_t>count)
        if self.outgoing.presettled:
            self.settled += count
        return 0

    cdef int record(self, int64_t time) except -1 nogil:
        if self.with_ids:
            return self.writer.sent_with_id(self.template.digits, self.template.digit_count, time)
        return self.writer.sent(time)

    cdef int begin_message(self, int64_t time) except -1 nogil:
        """Begin the next delivery; `feed_body` sends its frames."""
        self.template.next_message(time)
        self.sent += 1
        self.batch_sent += 1
        self.outgoing.begin_message(self.sent)
        if self.streaming:
            self.message_time = time
            self.first_time = self.course.wall_time()
            self.recorded = 0
        return self.record(time)

    cdef int feed_body(self, int64_t now) except -1 nogil:
        """Send frames of the present delivery, as many as window and socket allow."""
        cdef amqp_session_end_t *session = self.end.session
        for _ in range(PIECES):
            if not self.outgoing.is_open or self.connection.blocked:
                return 0
            if session.counts.remote_incoming_window == 0:
                return 0
            if self.outgoing.is_aborting:
                return self.outgoing.send_abort()
            self.outgoing.send_frame()
            if not self.outgoing.is_open:
                self.finish_delivery()
            if self.course.stopping and not self.course.interrupted:
                # The last message may take any time, as long as its frames go out.
                self.course.drain_deadline = now + self.course.patience
            if amqp_output_waiting(&self.connection.plane.output) >= WAITING_LIMIT:
                self.connection.write()
        return 0

    cdef int finish_delivery(self) except -1 nogil:
        """Count the present message, whose last frame was sent."""
        if self.streaming:
            self.record_body(c"F")
        if self.outgoing.presettled:
            self.settled += 1
        return 0

    cdef int record_body(self, char kind) except -1 nogil:
        """Record the bytes of the present body that went out since the last record."""
        cdef int64_t given = <int64_t>(self.template.body_size - self.outgoing.body_left)
        cdef int64_t fresh = given - self.recorded
        self.recorded = given
        cdef int64_t time = self.course.wall_time()
        return self.writer.streamed(kind, self.message_time, self.first_time, time, fresh)

    cdef int take_input(self) except -1 nogil:
        """Take all input; settle the outcomes of our deliveries."""
        cdef amqp_event event = self.connection.next_event()
        while event != AMQP_NOTHING:
            if event == AMQP_OUTCOME and self.connection.plane.session == self.end.session:
                self.take_disposition(&self.connection.plane.disposition)
            event = self.connection.next_event()
        return 0

    cdef int take_disposition(self, const amqp_disposition_t *disposition) except -1 nogil:
        cdef uint32_t first = disposition.first
        cdef uint32_t last = disposition.last
        cdef amqp_code code = disposition.state.code
        if self.coordinator is not None:
            self.coordinator.take_disposition(disposition)
        if code == AMQP_CODE_TRANSACTIONAL:
            code = disposition.state.outcome
        # Not an outcome yet (part 3.4.1).
        if code == AMQP_CODE_RECEIVED or (code == AMQP_CODE_NONE and not disposition.settled):
            return 0
        if disposition.role != AMQP_RECEIVER or (
                not amqp_unsettled_clip(&self.outgoing.unsettled, &first, &last)):
            return 0
        return self.take_outcomes(disposition, first, last)

    cdef int take_outcomes(
            self, const amqp_disposition_t *disposition,
            uint32_t first, uint32_t last) except -1 nogil:
        """Settle those deliveries of a range that have no outcome yet."""
        cdef bint cuts_off = self.outgoing.is_open and (
            <uint32_t>(self.outgoing.delivery_id - first) <= <uint32_t>(last - first))
        cdef int64_t count
        if self.settlement:
            count = self.settle_each(first, last)
        else:
            count = amqp_unsettled_settle_all(&self.outgoing.unsettled, first, last)
        if count == 0:
            return 0
        self.count_outcomes(&disposition.state, count)
        self.settled += count
        if not disposition.settled:
            self.connection.settle(self.end.session, first, last)
        if self.course.stopping and not self.course.interrupted:
            self.course.start_draining(monotonic_ns())
        if cuts_off:
            # The peer settled the message before its end: it wants no more of it.
            self.outgoing.abort()
        return 0

    cdef int count_outcomes(self, const amqp_state_t *state, int64_t count) except -1 nogil:
        cdef amqp_code code = state.code
        if code == AMQP_CODE_TRANSACTIONAL:
            code = state.outcome
        if code == AMQP_CODE_REJECTED:
            self.rejected += count
            with gil:
                if not self.first_refusal:
                    self.first_refusal = error_text(state.condition, state.description)
        elif code == AMQP_CODE_RELEASED:
            self.released += count
        elif code == AMQP_CODE_MODIFIED:
            self.modified += count
        else:
            # Settled without an outcome: the default outcome, accepted (part 2.6.12).
            self.accepted += count
        return 0

    cdef int64_t settle_each(self, uint32_t first, uint32_t last) except -1 nogil:
        """Settle and record a range of deliveries; return how many had no outcome yet."""
        cdef int64_t time = self.course.wall_time()
        cdef int64_t count = 0
        cdef int64_t sequence
        cdef uint32_t id = first
        cdef char[24] digits
        cdef char *end
        while True:
            if amqp_unsettled_settle(&self.outgoing.unsettled, id):
                count += 1
                # The newest id is `next` - 1 and belongs to message number `sent`: deliveries to
                # the coordinator begin only when all of ours are settled.
                sequence = self.sent - <uint32_t>(self.outgoing.unsettled.next - 1 - id)
                end = put_decimal(digits, self.template.before + sequence)
                self.writer.settled(
                    digits, end - digits, time, sequence % SETTLEMENT_SAMPLE == 1)
            if id == last:
                return count
            id += 1

    cdef int64_t next_wake(self, int64_t now) noexcept nogil:
        """Return until when the connection may wait: 0 when there is more to send now."""
        cdef int64_t wake = min(self.course.next_flush, self.course.deadline)
        if self.outgoing.is_open and self.end.session.counts.remote_incoming_window:
            # Only a session without a window waits for the peer.
            return 0
        if self.course.stopping or self.outgoing.is_open:
            return min(self.course.next_flush, self.course.drain_deadline)
        if self.course.is_over(now, self.sent):
            # Settled messages have no outcome that would wake us.
            return 0
        if self.end.counts.credit == 0 or self.end.session.counts.remote_incoming_window == 0 or (
                self.course.control.held):
            return wake
        if self.allowance(now) > 0:
            return 0
        if self.course.schedule is not None and self.sent >= self.course.schedule.due(now):
            # Otherwise the transaction is waited for; then the schedule catches up.
            wake = min(wake, self.course.schedule.wake(self.sent))
        return wake

    cdef bint is_settled(self) noexcept nogil:
        """Say whether every message has its outcome, and every transaction is discharged."""
        if self.settled != self.sent or self.outgoing.is_open:
            return False
        return self.batch_size == 0 or (
            self.batch_sent == 0 and not self.coordinator.is_discharging())

    cdef int transact(self, int64_t now) except -1 nogil:
        """Discharge a complete batch, and declare the next transaction with it."""
        cdef bint complete = self.batch_sent >= self.batch_size or self.course.stopping
        self.coordinator.poll(now)
        if not self.coordinator.is_idle() or self.settled != self.sent or self.outgoing.is_open:
            return 0
        if self.batch_sent and complete:
            self.batch_sent = 0
            with gil:
                self.coordinator.discharge(not self.course.stopping)
        elif not self.course.stopping and not self.coordinator.is_open():
            with gil:
                self.coordinator.declare()
        return 0

    cdef int ended_by_peer(self, int64_t now) except -1:
        """Raise LinkError for an orderly end by the peer, except at the end of a timed run."""
        unsettled = self.sent - self.settled
        count = self.course.limits.count
        if count == 0 and self.course.near_the_end(now):
            # The peer has the same duration. The report counts messages without an outcome.
            return 0
        if unsettled == 0 and (self.course.interrupted or 0 < count <= self.sent):
            return 0
        after = counted(self.sent, "message")
        if count:
            after = f"{self.sent} of {counted(count, 'message')}"
        raise LinkError(
            f"{self.connection.peer}: the peer closed the link after {after}, "
            f"{unsettled} of them without an outcome")


cdef class BacklogSender(Sender):
    """Send a backlog as fast as can be; then the duration and the schedule of the run begin.

    Args:
        backlog: how many messages; 1 or more.
        options: see Sender. There is a schedule, and no count.
    """

    cdef bint is_full

    def __init__(self, connection, writer, limits, *, backlog: int, **options: object) -> None:
        super().__init__(connection, writer, limits, **options)
        self.course.schedule = BacklogSchedule(limits, backlog)

    cdef int await_credit(self, int64_t now) except -1 nogil:
        Sender.await_credit(self, now)
        if self.course.started:
            self.course.deadline = INT64_MAX
        return 0

    cdef int64_t turn(self, int64_t now) except? -1 nogil:
        if not self.is_full and self.course.schedule.start:
            self.is_full = True
            self.course.begin_at(self.course.schedule.start)
        return Sender.turn(self, now)
