"""The receiving end: credit, partial deliveries, records, acceptance, transactions."""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp

from quiver_fast.engine.link cimport Endpoint
from quiver_fast.engine.scanner cimport (
    SCAN_FOUND, SCAN_MISSING, SCAN_MORE, SCAN_WRONG_TYPE, ScanResult, scan_message,
)
from quiver_fast.errors import LinkError, MessageError
from quiver_fast.proton.libproton cimport (
    PN_ACCEPTED, PN_RCV_FIRST, pn_bytes_t, pn_delivery_aborted, pn_delivery_partial,
    pn_delivery_readable, pn_delivery_settle, pn_delivery_settled, pn_delivery_t,
    pn_delivery_update, pn_link_credit, pn_link_current, pn_link_drain, pn_link_flow,
    pn_link_queued, pn_link_recv, pn_link_set_rcv_settle_mode, pn_link_t,
    pn_session_set_incoming_window_and_lwm, pnx_take, ssize_t,
)
from quiver_fast.proton.libsys cimport monotonic_ns, realtime_ns

# Room for what comes before SendTime; it grows where that is more.
cdef size_t FIRST_HEAD = 4096
# Sections before the application properties that are longer than this are no message.
cdef size_t LARGEST_HEAD = 64 * 1024 * 1024
cdef size_t WASTE_SIZE = 65536
cdef int64_t SECOND = 1000000000
# At the end of a timed run: how long to wait for what is still on its way.
cdef int64_t DRAIN_TIMEOUT = 2 * SECOND
# While a transaction is discharged nothing is read; this many frames may wait for that.
cdef unsigned TRANSACTION_WINDOW = 32


cdef Inflow *new_inflow(pn_link_t *link) except NULL:
    cdef Inflow *flow = <Inflow *>calloc(1, sizeof(Inflow))
    if flow != NULL:
        flow.head = <uint8_t *>malloc(FIRST_HEAD)
    if flow == NULL or flow.head == NULL:
        free(flow)
        raise MemoryError("no memory for a receive buffer")
    flow.link = link
    flow.head_capacity = FIRST_HEAD
    return flow


cdef void free_inflow(Inflow *flow) noexcept nogil:
    if flow != NULL:
        free(flow.head)
        free(flow)


