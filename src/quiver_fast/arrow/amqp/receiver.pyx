"""The receiving end: credit, partial deliveries, records, acceptance, transactions."""

from libc.stdint cimport INT64_MAX, UINT32_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from quiver_fast.amqp.data_plane cimport (
    AMQP_ARRIVAL, AMQP_CODE_ACCEPTED, AMQP_CODE_TRANSACTIONAL, AMQP_CREDIT, AMQP_OUTCOME,
    amqp_arrival_t, amqp_event, amqp_link_end_t, amqp_plane_next, amqp_plane_t,
)
from quiver_fast.arrow.amqp.connection cimport PEER_CLOSED
from quiver_fast.arrow.amqp.incoming cimport (
    LARGEST_HEAD, Backlog, Inflow, free_inflow, keep_head, new_inflow,
)
from quiver_fast.arrow.amqp.link cimport Endpoint, ask_for_filters, check_filters
from quiver_fast.arrow.amqp.scanner cimport (
    SCAN_FOUND, SCAN_MISSING, SCAN_MORE, SCAN_WRONG_TYPE, ScanResult, flaw_of_id, id_as_text,
    is_alike, scan_alike, time_field,
)
from quiver_fast.arrow.run.course cimport OVER, Limits
from quiver_fast.arrow.run.course import UNIT_FACTOR
from quiver_fast.errors import LinkError, MessageError
from quiver_fast.proton.libproton cimport (
    PN_RCV_FIRST, PN_REMOTE_CLOSED, pn_link_set_rcv_settle_mode,
    pn_link_source, pn_session_set_incoming_capacity, pn_session_state,
)
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.words import counted

cdef int64_t SECOND = 1000000000
# At the end: how long a peer may take to answer a drain, or to send the next message.
cdef int64_t DRAIN_TIMEOUT = 2 * SECOND
# The same for a peer that cannot be drained: its silence shows that it has no more.
cdef int64_t SILENCE = SECOND
# Frames that may wait while a transaction is discharged: no message is taken then.
cdef unsigned TRANSACTION_WINDOW = 128


