"""One connection of the queue protocol: bytes in, reply bytes out, no socket (B.1 to B.9).

Its owner drives a session: `feed` and `end_of_input` for the peer's bytes, `drained` after
output is sent, `answer` (through the store) for new entries and deadlines. Replies collect
in `output`.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memset

from quiver_fast.remote.serve.reply cimport (
    CORRUPTED, ILLEGAL_ARGUMENT, ILLEGAL_STATE, NO_SUCH_QUEUE, OUT_OF_BOUNDS, REJECTED,
    UNSOLICITED, UNSUPPORTED, Failure, put_appender, put_exception, put_index, put_number,
    put_tailer, put_text,
)
from quiver_fast.remote.serve.store cimport MESSAGE_SIZE, Queue, Refusal, Store
from quiver_fast.remote.serve.tailing cimport Tailing, is_beyond
from quiver_fast.remote.serve.target cimport (
    APPENDER, TAILER, Target, TargetKind, Wait, add_target, find_target, free_target, new_target,
    remove_target,
)
from quiver_fast.remote.wire.base64 cimport decoded_size
from quiver_fast.remote.wire.buffer cimport Buffer, append, discard, pending, release
from quiver_fast.remote.wire.scalars cimport Scan
from quiver_fast.remote.wire.textwire cimport (
    Slice, Value, is_empty_argument, open_map, parse_int64, scan_value,
)
from quiver_fast.remote.wire.wire cimport (
    END_OF_STREAM, EVENT_BYE, EVENT_CLOSE, EVENT_CREATE_APPENDER, EVENT_CREATE_TAILER,
    EVENT_HAS_NEXT, EVENT_HEADER, EVENT_HEARTBEAT, EVENT_LAST_WRITTEN_INDEX,
    EVENT_ON_CLIENT_CLOSING, EVENT_SUBMIT, EVENT_UNKNOWN, HEADER_SIZE, LENGTH_MASK, MAX_DATA,
    MAX_META, META, MORE, VIEW_APPENDER, VIEW_TAILER, VIEW_UNKNOWN, Event, HasNext, MetaData, Tid,
    read_header, scan_create_tailer, scan_csp, scan_event, scan_has_next, scan_meta,
)

cdef extern from "<stdio.h>" nogil:
    int snprintf(char *out, size_t size, const char *format, ...)

# The limits of B.9, and of an entry (A.12).
cdef int MAX_WAITS = 10000
cdef ptrdiff_t MAX_ENTRY = 16 << 20
cdef int64_t MILLISECOND = 1000000


cdef void go_on(void *session, int64_t now) noexcept nogil:
    (<Session>session).go_on(now)


cdef class Session(Tailing):
    """The server's side of one connection.

    Args:
        store: the queues.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        store.resume = go_on

    def __dealloc__(self) -> None:
        self.free_all()

    # ---- input -------------------------------------------------------------------

    cdef void feed(self, const char *bytes, size_t size, int64_t now) noexcept nogil:
        """Take the peer's bytes, in pieces of any size."""
        cdef size_t taken = 0
        if self.ended:
            return
        if pending(&self.input) == 0:
            taken = self.consume(bytes, size, now)
        if taken < size and not self.ended:
            self.replied(append(&self.input, bytes + taken, size - taken))
            if taken == 0:
                self.proceed(now)
        self.output_ready()

    cdef void end_of_input(self, int64_t now) noexcept nogil:
        """The peer sends no more: answer its requests (B.9), then end."""
        self.input_over = True
        self.proceed(now)
        self.output_ready()

    cdef void drained(self, int64_t now) noexcept nogil:
        """Output has room again: go on after `is_full`."""
        if self.is_full():
            return
        if self.congested:
            self.congested = False
            self.answer_all(now)
        self.proceed(now)

    cdef void go_on(self, int64_t now) noexcept nogil:
        """Process or refuse the document that waited for its queue to open."""
        if not self.stalled:
            # The connection is gone.
            return
        self.stalled = False
        self.proceed(now)
        self.output_ready()

    cdef void proceed(self, int64_t now) noexcept nogil:
        """Take whole documents from `input`, as far as there is room for replies."""
        cdef size_t taken
        if self.ended:
            return
        taken = self.consume(self.input.memory + self.input.start, pending(&self.input), now)
        discard(&self.input, taken)
        if self.input_over and not (self.ended or self.stalled or self.is_full()):
            # The rest is an incomplete document, which has no effect (B.8).
            self.finish(now)

    cdef size_t consume(self, const char *bytes, size_t size, int64_t now) noexcept nogil:
        """Take the whole documents at ``bytes``; return how many bytes they had."""
        cdef size_t at = 0
        cdef size_t length
        cdef uint32_t header
        while size - at >= HEADER_SIZE and not (self.ended or self.stalled or self.is_full()):
            header = read_header(bytes + at)
            if not self.accepts(header):
                break
            if header == <uint32_t>END_OF_STREAM:
                self.finish(now)
                break
            length = header & LENGTH_MASK
            if length > 0 and size - at > HEADER_SIZE and bytes[at + HEADER_SIZE] & 0x80:
                self.fatal(UNSUPPORTED, b"binary wire is not supported here: use text wire")
                break
            if size - at - HEADER_SIZE < length:
                break
            at += HEADER_SIZE
            self.take_document(header, bytes + at, length, now)
            if self.stalled:
                at -= HEADER_SIZE
                break
            at += length
        return at

    cdef bint accepts(self, uint32_t header) noexcept nogil:
        """Check a document's header, before any of its body is kept (B.8)."""
        cdef uint32_t length = header & LENGTH_MASK
        if header == 0:
            return self.fatal(CORRUPTED, b"a document's header is 0")
        if header == <uint32_t>END_OF_STREAM:
            return True
        if header & END_OF_STREAM == END_OF_STREAM:
            return self.fatal(CORRUPTED, b"a header has bits 31 and 30 and a length")
        if header & META and length > MAX_META:
            return self.fatal(CORRUPTED, b"a meta-data document is larger than 64 KiB")
        if length > MAX_DATA:
            return self.fatal(CORRUPTED, b"a data document is larger than 16 MiB and 64 KiB")
        return True

    cdef bint fatal(self, Failure failure, const char *message) noexcept nogil:
        """Send the reason with tid 0, and end the connection (B.8)."""
        self.replied(put_exception(self.replies(), &UNSOLICITED, failure, message))
        self.take_no_more()
        return False

    cdef void take_no_more(self) noexcept nogil:
        while self.waiting != NULL:
            self.abandon(self.waiting)
        release(&self.input)
        self.ended = True

    cdef void finish(self, int64_t now) noexcept nogil:
        """Take nothing more; answer waiting requests now."""
        release(&self.input)
        self.ended = True
        self.answer_all(now)

    cdef bint take_document(
            self, uint32_t header, const char *body, size_t size, int64_t now) noexcept nogil:
        if header & META:
            self.take_meta(body, size)
        else:
            self.route.tid.more = header & MORE != 0
            self.take_request(body, size, now)
        return True

    # ---- routes ------------------------------------------------------------------

    cdef void take_meta(self, const char *body, size_t size) noexcept nogil:
        cdef MetaData meta
        cdef const char *error = scan_meta(body, size, &meta)
        if error != NULL:
            self.fatal(ILLEGAL_ARGUMENT, error)
            return
        self.route.tid = meta.tid
        self.route.target = NULL
        if meta.csp.size > 0:
            # "With both csp and cid, csp decides."
            self.route_to_csp(&meta)
        elif meta.has_cid and meta.csp.start == NULL:
            self.route_to_cid(meta.cid)
        else:
            self.route.kind = TO_SESSION

    cdef void route_to_cid(self, int64_t cid) noexcept nogil:
        self.route.kind = TO_TARGET
        self.route.target = find_target(&self.targets, cid)
        if self.route.target == NULL:
            self.route.kind = TO_NOWHERE
            self.route.failure = ILLEGAL_STATE
            self.route.error = b"the cid is unknown or closed"

    cdef void route_to_csp(self, const MetaData *meta) noexcept nogil:
        cdef Slice text
        if pending(&self.csp_text) != meta.csp.size or memcmp(
                self.csp_text.memory, meta.csp.start, meta.csp.size) != 0:
            self.csp_text.used = 0
            self.replied(append(&self.csp_text, meta.csp.start, meta.csp.size))
            text.start = self.csp_text.memory
            text.size = self.csp_text.used
            scan_csp(text, &self.csp)
            self.csp_queue = NULL
            self.csp_appender = NULL
        self.route.kind = TO_CSP
        if self.csp.error != NULL:
            self.route.kind = TO_NOWHERE
            self.route.failure = ILLEGAL_ARGUMENT
            self.route.error = self.csp.error
        elif self.csp.view == VIEW_UNKNOWN:
            self.route.kind = TO_NOWHERE
            self.route.failure = UNSUPPORTED
            self.route.error = b"there is no such view of a queue"
        elif self.csp.cid != 0:
            self.route_to_cid(self.csp.cid)

    cdef void *acquire(self) noexcept nogil:
        """Return the queue of the present csp, created if necessary.

        NULL if it was refused, or if the queue is being opened: then its document comes again.
        """
        cdef Refusal refusal
        if self.csp_queue == NULL:
            self.csp_queue = self.store.acquire(self.csp.name, <void *>self, &refusal)
            if self.csp_queue == NULL and refusal.opening:
                self.stalled = True
            elif self.csp_queue == NULL:
                self.refuse_as(&refusal)
        return self.csp_queue

    cdef Target *implicit_appender(self) noexcept nogil:
        """Return the appender of `#appender` on this connection (B.5)."""
        cdef Target *target = self.implicit
        cdef void *queue = self.acquire()
        if queue == NULL or self.csp_appender != NULL:
            return self.csp_appender
        while target != NULL and target.queue != queue:
            target = target.session_next
        if target == NULL:
            if not self.has_room():
                return NULL
            target = new_target(APPENDER, 0, queue, <void *>self)
            if target == NULL:
                self.replied(False)
                return NULL
            self.implicit_count += 1
            target.session_next = self.implicit
            self.implicit = target
        self.csp_appender = target
        return target

    # ---- requests ----------------------------------------------------------------

    cdef void take_request(self, const char *body, size_t size, int64_t now) noexcept nogil:
        cdef Event event
        cdef Value value
        cdef bint known = scan_event(body, size, &event)
        if self.route.kind == TO_NOWHERE:
            self.refuse(self.route.failure, self.route.error)
        elif not known:
            self.refuse(ILLEGAL_ARGUMENT, b"the document has no event: a name and a colon")
        elif self.route.kind == TO_SESSION:
            self.session_message(&event)
        elif not scan_value(event.argument, event.argument_size, &value):
            self.refuse(ILLEGAL_ARGUMENT, value.error)
        elif self.route.kind == TO_TARGET and event.kind == EVENT_CLOSE:
            self.close_target()
        elif self.route.target != NULL and self.route.target.kind == TAILER:
            self.on_tailer(&event, &value, now)
        elif self.route.target != NULL or self.csp.view == VIEW_APPENDER:
            self.on_appender(&event, &value)
        elif self.csp.view == VIEW_TAILER:
            self.on_tailer(&event, &value, now)
        else:
            self.on_queue(&event, &value)

    cdef void session_message(self, const Event *event) noexcept nogil:
        """Serve a message without a route (B.4)."""
        cdef const Tid *tid = &self.route.tid if self.route.tid.size else &UNSOLICITED
        cdef Value value
        cdef Slice number
        cdef int64_t count
        if event.kind == EVENT_HEARTBEAT:
            if scan_value(event.argument, event.argument_size, &value):
                number.start = value.start
                number.size = value.end - value.start
                if parse_int64(number, &count):
                    self.replied(put_number(&self.output, tid, b"heartbeatReply: ", count))
                    return
            self.refuse(ILLEGAL_ARGUMENT, b"the argument of heartbeat is not a 64-bit integer")
        elif event.kind == EVENT_ON_CLIENT_CLOSING:
            self.replied(put_text(&self.output, tid, b'onClosingReply: ""\n'))
        elif event.kind == EVENT_HEADER:
            self.replied(put_text(&self.output, tid, b"header-reply: { wire-format: Text }\n"))
        elif event.kind == EVENT_BYE:
            self.input_over = True
            self.finish(0)
        elif event.kind != EVENT_UNKNOWN:
            self.refuse(ILLEGAL_ARGUMENT, b"the request has neither csp nor cid")

    cdef void on_queue(self, const Event *event, const Value *value) noexcept nogil:
        if event.kind == EVENT_CREATE_APPENDER:
            if self.takes_no_argument(value):
                self.create_appender()
        elif event.kind == EVENT_CREATE_TAILER:
            if self.may_create_tailer(value):
                self.create_tailer()
        elif event.kind == EVENT_LAST_WRITTEN_INDEX:
            if self.takes_no_argument(value) and self.acquire() != NULL:
                self.reply_number((<Queue>self.csp_queue).last_index())
        else:
            self.wrong_event()

    cdef void on_appender(self, const Event *event, const Value *value) noexcept nogil:
        cdef Target *target = self.route.target
        if event.kind == EVENT_SUBMIT:
            if self.is_submittable(value):
                target = self.implicit_appender() if target == NULL else target
                if target != NULL:
                    self.submit(target, value)
        elif event.kind == EVENT_LAST_WRITTEN_INDEX:
            if self.takes_no_argument(value):
                target = self.implicit_appender() if target == NULL else target
                if target != NULL:
                    self.reply_number(target.last_index)
        else:
            self.wrong_event()

    cdef void on_tailer(
            self, const Event *event, const Value *value, int64_t now) noexcept nogil:
        if event.kind == EVENT_HAS_NEXT:
            self.has_next(value, now)
        else:
            self.wrong_event()

    cdef void wrong_event(self) noexcept nogil:
        self.refuse(UNSUPPORTED, b"there is no such event on this view")

    cdef bint takes_no_argument(self, const Value *value) noexcept nogil:
        """Check the argument of an event that has none; names in a map are ignored (B.5)."""
        cdef Scan scan
        if is_empty_argument(value) or open_map(value, &scan):
            return True
        self.refuse(ILLEGAL_ARGUMENT, b"the event takes no argument")
        return False

    cdef bint may_create_tailer(self, const Value *value) noexcept nogil:
        """Check the argument of createTailer: some readers must not create a queue (B.5)."""
        cdef char[MESSAGE_SIZE] message
        cdef bint creates
        cdef const char *error = scan_create_tailer(value, &creates)
        if error != NULL:
            self.refuse(ILLEGAL_ARGUMENT, error)
        elif not creates and self.csp_queue == NULL and not self.store.has(self.csp.name):
            snprintf(message, MESSAGE_SIZE, "there is no queue %.*s",
                     <int>self.csp.name.size, self.csp.name.start)
            self.refuse(NO_SUCH_QUEUE, message)
        else:
            return True
        return False

    cdef void reply_number(self, int64_t number) noexcept nogil:
        if self.route.tid.size:
            self.replied(put_number(self.replies(), &self.route.tid, b"reply: ", number))

    cdef void refuse(self, Failure failure, const char *message) noexcept nogil:
        """Answer with an exception; without a tid that ends the connection (B.7)."""
        if self.route.tid.size:
            self.replied(put_exception(self.replies(), &self.route.tid, failure, message))
        else:
            self.fatal(failure, message)

    cdef void refuse_as(self, const Refusal *refusal) noexcept nogil:
        self.refuse(refusal.failure, refusal.message)

    # ---- creating, closing, submitting -------------------------------------------

    cdef bint has_room(self) noexcept nogil:
        """Say whether the connection may have one more target; refuse it if not."""
        cdef char[128] message
        if self.targets.count + self.implicit_count < self.store.max_links:
            return True
        snprintf(message, sizeof(message), "the connection has %lld cids, the most there may be",
                 <long long>self.store.max_links)
        self.refuse(REJECTED, message)
        return False

    cdef Target *create(self, TargetKind kind) noexcept nogil:
        """Return a new target with a new cid; NULL if it was refused."""
        cdef Target *target
        if not self.has_room():
            return NULL
        if self.acquire() == NULL:
            return NULL
        target = new_target(kind, self.last_cid + 1, self.csp_queue, <void *>self)
        if target == NULL or not add_target(&self.targets, target):
            free_target(target)
            self.replied(False)
            return NULL
        self.last_cid += 1
        return target

    cdef void create_appender(self) noexcept nogil:
        cdef Target *target = self.create(APPENDER)
        if target != NULL and self.route.tid.size:
            self.replied(put_appender(self.replies(), &self.route.tid, self.csp.authority,
                                      self.csp.name, target.cid))

    cdef void create_tailer(self) noexcept nogil:
        cdef Target *target = self.create(TAILER)
        if target == NULL:
            return
        target.position = (<Queue>target.queue).first_index()
        if self.route.tid.size:
            self.replied(put_tailer(
                self.replies(), &self.route.tid, self.csp.authority, self.csp.name, target.cid,
                target.position, (<Queue>target.queue).end_index()))

    cdef void close_target(self) noexcept nogil:
        """Free a cid; its waiting requests are answered first, because they came first."""
        cdef Target *target = self.route.target
        cdef Buffer *replies = self.replies()
        self.answer_before_closing(target)
        if self.route.tid.size:
            self.replied(put_text(replies, &self.route.tid, b"reply: { }\n"))
        remove_target(&self.targets, target)
        self.dispose(target)
        self.route_to_cid(0)

    cdef bint is_submittable(self, const Value *value) noexcept nogil:
        if value.missing:
            self.refuse(ILLEGAL_ARGUMENT, b"submit needs a value")
        elif value.base64.start != NULL and (
                decoded_size(value.base64.start, value.base64.size) < 0):
            self.refuse(ILLEGAL_ARGUMENT, b"what follows !!binary is not base64")
        elif value.end - value.start > MAX_ENTRY:
            self.refuse(ILLEGAL_ARGUMENT, b"the value is larger than 16 MiB")
        else:
            return True
        return False

    cdef void submit(self, Target *target, const Value *value) noexcept nogil:
        cdef Refusal refusal
        cdef int64_t index = (<Queue>target.queue).append_value(value, &refusal)
        if index < 0:
            self.refuse_as(&refusal)
            return
        target.last_index = index
        if (<Queue>target.queue).holds_replies():
            self.hold(target.queue, index, &self.route.tid)
        elif self.route.tid.size:
            self.replied(put_index(self.replies(), &self.route.tid, index))

    cdef void has_next(self, const Value *value, int64_t now) noexcept nogil:
        cdef HasNext request
        cdef Target *target
        cdef Wait wait
        cdef const char *error = scan_has_next(value, &request)
        if error != NULL:
            self.refuse(ILLEGAL_ARGUMENT, error)
            return
        if self.wait_count >= MAX_WAITS:
            self.refuse(REJECTED, b"the connection has 10000 waiting requests, the most there may "
                                  b"be")
            return
        target = self.tailer_of_request(&request)
        if target == NULL:
            return
        if not self.route.tid.size:
            # Without a tid there is no reply with entries; only a wrong index is reported.
            self.check_index(target, &request)
            return
        wait.tid = self.route.tid
        wait.has_index = request.has_index
        wait.index = request.index
        wait.batch = request.batch
        wait.deadline = now + request.wait_ms * MILLISECOND
        self.replied(self.wait_for(target, &wait, now))

    cdef Target *tailer_of_request(self, const HasNext *request) noexcept nogil:
        """Return the tailer of the route; `#tailer` alone gets one for this request."""
        cdef Target *target = self.route.target
        if target != NULL:
            return target
        if not request.has_index:
            self.refuse(ILLEGAL_ARGUMENT, b"hasNext on a csp without a cid needs an index")
            return NULL
        if self.acquire() == NULL:
            return NULL
        target = new_target(TAILER, 0, self.csp_queue, <void *>self)
        if target == NULL:
            self.replied(False)
        return target

    cdef void check_index(self, Target *target, const HasNext *request) noexcept nogil:
        cdef char[128] message
        if request.has_index and is_beyond(target, request.index, message):
            self.refuse(OUT_OF_BOUNDS, message)
        if target.cid == 0:
            self.dispose(target)

    # ---- the end -----------------------------------------------------------------

    cdef bint wants_input(self) noexcept nogil:
        """Say whether more should be read from the peer (B.9: never grow)."""
        return not (self.ended or self.input_over or self.stalled or self.is_full())

    cdef bint is_over(self) noexcept nogil:
        """Say whether everything is answered and sent."""
        return self.broken or (
            self.ended and self.waiting == NULL and pending(&self.output) == 0
            and pending(&self.marks) == 0)

    cdef void free_all(self) noexcept nogil:
        """Free all cids and buffers; the session cannot be used any more."""
        cdef Target *target
        cdef int i
        self.stalled = False
        while self.waiting != NULL:
            self.abandon(self.waiting)
        for i in range(self.targets.count):
            self.dispose(self.targets.items[i])
        free(self.targets.items)
        memset(&self.targets, 0, sizeof(self.targets))
        while self.implicit != NULL:
            target = self.implicit
            self.implicit = target.session_next
            free_target(target)
        self.implicit_count = 0
        release(&self.input)
        release(&self.csp_text)
        self.free_replies()