cdef class Receiver(Endpoint):
    """Receive messages, record and accept every one of them.

    Args:
        connection, writer, limits, address, name, time_unit, transaction_size: see Endpoint.
        credit_window: messages that the peer may send ahead.
        with_ids: write ids into the records (revisions v1 and v2).
        id_prefix: left out of the ids of this run; others keep theirs and show as foreign.
    """

    def __cinit__(self) -> None:
        self.base = NULL
        self.waste = NULL

    def __init__(self, connection, writer, limits, *, address: str, name: str,
                 credit_window: int, with_ids: bool = False, id_prefix: str = "",
                 time_unit: str = "ms", transaction_size: int = 0) -> None:
        super().__init__(connection, writer, limits, address=address, name=name,
                         time_unit=time_unit, transaction_size=transaction_size)
        self.is_sender = False
        self.credit_window = credit_window
        self.with_ids = with_ids
        self.id_prefix = id_prefix.encode("ascii")
        self.prefix = self.id_prefix
        self.prefix_size = len(self.id_prefix)
        self.base = new_inflow(NULL)
        self.waste = <uint8_t *>malloc(WASTE_SIZE)
        if self.waste == NULL:
            raise MemoryError("no memory for a receive buffer")

    def __dealloc__(self) -> None:
        free_inflow(self.base)
        free(self.waste)

    def prepare_session(self) -> None:
        if self.batch_size:
            pn_session_set_incoming_window_and_lwm(self.session, TRANSACTION_WINDOW, 0)

    def prepare(self) -> None:
        self.base.link = self.link
        pn_link_set_rcv_settle_mode(self.link, PN_RCV_FIRST)

    def run(self) -> None:
        """Receive until a limit or a signal.

        Raises:
            MessageError: a message has no SendTime of type long, was cut or aborted.
            PeerError, LinkError: the peer failed or left early.
            OutputError: the records could not be written.
            TransactionError: a transaction failed.
        """
        with nogil:
            self.loop()
        if self.aborted and not self.interrupted:
            raise MessageError(f"{self.connection.peer}: {self.aborted} deliveries were aborted")

    cdef int loop(self) except -1 nogil:
        cdef int64_t now
        cdef int64_t end
        cdef bint closed
        while True:
            now = monotonic_ns()
            closed = self.closed_by_peer()
            if self.batch_size:
                with gil:
                    self.transact()
            self.take_messages()
            self.flush_records(now)
            self.notice_signals(now)
            if self.limits.count and self.received >= self.limits.count:
                self.stopping = True
                break
            if closed:
                with gil:
                    self.ended_by_peer(now)
                break
            if self.stopping:
                if self.is_drained(now):
                    break
            elif self.time_is_over(now):
                self.start_draining(now)
            else:
                self.top_up()
            end = self.drain_deadline if self.stopping else self.deadline
            self.connection.exchange(min(self.next_flush, end))
        if self.batch_size:
            with gil:
                self.transact()
        return 0

    cdef int start_draining(self, int64_t now) noexcept nogil:
        """Take the credit back and wait for what is on its way (part 2.6.7, drain)."""
        self.stopping = True
        self.drain_deadline = now + DRAIN_TIMEOUT
        pn_link_drain(self.link, 0)
        return 0

    cdef bint is_drained(self, int64_t now) noexcept nogil:
        return now >= self.drain_deadline or (
            pn_link_credit(self.link) == 0 and pn_link_queued(self.link) == 0)

    cdef int take_messages(self) except -1 nogil:
        """Take all that the engine has of messages, whole or in part."""
        return self.take_from(self.base)

    cdef int take_from(self, Inflow *flow) except -1 nogil:
        cdef pn_delivery_t *delivery = pn_link_current(flow.link)
        cdef int taken = 0
        while delivery != NULL and pn_delivery_readable(delivery):
            if self.limits.count and self.received >= self.limits.count:
                return 0
            if self.batch_size and self.batch_received >= self.batch_size:
                return 0
            if taken % self.clock_block == 0:
                self.now = realtime_ns() // self.time_divisor
            taken += 1
            self.take_bytes(flow)
            if pn_delivery_aborted(delivery):
                self.aborted += 1
                flow.scanned = False
                flow.begun = False
                flow.head_size = 0
                pn_delivery_settle(delivery)
            elif pn_delivery_partial(delivery):
                if self.stopping and not self.interrupted:
                    # The last message is on its way, however long that takes.
                    self.drain_deadline = monotonic_ns() + DRAIN_TIMEOUT
                return 0
            else:
                self.finish_message(flow, delivery)
            delivery = pn_link_current(flow.link)
        return 0

    cdef int take_bytes(self, Inflow *flow) except -1 nogil:
        """Read what there is; keep it until SendTime is found, then let it go."""
        cdef ssize_t n
        cdef ScanResult result
        while not flow.scanned:
            n = pn_link_recv(flow.link, <char *>flow.head + flow.head_size,
                             flow.head_capacity - flow.head_size)
            if n <= 0:
                return 0
            if self.streaming:
                self.note_bytes(flow, flow.head + flow.head_size, n)
            flow.head_size += n
            result = scan_message(flow.head, flow.head_size, &flow.message)
            if result == SCAN_FOUND:
                flow.scanned = True
            elif result != SCAN_MORE:
                with gil:
                    self.refuse_message(result)
            elif flow.head_size == flow.head_capacity:
                with gil:
                    self.grow_head(flow)
        return self.take_rest(flow)

    cdef int take_rest(self, Inflow *flow) noexcept nogil:
        """Look at what has come behind SendTime, and let it go."""
        cdef pn_bytes_t rest
        while True:
            rest = pnx_take(flow.link, <char *>self.waste, WASTE_SIZE)
            if rest.size == 0:
                return 0
            if self.streaming:
                self.note_bytes(flow, <const uint8_t *>rest.start, rest.size)

    cdef int note_bytes(self, Inflow *flow, const uint8_t *bytes, size_t size) noexcept nogil:
        """Look at the next bytes of a message; for a receiver of streams."""
        return 0

    cdef int finish_stream(self, Inflow *flow) except -1 nogil:
        """Judge a whole message before it is recorded; for a receiver of streams."""
        return 0

    cdef int grow_head(self, Inflow *flow) except -1:
        cdef uint8_t *larger
        if flow.head_capacity >= LARGEST_HEAD:
            raise MessageError(f"{self.connection.peer}: message {self.received + 1} has no "
                               f"SendTime within {LARGEST_HEAD} bytes")
        larger = <uint8_t *>realloc(flow.head, 2 * flow.head_capacity)
        if larger == NULL:
            raise MemoryError("no memory for a receive buffer")
        flow.head = larger
        flow.head_capacity *= 2
        return 0

    cdef int finish_message(self, Inflow *flow, pn_delivery_t *delivery) except -1 nogil:
        """Record a whole message, then accept and settle it."""
        if not flow.scanned:
            with gil:
                self.refuse_message(SCAN_MORE)
        if self.received == 0:
            with gil:
                self.check_unit(flow)
        if self.streaming:
            self.finish_stream(flow)
        self.received += 1
        if self.with_ids:
            self.record_with_id(flow)
        else:
            self.writer.received(flow.message.send_time, self.now)
        flow.scanned = False
        flow.head_size = 0
        if self.coordinator is not None:
            self.batch_received += 1
            with gil:
                self.coordinator.enlist(delivery, PN_ACCEPTED)
        elif not pn_delivery_settled(delivery):
            pn_delivery_update(delivery, PN_ACCEPTED)
        pn_delivery_settle(delivery)
        return 0

    cdef int record_with_id(self, Inflow *flow) except -1 nogil:
        """Write a record with the message's id as text."""
        cdef size_t cut = self.prefix_size
        cdef const char *text = <const char *>flow.message.id
        cdef size_t size = flow.message.id_size
        cdef uint8_t code = flow.message.id_code
        if code == 0xA1 or code == 0xB1:
            if cut and size > cut and memcmp(text, self.prefix, cut) == 0:
                text += cut
                size -= cut
            return self.writer.received_with_id(text, size, flow.message.send_time, self.now)
        with gil:
            return self.record_with_other_id(flow)

    cdef int record_with_other_id(self, Inflow *flow) except -1:
        raw = (<const char *>flow.message.id)[:flow.message.id_size]
        other = self.id_of_other_type(flow.message.id_code, raw)
        return self.writer.received_with_id(
            other, len(other), flow.message.send_time, self.now)

    def id_of_other_type(self, code: int, raw: bytes) -> bytes:
        """Return an id that is not a string (part 3.2.11 to 3.2.13) as text."""
        if code == 0:
            raise MessageError(
                f"{self.connection.peer}: message {self.received} has no message-id, which the "
                "records of revisions v1 and v2 need (record-format=v3 does without)")
        if code == 0x98:
            import uuid
            return str(uuid.UUID(bytes=raw)).encode()
        if code in (0xA0, 0xB0):
            return raw.hex().encode()
        return str(int.from_bytes(raw, "big")).encode()

    cdef int refuse_message(self, ScanResult result) except -1:
        reasons = {
            SCAN_MISSING: "has no application property SendTime",
            SCAN_WRONG_TYPE: "has a SendTime that is not an AMQP long",
            SCAN_MORE: "ends before its application properties do",
        }
        reason = reasons.get(result, "is not an AMQP message")
        raise MessageError(f"{self.connection.peer}: message {self.received + 1} {reason}")

    cdef int check_unit(self, Inflow *flow) except -1:
        """Compare the first SendTime with our clock: another unit is a factor of 1000."""
        sent, now = flow.message.send_time, self.now
        if sent > 30 * now or now > 30 * sent > 0:
            raise MessageError(
                f"{self.connection.peer}: SendTime {sent} of the first message is in another "
                "unit than ours (see time-unit)")
        return 0

    cdef int top_up(self) noexcept nogil:
        """Keep the window filled, in halves, and never beyond the count."""
        cdef int64_t credit = pn_link_credit(self.link)
        cdef int64_t more
        if credit > self.credit_window // 2:
            return 0
        more = self.credit_window - credit
        if self.limits.count:
            more = min(more, self.limits.count - self.received - credit)
        if more > 0:
            pn_link_flow(self.link, <int>more)
        return 0

    cdef int transact(self) except -1:
        """Discharge a batch that is complete, and declare before the next."""
        complete = self.batch_received >= self.batch_size or self.stopping
        if self.batch_received and complete:
            self.coordinator.discharge()
            self.batch_received = 0
        if not self.stopping and not self.coordinator.transaction:
            self.coordinator.declare()
        return 0

    cdef int ended_by_peer(self, int64_t now) except -1:
        """Judge an orderly end by the peer: wrong while messages are still owed."""
        if self.aborted:
            return 0
        if self.base.head_size and not self.interrupted:
            raise LinkError(f"{self.connection.peer}: the peer closed the link within message "
                            f"{self.received + 1}")
        if self.interrupted or self.stopping or not self.limits.count and (
                self.near_the_end(now) or self.limits.duration_ns == 0):
            return 0
        goal = f" of {self.limits.count}" if self.limits.count else ""
        raise LinkError(f"{self.connection.peer}: the peer closed the link after "
                        f"{self.received}{goal} messages")