cdef class Receiver(Endpoint):
    """Receive messages, record and accept every one of them.

    Args:
        connection, writer, limits, address, name, time_unit, transaction_size: see Endpoint.
        credit_window: messages that the peer may send ahead.
        with_ids: write ids into the records (revisions v1 and v2).
        id_prefix: left out of the ids of this run; others keep theirs and show as foreign.
        filters: the `SourceFilters` of the source; None for none.

    If the run has a start (see Limits), messages of other runs are recorded, but not counted as
    received.
    """

    def __cinit__(self) -> None:
        self.base = NULL

    def __init__(self, connection: "Connection", writer: "RecordWriter", limits: Limits, *,
                 address: str, name: str, credit_window: int, with_ids: bool = False,
                 id_prefix: str = "", time_unit: str = "ms", transaction_size: int = 0,
                 filters: SourceFilters | None = None) -> None:
        super().__init__(connection, writer, limits, address=address, name=name,
                         time_unit=time_unit, transaction_size=transaction_size)
        self.is_sender = False
        self.filters = filters
        self.credit_window = credit_window
        self.with_ids = with_ids
        self.id_prefix = id_prefix.encode("ascii")
        self.prefix = self.id_prefix
        self.prefix_size = len(self.id_prefix)
        self.tells_by_id = bool(limits.run_start_ms and with_ids and id_prefix)
        self.is_plain = not with_ids and transaction_size == 0
        self.most = self.goal()
        self.base = new_inflow(NULL)
        self.backlog = Backlog()

    def __dealloc__(self) -> None:
        free_inflow(self.base)

    def prepare_session(self) -> None:
        if self.batch_size:
            frame_size = self.connection.plane.max_frame_size
            # The engine has the window in bytes, a number of 32 bits.
            self.window = min(TRANSACTION_WINDOW, UINT32_MAX // frame_size)
            pn_session_set_incoming_capacity(self.session, <size_t>self.window * frame_size)

    def prepare(self) -> None:
        self.undrainable = self.connection.breaks_on_drain()
        self.course.patience = SILENCE if self.undrainable else DRAIN_TIMEOUT
        self.base.link = self.link
        pn_link_set_rcv_settle_mode(self.link, PN_RCV_FIRST)
        if self.filters is not None:
            ask_for_filters(pn_link_source(self.link), self.filters.encoded())

    def use_link(self) -> None:
        """Check that the peer applies the filters: otherwise other messages would come."""
        # A peer that attaches without a source refuses the link, and its detach says why.
        if self.filters is not None and not self.is_refusal():
            check_filters(self, self.filters)

    cdef void *user(self) noexcept:
        return self.base

    cdef int begin(self) noexcept nogil:
        self.base.end = self.end
        if self.batch_size:
            # The session's window opens when a message is taken, not when it arrives.
            self.end.session.window = 0
        if self.course.started:
            return 0
        self.course.start_clock()
        if self.course.control.was_given:
            # The wrapper says when no more messages come.
            self.course.deadline = INT64_MAX
        return 0

    def run(self) -> None:
        """Receive until a limit or a signal.

        Raises:
            MessageError: a message has no SendTime of type long, was cut or aborted.
            PeerError, LinkError: the peer failed, left early, or does not filter.
            OutputError: the records could not be written.
            TransactionError: a transaction failed.
        """
        with nogil:
            if not self.course.stopping:
                self.top_up()
            self.connection.write()
            self.course.control.say_ready()
            self.loop()
        if self.aborted and not self.course.interrupted and not self.course.limits.reconnects:
            raise MessageError(f"{self.connection.peer}: {self.aborted} deliveries were aborted")

    def lose(self) -> list[int]:
        """Forget what has come in part, and what waits: the peer sends it again."""
        self.base.head_size = 0
        self.base.waiting = 0
        self.base.scanned = self.base.begun = False
        self.backlog = Backlog()
        self.batch_received = self.unreturned = 0
        self.was_drained = self.confirming = False
        return super().lose()

    cdef bint is_over_without(self, int64_t now) noexcept nogil:
        # A receiver that was told to stop connects again, to drain its queue.
        return self.received >= self.goal() or now >= self.course.deadline

    def resume(self) -> None:
        # A drain begins anew.
        if self.course.stopping:
            self.course.start_draining(monotonic_ns())
            self.drain(monotonic_ns())

    def account(self) -> "Account":
        asked = not self.undrainable and self.course.drain_deadline != INT64_MAX
        return super().account()._replace(
            received=self.received, older=self.older, foreign=self.foreign, aborted=self.aborted,
            queue_empty=self.was_drained if asked else None,
            drained_at=(self.asked_at, self.asked_last) if asked and self.was_drained else None)

    cdef int64_t turn(self, int64_t now) except? -1 nogil:
        cdef int64_t end
        cdef bint closed
        cdef bint ending
        if self.batch_size:
            self.coordinator.poll(now)
            self.take_backlog()
        closed = self.closed_by_peer()
        if self.course.notice(now, self.writer):
            self.drain(now)
        ending = self.is_ending(closed, now)
        if closed and ending and self.received < self.goal():
            with gil:
                self.ended_by_peer(now)
        if (self.batch_size == 0 or self.is_committed(ending, now)) and ending:
            self.course.stopping = True
            return OVER
        if ending:
            # Wait for the answer to the last discharge.
            end = self.course.next_flush
        elif self.course.stopping:
            end = self.course.drain_deadline
        elif self.course.is_over(now, self.received):
            self.course.start_draining(now)
            self.drain(now)
            end = self.course.drain_deadline
        else:
            self.top_up()
            end = self.course.deadline
        return min(self.course.next_flush, end)

    cdef bint is_ending(self, bint closed, int64_t now) noexcept nogil:
        """Say whether the receiver takes no more messages."""
        if self.received >= self.goal():
            return True
        if closed:
            # Messages may wait for the next transaction.
            return self.backlog.frames == 0 or (
                pn_session_state(self.session) & PN_REMOTE_CLOSED)
        return self.course.stopping and self.is_drained(now)

    cdef bint may_take(self) noexcept nogil:
        """Say whether a message may be taken: without transactions, or into the open one."""
        return self.batch_size == 0 or (
            self.batch_received < self.batch_size and self.coordinator.is_open())

    cdef bint is_committed(self, bint ending, int64_t now) except? -1 nogil:
        """Discharge a complete batch; declare the next transaction unless the run is ending.

        Returns whether the peer has confirmed all messages that were taken.
        """
        cdef bint complete = ending or self.batch_received >= self.batch_size
        if self.coordinator.is_discharging():
            # After a signal, answers are awaited only until the deadline.
            return self.course.interrupted and now >= self.course.drain_deadline
        if self.batch_received and complete:
            self.batch_received = 0
            with gil:
                self.coordinator.discharge(not ending)
            return False
        if not ending and not self.coordinator.is_open() and self.coordinator.is_idle():
            with gil:
                self.coordinator.declare()
        return True

    cdef int drain(self, int64_t now) except -1 nogil:
        """Drain the link; messages on their way still come (part 2.6.7)."""
        if not self.undrainable:
            self.ask_for_the_rest()
        elif self.received >= self.course.control.total:
            self.course.drain_deadline = now
        return 0

    cdef bint is_drained(self, int64_t now) noexcept nogil:
        if now >= self.course.drain_deadline:
            return True
        if self.undrainable or self.end.counts.credit or self.backlog.frames:
            return False
        # `drained` is credit that the peer returned; messages have not used it.
        self.was_drained = self.end.counts.drained > 0
        self.end.counts.drained = 0
        if not self.was_drained or self.taken() == self.taken_before:
            return True
        # ActiveMQ Classic gives credit back after each page of its queue: only a drain without
        # a message proves that the queue is empty. A second one asks for a single message.
        self.was_drained = False
        if self.confirming:
            return True
        self.confirming = True
        self.ask_for_the_rest()
        return False

    cdef int ask_for_the_rest(self) except -1 nogil:
        """Ask the peer to send its messages for our credit, and to return the rest of it."""
        self.taken_before = self.taken()
        self.note_drain()
        # Without credit a peer cannot show that its queue is empty.
        return self.connection.give_credit(self.end, self.end.counts.credit == 0, True)

    cdef int note_drain(self) noexcept nogil:
        """Note when a drain begins; one that is not answered yet goes on (part 2.6.7)."""
        if self.asked_at == 0 or self.end.counts.credit == 0:
            self.asked_at = monotonic_ns()
            self.asked_last = self.course.control.senders_ended
        return 0

    cdef int64_t taken(self) noexcept nogil:
        """Return the number of all messages, including those of other runs."""
        return self.received + self.older + self.foreign

    cdef int64_t goal(self) noexcept nogil:
        return self.course.limits.count if self.course.limits.count else INT64_MAX

    cdef int await_input(self, int64_t wake) except -1 nogil:
        return self.connection.await_messages(wake)

    cdef int take_input(self) except -1 nogil:
        """Take all input: messages, and parts of messages."""
        cdef amqp_plane_t *plane = &self.connection.plane
        cdef amqp_event event = AMQP_CREDIT
        self.taken_since = 0
        # Like Connection.next_event, but with one call less for each message.
        while self.connection.handle_event(event):
            event = amqp_plane_next(plane)
            while event == AMQP_ARRIVAL:
                if not self.take_plain(&plane.arrival):
                    self.take_arrival(&plane.arrival)
                event = amqp_plane_next(plane)
            if event == AMQP_OUTCOME and self.coordinator is not None:
                self.coordinator.take_disposition(&plane.disposition)
        return 0

    cdef bint take_plain(self, const amqp_arrival_t *arrival) except -1 nogil:
        """Take a whole message of this run, recorded without an id; return False for any other.

        The result is that of `take_arrival`, which is the long way.
        """
        cdef const uint8_t *data = arrival.payload.start
        cdef int64_t send_time
        if not self.is_plain or self.received == 0 or self.received >= self.most:
            return False
        if self.course.stopping or not arrival.first or arrival.more or arrival.aborted:
            return False
        if not is_alike(&self.likeness, data, arrival.payload.size):
            return False
        send_time = time_field(data + self.likeness.time_at)
        if not self.course.is_timely(send_time):
            return False
        if self.taken_since % self.course.clock_block == 0:
            self.now = self.course.wall_time()
        self.taken_since += 1
        self.received += 1
        self.writer.received(send_time, self.now)
        if not arrival.settled:
            self.connection.accept(
                arrival.link.session, arrival.delivery_id, AMQP_CODE_ACCEPTED)
        return True

    cdef int take_arrival(self, const amqp_arrival_t *arrival) except -1 nogil:
        """Take a frame; without an open transaction, put it into the backlog."""
        cdef Inflow *flow = <Inflow *>arrival.link.user
        if flow == NULL:
            # A link that we are about to detach.
            return 0
        if self.course.stopping and not self.course.interrupted:
            # The last messages may take any time, as long as frames come.
            self.course.drain_deadline = monotonic_ns() + self.course.patience
        if self.backlog.frames == 0 and self.may_take():
            return self.take_part(flow, arrival)
        flow.waiting += 1
        return self.backlog.put(arrival)

    cdef int take_backlog(self) except -1 nogil:
        """Take frames from the backlog, as far as `may_take` allows."""
        cdef amqp_arrival_t arrival
        cdef Inflow *flow
        while self.backlog.frames and self.may_take():
            self.backlog.take(&arrival)
            flow = <Inflow *>arrival.link.user
            flow.waiting -= 1
            self.take_part(flow, &arrival)
        return 0

    cdef int take_part(self, Inflow *flow, const amqp_arrival_t *arrival) except -1 nogil:
        """Take a message or a part of one. Only its bytes up to SendTime are read."""
        cdef ScanResult result
        if self.batch_size:
            self.give_window(arrival.link)
        if self.received >= self.goal():
            return 0
        if self.taken_since % self.course.clock_block == 0:
            self.now = self.course.wall_time()
        self.taken_since += 1
        if arrival.aborted:
            self.aborted += 1
            flow.scanned = False
            flow.begun = False
            flow.head_size = 0
            return 0
        if self.streaming and arrival.payload.size:
            self.note_bytes(flow, arrival.payload.start, arrival.payload.size)
        if arrival.first and not arrival.more:
            result = scan_alike(
                &self.likeness, arrival.payload.start, arrival.payload.size, &flow.message)
            if result != SCAN_FOUND:
                with gil:
                    self.refuse_message(result)
            flow.scanned = True
        elif not flow.scanned:
            result = keep_head(flow, arrival.payload.start, arrival.payload.size)
            if flow.head_size > LARGEST_HEAD:
                with gil:
                    self.refuse_head()
            if result != SCAN_FOUND and result != SCAN_MORE:
                with gil:
                    self.refuse_message(result)
        return 0 if arrival.more else self.finish_message(flow, arrival)

    cdef int give_window(self, amqp_link_end_t *end) except -1 nogil:
        """Open the session's window again, in halves, for frames that were taken."""
        if end.session != self.end.session:
            return 0
        self.unreturned += 1
        if self.unreturned < self.window // 2:
            return 0
        end.session.counts.incoming_window += self.unreturned
        self.unreturned = 0
        return self.connection.send_flow(end.session, NULL)

    cdef int note_bytes(self, Inflow *flow, const uint8_t *bytes, size_t size) noexcept nogil:
        """Check the next bytes of a message; a receiver of streams does that."""
        return 0

    cdef int finish_stream(self, Inflow *flow) except -1 nogil:
        """Check a whole message before it is recorded; a receiver of streams does that."""
        return 0

    cdef int finish_message(self, Inflow *flow, const amqp_arrival_t *arrival) except -1 nogil:
        """Record a whole message, then accept and settle it."""
        cdef bint is_own
        cdef size_t prefix
        if not flow.scanned:
            with gil:
                self.refuse_message(SCAN_MORE)
        prefix = self.own_prefix(flow) if self.with_ids else 0
        is_own = self.is_own(flow, prefix)
        if is_own:
            if self.received == 0:
                with gil:
                    self.check_unit(flow)
            if self.streaming:
                self.finish_stream(flow)
            self.received += 1
        else:
            self.count_other(flow)
        if self.with_ids:
            self.record_with_id(flow, prefix, is_own)
        else:
            self.writer.received(flow.message.send_time, self.now)
        flow.scanned = False
        flow.head_size = 0
        if self.coordinator is not None:
            self.batch_received += 1
            self.connection.run_transaction = self.coordinator.transaction()
            return self.connection.accept(
                arrival.link.session, arrival.delivery_id, AMQP_CODE_TRANSACTIONAL)
        if arrival.settled:
            return 0
        return self.connection.accept(
            arrival.link.session, arrival.delivery_id, AMQP_CODE_ACCEPTED)

    cdef bint is_own(self, Inflow *flow, size_t prefix) noexcept nogil:
        """Say whether a message is of this run: by its id, if ids show that, else by its time."""
        if self.tells_by_id:
            return prefix != 0
        return self.course.is_timely_by_wall(flow.message.send_time)

    cdef int count_other(self, Inflow *flow) except -1 nogil:
        """Count a message that is not of this run."""
        if self.course.is_older(flow.message.send_time):
            self.older += 1
        elif self.tells_by_id:
            self.foreign += 1
        else:
            with gil:
                self.refuse_unit(flow.message.send_time)
        return 0

    cdef size_t own_prefix(self, Inflow *flow) noexcept nogil:
        """Return the size of this run's prefix if the message's id has it, else 0."""
        cdef uint8_t code = flow.message.id_code
        if self.prefix_size and (code == 0xA1 or code == 0xB1) and (
                flow.message.id_size > self.prefix_size) and (
                memcmp(flow.message.id, self.prefix, self.prefix_size) == 0):
            return self.prefix_size
        return 0

    cdef int record_with_id(
            self, Inflow *flow, size_t cut, bint is_own) except -1 nogil:
        """Write a record with the message's id as text, without its first ``cut`` bytes."""
        cdef uint8_t code = flow.message.id_code
        if code == 0xA1 or code == 0xB1:
            return self.writer.received_with_id(
                <const char *>flow.message.id + cut, flow.message.id_size - cut,
                flow.message.send_time, self.now)
        with gil:
            return self.record_with_other_id(flow, is_own)

    cdef int record_with_other_id(self, Inflow *flow, bint is_own) except -1:
        raw = (<const char *>flow.message.id)[:flow.message.id_size]
        # A message of another run may have an id that records cannot hold.
        other = id_as_text(flow.message.id_code, raw)
        if other is None and is_own:
            flaw = flaw_of_id(flow.message.id_code)
            raise MessageError(f"{self.connection.peer}: message {self.taken()} {flaw}")
        other = other or b""
        return self.writer.received_with_id(
            other, len(other), flow.message.send_time, self.now)

    cdef int refuse_head(self) except -1:
        raise MessageError(f"{self.connection.peer}: message {self.taken() + 1} has no "
                           f"SendTime within {LARGEST_HEAD} bytes")

    cdef int refuse_message(self, ScanResult result) except -1:
        reasons = {
            SCAN_MISSING: "has no application property SendTime",
            SCAN_WRONG_TYPE: "has a SendTime that is not an AMQP long",
            SCAN_MORE: "ends before its application properties do",
        }
        reason = reasons.get(result, "is not an AMQP message")
        raise MessageError(f"{self.connection.peer}: message {self.taken() + 1} {reason}")

    cdef int check_unit(self, Inflow *flow) except -1:
        """Compare the first SendTime with our clock: another unit is a factor of 1000."""
        sent, now = flow.message.send_time, self.now
        if sent > UNIT_FACTOR * now or now > UNIT_FACTOR * sent > 0:
            self.refuse_unit(sent)
        return 0

    cdef int refuse_unit(self, int64_t sent) except -1:
        raise MessageError(
            f"{self.connection.peer}: SendTime {sent} of message {self.taken() + 1} is in "
            "another unit than ours (see time-unit)")

    cdef int top_up(self) except -1 nogil:
        """Keep the window filled, in halves, and never beyond the count."""
        cdef int64_t credit = self.end.counts.credit + self.backlog.messages
        cdef int64_t more
        if credit > self.credit_window // 2:
            return 0
        more = self.credit_window - credit
        if self.course.limits.count:
            # Messages of other runs use up credit; it is given again.
            more = min(more, self.course.limits.count - self.received - credit)
        return self.connection.give_credit(self.end, <uint32_t>more, False) if more > 0 else 0

    cdef int check_transaction(self) except -1:
        """Raise LinkError if the peer ended the session within a transaction."""
        gone = pn_session_state(self.session) & PN_REMOTE_CLOSED or (
            self.connection.check() == PEER_CLOSED)
        if gone and (self.batch_received or self.coordinator.is_discharging()):
            raise LinkError(f"{self.connection.peer}: the peer closed the connection within "
                            "a transaction")
        return 0

    cdef int ended_by_peer(self, int64_t now) except -1:
        """Raise LinkError if the peer ended the link while messages are missing."""
        course = self.course
        if self.aborted and not course.limits.reconnects:
            return 0
        if self.is_doubtful and self.taken() == 0:
            self.refused()
        if self.batch_size and not course.interrupted:
            self.check_transaction()
        if self.base.head_size and not course.interrupted:
            raise LinkError(f"{self.connection.peer}: the peer closed the link within message "
                            f"{self.taken() + 1}")
        if course.interrupted or self.received >= course.control.total:
            return 0
        if not course.limits.reconnects and (course.stopping or not course.limits.count and (
                course.near_the_end(now) or course.limits.duration_ns == 0)):
            return 0
        after = counted(self.received, "message")
        if course.limits.count:
            after = f"{self.received} of {counted(course.limits.count, 'message')}"
        raise LinkError(f"{self.connection.peer}: the peer closed the link after "
                        f"{after}")
