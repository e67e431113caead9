"""The arrow's receiving end over csp: batches of entries, several requests ahead (B.10)."""

from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memchr, memcmp, memset

from quiver_fast.arrow.csp.channel cimport Channel, Reply
from quiver_fast.arrow.csp.endpoint cimport Endpoint
from quiver_fast.arrow.run.course cimport OVER, Limits
from quiver_fast.errors import LinkError, MessageError
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.records.writer cimport RecordWriter
from quiver_fast.remote.wire.replies import end_of
from quiver_fast.remote.wire.scalars cimport Scan
from quiver_fast.remote.wire.textwire cimport (
    Slice, Value, equals, next_pair, open_map, parse_int64, unquoted,
)
from quiver_fast.remote.wire.wire cimport scan_index

# "keep 2–4 hasNext outstanding with batch = credit/outstanding, wait: 10000"
cdef int OUTSTANDING = 3
cdef int WAIT_MS = 10000
# At the end of a run: how long the server may take for the next answer.
cdef int64_t DRAIN_TIMEOUT = 2 * 1000000000


cdef class Receiver(Endpoint):
    """Read a queue's entries and record those of this run.

    Args:
        channel, writer, limits, queue, with_ids, time_unit: see Endpoint.
        window: number of entries that may be requested ahead.
        id_prefix: that of this run; entries without it do not count. "" accepts all.
        from_end: begin after the last entry, instead of with the first.
    """

    cdef int64_t batch
    cdef bint from_end
    cdef int64_t next_tid
    cdef int64_t outstanding
    cdef bytes event            # the request, always the same
    cdef const char *event_text
    # The index after the last entry read.
    cdef int64_t position
    # At the end of the run: the request for the end of the queue, and the end.
    cdef int64_t end_tid
    cdef int64_t queue_end
    # When the arrow asked for the end, and whether the wrapper had said that no sender sends.
    cdef int64_t asked_at
    cdef bint asked_last
    cdef int64_t received
    # Entries that are not of this run: written before it, and during it by others.
    cdef int64_t older
    cdef int64_t foreign

    def __init__(self, channel: Channel, writer: RecordWriter, limits: Limits, *, queue: str,
                 window: int, id_prefix: str = "", with_ids: bool = False,
                 from_end: bool = False, time_unit: str = "ms") -> None:
        super().__init__(channel, writer, limits, queue=queue, id_prefix=id_prefix,
                         with_ids=with_ids, time_unit=time_unit)
        self.batch = max(1, window // OUTSTANDING)
        self.from_end = from_end
        self.next_tid = 1
        self.queue_end = INT64_MAX
        self.course.patience = DRAIN_TIMEOUT

    def attach(self, timeout: float) -> None:
        """Create the tailer, and ask for the first entries; see `Endpoint.attach`."""
        reply = self.create(b"createTailer: { }\n", timeout)
        # The tailer begins at the start; one request moves it, the others follow.
        event = f"hasNext: {{ batch: {self.batch}, wait: {WAIT_MS} }}\n"
        self.event = event.encode()
        self.event_text = self.event
        if self.from_end:
            end = end_of(reply, self.channel.peer)
            moving = event.replace("{", f"{{ index: {end},", 1).encode()
            self.channel.request(self.cid, self.next_tid, moving)
            self.next_tid += 1
            self.outstanding = 1
        self.course.start_clock()
        if self.course.control.was_given:
            # The wrapper says when no more messages come.
            self.course.deadline = INT64_MAX

    def account(self) -> "Account":
        empty = self.position >= self.queue_end if self.end_tid else None
        return super().account()._replace(
            received=self.received, older=self.older, foreign=self.foreign, queue_empty=empty,
            drained_at=(self.asked_at, self.asked_last) if empty else None)

    cdef int64_t turn(self, int64_t now) except? -1 nogil:
        self.take_input()
        self.course.notice(now, self.writer)
        if self.is_done() or self.course.interrupted or (
                self.course.stopping and self.is_drained(now)):
            self.course.stopping = True
            return OVER
        if not self.course.stopping and self.course.is_over(now, self.received):
            self.course.start_draining(now)
            with gil:
                self.ask_for_end()
        if self.course.stopping:
            return min(self.course.next_flush, self.course.drain_deadline)
        self.ask()
        return min(self.course.next_flush, self.course.deadline)

    cdef bint is_done(self) noexcept nogil:
        return self.course.limits.count and self.received >= self.course.limits.count

    cdef int ask_for_end(self) except -1:
        """Ask for the end of the queue, which is in the reply to a new tailer."""
        self.end_tid = self.next_tid
        self.next_tid += 1
        self.asked_at = monotonic_ns()
        self.asked_last = self.course.control.senders_ended
        self.channel.post(self.csp(), self.end_tid, b"createTailer: { }\n")
        return 0

    cdef int take_end(self, const Reply *reply) except -1:
        text = reply.body.start[:reply.body.size]
        if text.startswith(b"exception:"):
            self.fail_reply(reply)
        self.queue_end = end_of(text, self.channel.peer)
        return 0

    cdef bint is_drained(self, int64_t now) noexcept nogil:
        """Say whether all entries of the queue have come, or all that were asked for."""
        if now >= self.course.drain_deadline:
            return True
        return self.queue_end != INT64_MAX and (
            self.position >= self.queue_end or self.outstanding == 0)

    cdef int ask(self) except -1 nogil:
        while self.outstanding < OUTSTANDING:
            self.channel.request(self.cid, self.next_tid, self.event_text)
            self.next_tid += 1
            self.outstanding += 1
        return 0

    cdef int take_input(self) except -1 nogil:
        cdef Reply reply
        while not self.is_done() and self.channel.next_reply(&reply):
            if self.course.stopping:
                self.course.start_draining(monotonic_ns())
            if reply.tid == self.end_tid:
                with gil:
                    self.take_end(&reply)
                continue
            self.outstanding -= 1
            self.take_batch(&reply)
        return 0

    cdef int take_batch(self, const Reply *reply) except -1 nogil:
        """Take the entries of one reply; each begins with two blanks, a dash and a blank."""
        cdef const char *at = reply.body.start
        cdef const char *end = at + reply.body.size
        cdef const char *line
        cdef Slice value
        cdef int64_t time = 0
        cdef int64_t index = 0
        cdef int taken = 0
        if not scan_index(reply.body, &index):
            with gil:
                self.fail_reply(reply)
        value.start = NULL
        while at < end and not self.is_done():
            line = at
            at = <const char *>memchr(at, c"\n", end - at)
            at = end if at == NULL else at + 1
            # Any other line continues the value before it, whose last character is a newline.
            if not (end - line >= 4 and memcmp(line, b"  - ", 4) == 0):
                if value.start != NULL and end - line >= 4 and memcmp(line, b"    ", 4) == 0:
                    value.size = at - value.start
                continue
            if value.start != NULL:
                self.take_value(value, time)
            if taken % self.course.clock_block == 0:
                time = self.course.wall_time()
            taken += 1
            value.start = line + 4
            value.size = at - value.start
        if value.start != NULL and not self.is_done():
            self.take_value(value, time)
        self.position = index + taken
        return 0

    cdef int take_value(self, Slice text, int64_t time) except -1 nogil:
        """Record an entry: `{ id: "…", t: <time>, body: … }`."""
        cdef Value value
        cdef Scan scan
        cdef Slice key
        cdef Slice item
        cdef Slice id
        cdef int64_t sent = 0
        cdef bint timed = False
        cdef bint is_own
        memset(&value, 0, sizeof(value))
        value.start = text.start
        value.end = text.start + text.size
        id.start = NULL
        id.size = 0
        if open_map(&value, &scan):
            # Fields after id and time are not read.
            while not (timed and id.start != NULL) and next_pair(&scan, &key, &item) > 0:
                if equals(key, b"id"):
                    id = unquoted(item)
                elif equals(key, b"t"):
                    timed = parse_int64(item, &sent)
        if self.prefix_size:
            # An id is surer than the clock of another host.
            is_own = id.size > self.prefix_size and (
                memcmp(id.start, self.prefix_text, self.prefix_size) == 0)
        else:
            is_own = self.course.is_timely_by_wall(sent)
        if not timed and (is_own or self.prefix_size == 0):
            with gil:
                self.refuse("has no time `t`, a 64-bit integer")
        if not is_own:
            return self.count_other(id, sent, timed, time)
        id.start += self.prefix_size
        id.size -= self.prefix_size
        self.received += 1
        if not self.with_ids:
            return self.writer.received(sent, time)
        if id.start == NULL:
            with gil:
                self.refuse("has no `id`, which the records of revisions v1 and v2 need")
        return self.writer.received_with_id(id.start, id.size, sent, time)

    cdef int count_other(self, Slice id, int64_t sent, bint timed, int64_t time) except -1 nogil:
        """Count an entry of another run; record it only if its id or time shows that."""
        cdef bint is_older = timed and self.course.is_older(sent)
        if not (is_older or self.prefix_size):
            with gil:
                self.refuse(f"has a time, {sent}, in another unit than ours (see time-unit)")
        self.older += is_older
        self.foreign += not is_older
        if not timed or self.course.limits.run_start_ms == 0:
            return 0
        if self.with_ids:
            return self.writer.received_with_id(id.start, id.size, sent, time)
        # Without an id, a recent foreign entry would look like one of this run.
        return self.writer.received(sent, time) if is_older else 0

    cdef int refuse(self, str what) except -1:
        number = self.received + self.older + self.foreign + 1
        raise MessageError(f"{self.channel.peer}: entry {number} {what}")

    cdef int fail_reply(self, const Reply *reply) except -1:
        raise LinkError(f"{self.channel.peer}: {self.reason_of(reply)}")
