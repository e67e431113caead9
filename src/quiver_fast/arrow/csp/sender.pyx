"""The arrow's sending end over csp: pipelined submits within a window (B.10).

    meta-data  cid, tid = number of the batch's first message
    data       submit: { id: "1", t: 1500000000000, body: "xxx" }     bit 31: more follow
    ...
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, strlen

from quiver_fast.arrow.csp.channel cimport Channel, Reply, starts
from quiver_fast.arrow.csp.endpoint cimport Endpoint
from quiver_fast.arrow.run.course cimport OVER, Limits
from quiver_fast.arrow.run.delays cimport ITSELF, OUTCOMES, SOCKET, Cause
from quiver_fast.arrow.run.sizes cimport Sizes
from quiver_fast.errors import LinkError, OutcomeError, PeerError
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.records.digits cimport put_decimal
from quiver_fast.records.formats import SETTLEMENT_SAMPLE_INTERVAL
from quiver_fast.records.writer cimport RecordWriter
from quiver_fast.remote.wire.buffer cimport pending
from quiver_fast.remote.wire.wire cimport HEADER_SIZE, MORE, end_document

cdef int BURST = 256
# The sender pauses while so many bytes wait for the socket.
cdef size_t OUTPUT_LIMIT = 262144
# The most bytes of a value without prefix and body.
cdef size_t VALUE_FRAME = 128
cdef int64_t SECOND = 1000000000
# At the end of a run: how long the server may send no reply.
cdef int64_t DRAIN_TIMEOUT = 10 * SECOND
cdef int64_t SETTLEMENT_SAMPLE = SETTLEMENT_SAMPLE_INTERVAL


cdef inline char *put(char *out, const char *text) noexcept nogil:
    cdef size_t size = strlen(text)
    memcpy(out, text, size)
    return out + size


cdef class Sender(Endpoint):
    """Submit values with equal bodies, and count the reply of each.

    Args:
        channel, writer, limits, queue, id_prefix, with_ids, time_unit: see Endpoint.
        body: the body, as a text of the wire.
        window: how many submits may be without a reply.
        settlement: write S and s records, as indexes come.
    """

    cdef bytes body
    cdef const char *body_text
    cdef size_t body_size
    cdef int64_t window
    cdef bint settlement
    # The tid of the last reply, and how many replies had it: a batch's requests share one.
    cdef int64_t reply_tid
    cdef int64_t reply_count
    cdef int64_t sent
    cdef int64_t settled
    cdef int64_t accepted
    cdef int64_t rejected
    cdef str first_refusal

    def __init__(self, channel: Channel, writer: RecordWriter, limits: Limits, *, queue: str,
                 body: bytes, window: int, id_prefix: str = "", with_ids: bool = False,
                 settlement: bool = False, time_unit: str = "ms") -> None:
        super().__init__(channel, writer, limits, queue=queue, id_prefix=id_prefix,
                         with_ids=with_ids, time_unit=time_unit)
        self.body = body
        self.body_text = self.body
        self.body_size = len(body)
        self.window = window
        self.settlement = settlement
        self.first_refusal = ""
        self.course.patience = DRAIN_TIMEOUT
        self.course.follow_schedule()

    def attach(self, timeout: float) -> None:
        """Create the appender; see `Endpoint.attach`."""
        self.create(b"createAppender: { }\n", timeout)
        self.course.start_clock()

    def run(self) -> None:
        """Send until a limit or a signal, then wait for every reply.

        Raises:
            OutcomeError: submits were refused.
            PeerError: the connection was lost, or the server fell silent.
            OutputError: the records could not be written.
        """
        super().run()
        if self.rejected:
            raise OutcomeError(
                f"{self.channel.peer}: {self.rejected} of {self.sent} submits were refused "
                f"(first: {self.first_refusal})")

    def account(self) -> "Account":
        return super().account()._replace(
            sent=self.sent, accepted=self.accepted, rejected=self.rejected,
            unsettled=self.sent - self.settled, first_refusal=self.first_refusal,
            has_all_outcomes=self.settled == self.sent)

    cdef int64_t turn(self, int64_t now) except? -1 nogil:
        cdef int64_t wake
        self.take_input()
        self.course.notice(now, self.writer)
        if not self.course.stopping and self.course.is_over(now, self.sent):
            self.course.start_draining(now)
        if not self.course.stopping:
            self.note_waits(now)
            self.burst(now)
            self.note_waits(0)
        elif self.settled == self.sent:
            return OVER
        elif now >= self.course.drain_deadline:
            if self.course.interrupted:
                return OVER
            with gil:
                raise PeerError(
                    f"{self.channel.peer}: {self.sent - self.settled} of {self.sent} "
                    "submits have no reply and the server is silent")
        wake = self.next_wake(now)
        return wake if self.course.schedule is None else (
            self.course.schedule.sleep_until(wake, now))

    cdef void note_waits(self, int64_t now) noexcept nogil:
        """Note what of the server the next submit waits for; see the sender over AMQP."""
        cdef Cause cause = ITSELF
        if self.course.schedule is None:
            return
        if pending(&self.channel.output) > OUTPUT_LIMIT:
            cause = SOCKET
        elif self.sent - self.settled >= self.window:
            cause = OUTCOMES
        if now and self.course.schedule.was_away(now):
            self.course.schedule.waits.be_away(self.course.schedule.wakes, now)
        self.course.schedule.note(cause, now)

    cdef int64_t allowance(self, int64_t now) noexcept nogil:
        """Return how many more submits window, count and schedule allow now."""
        cdef int64_t most = self.window - (self.sent - self.settled)
        if self.course.limits.count:
            most = min(most, self.course.limits.count - self.sent)
        if self.course.schedule is not None:
            most = min(most, self.course.schedule.due(now) - self.sent)
        return most

    cdef int burst(self, int64_t now) except -1 nogil:
        """Submit a batch, which shares its meta-data, up to the allowance and BURST."""
        cdef int64_t room = min(self.allowance(now), <int64_t>BURST)
        cdef int64_t time = 0
        cdef int i
        if room <= 0 or pending(&self.channel.output) > OUTPUT_LIMIT:
            return 0
        self.channel.output.used = self.channel.begin_meta(
            self.channel.request_room(128), self.cid, self.sent + 1) - self.channel.output.memory
        for i in range(<int>room):
            if self.course.schedule is not None or i % self.course.clock_block == 0:
                time = self.course.send_time(self.sent)
            # One large body fills the socket, so the batch ends there.
            if pending(&self.channel.output) > OUTPUT_LIMIT:
                return self.submit(time, False)
            self.submit(time, i < room - 1)
        return 0

    cdef int submit(self, int64_t time, bint more) except -1 nogil:
        cdef char *header = self.channel.request_room(
            VALUE_FRAME + self.prefix_size + self.body_size)
        cdef char *out = put(header + HEADER_SIZE, b'submit: { id: "')
        cdef char *digits
        cdef char *digits_end
        memcpy(out, self.prefix_text, self.prefix_size)
        self.sent += 1
        digits = out + self.prefix_size
        digits_end = put_decimal(digits, self.sent)
        out = put_decimal(put(digits_end, b'", t: '), time)
        out = put(out, b', body: "')
        memcpy(out, self.body_text, self.body_size)
        out = put(out + self.body_size, b'" }\n')
        out = end_document(header, out, MORE if more else 0)
        self.channel.output.used = out - self.channel.output.memory
        if self.with_ids:
            return self.writer.sent_with_id(digits, digits_end - digits, time)
        return self.writer.sent(time)

    cdef int take_input(self) except -1 nogil:
        cdef Reply reply
        while self.channel.next_reply(&reply):
            self.take_reply(&reply)
        return 0

    cdef int take_reply(self, const Reply *reply) except -1 nogil:
        """Account for one reply: requests of one tid are answered in their order."""
        if reply.tid != self.reply_tid:
            self.reply_tid = reply.tid
            self.reply_count = 0
        if starts(reply.body, b"index:"):
            self.accepted += 1
        else:
            with gil:
                self.refuse_reply(reply)
        if self.settlement:
            self.record_settlement(reply.tid + self.reply_count)
        self.reply_count += 1
        self.settled += 1
        if self.course.stopping and not self.course.interrupted:
            self.course.start_draining(monotonic_ns())
        return 0

    cdef int refuse_reply(self, const Reply *reply) except -1:
        reason = self.reason_of(reply)
        if reply.tid == 0:
            raise LinkError(f"{self.channel.peer}: the server ended the connection: {reason}")
        self.rejected += 1
        self.first_refusal = self.first_refusal or reason
        return 0

    cdef int record_settlement(self, int64_t sequence) except -1 nogil:
        cdef char[24] digits
        cdef char *end = put_decimal(digits, sequence)
        return self.writer.settled(digits, end - digits, self.course.wall_time(),
                                   sequence % SETTLEMENT_SAMPLE == 1)

    cdef int64_t next_wake(self, int64_t now) noexcept nogil:
        """Return until when the channel may wait; 0 if there is more to send now."""
        cdef int64_t wake = min(self.course.next_flush, self.course.deadline)
        if self.course.stopping:
            return min(self.course.next_flush, self.course.drain_deadline)
        if pending(&self.channel.output) > OUTPUT_LIMIT or (
                self.sent - self.settled >= self.window):
            return wake
        if self.allowance(now) > 0:
            return 0
        if self.course.schedule is not None:
            wake = min(wake, self.course.schedule.wake(self.sent))
        return wake


cdef class MixedSender(Sender):
    """Submit values whose bodies differ in size: each has the first bytes of ``body``.

    Args:
        sizes: draws the sizes.
        args, words: see Sender.
    """

    cdef Sizes sizes

    def __init__(self, *args: object, sizes: Sizes, **words: object) -> None:
        super().__init__(*args, **words)
        self.sizes = sizes

    cdef int submit(self, int64_t time, bint more) except -1 nogil:
        self.body_size = self.sizes.next()
        return Sender.submit(self, time, more)
