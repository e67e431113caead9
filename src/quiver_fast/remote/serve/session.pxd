# One connection of the queue protocol, without its socket: bytes in, bytes out.

from libc.stdint cimport int64_t, uint32_t

from quiver_fast.remote.serve.reply cimport Failure
from quiver_fast.remote.serve.store cimport Refusal
from quiver_fast.remote.serve.tailing cimport Tailing
from quiver_fast.remote.serve.target cimport Target, TargetKind, Targets
from quiver_fast.remote.wire.buffer cimport Buffer
from quiver_fast.remote.wire.textwire cimport Value
from quiver_fast.remote.wire.wire cimport Csp, Event, HasNext, MetaData, Tid

# The route of the requests after a meta-data document (B.2).
cdef enum RouteKind:
    TO_SESSION
    TO_TARGET           # by cid, or by `#tailer/<cid>`
    TO_CSP
    TO_NOWHERE          # an unknown cid, a malformed csp: every request fails

cdef struct Route:
    RouteKind kind
    Tid tid
    Target *target
    Failure failure
    const char *error

cdef class Session(Tailing):
    cdef Buffer input           # unread input: an incomplete document, or more
    cdef Targets targets
    cdef int64_t last_cid
    cdef Route route
    # The last csp, parsed, and its queue after the first use.
    cdef Buffer csp_text
    cdef Csp csp
    cdef void *csp_queue
    cdef Target *csp_appender
    cdef Target *implicit       # appenders addressed by csp, linked by session_next
    cdef int implicit_count
    cdef bint input_over        # the peer sends no more
    cdef bint stalled           # the queue of the first document in `input` is being opened

    cdef void feed(self, const char *bytes, size_t size, int64_t now) noexcept nogil
    cdef void end_of_input(self, int64_t now) noexcept nogil
    cdef void drained(self, int64_t now) noexcept nogil
    cdef void go_on(self, int64_t now) noexcept nogil
    cdef bint wants_input(self) noexcept nogil
    cdef bint is_over(self) noexcept nogil
    cdef void free_all(self) noexcept nogil

    cdef void proceed(self, int64_t now) noexcept nogil
    cdef size_t consume(self, const char *bytes, size_t size, int64_t now) noexcept nogil
    cdef bint accepts(self, uint32_t header) noexcept nogil
    cdef bint fatal(self, Failure failure, const char *message) noexcept nogil
    cdef void finish(self, int64_t now) noexcept nogil
    cdef bint take_document(
        self, uint32_t header, const char *body, size_t size, int64_t now) noexcept nogil
    cdef void take_meta(self, const char *body, size_t size) noexcept nogil
    cdef void route_to_csp(self, const MetaData *meta) noexcept nogil
    cdef void route_to_cid(self, int64_t cid) noexcept nogil
    cdef void take_request(self, const char *body, size_t size, int64_t now) noexcept nogil
    cdef void session_message(self, const Event *event) noexcept nogil
    cdef void on_queue(self, const Event *event, const Value *value) noexcept nogil
    cdef void on_appender(self, const Event *event, const Value *value) noexcept nogil
    cdef void on_tailer(
        self, const Event *event, const Value *value, int64_t now) noexcept nogil
    cdef void refuse(self, Failure failure, const char *message) noexcept nogil
    cdef void refuse_as(self, const Refusal *refusal) noexcept nogil
    cdef void wrong_event(self) noexcept nogil
    cdef bint takes_no_argument(self, const Value *value) noexcept nogil
    cdef bint may_create_tailer(self, const Value *value) noexcept nogil
    cdef bint is_submittable(self, const Value *value) noexcept nogil
    cdef void reply_number(self, int64_t number) noexcept nogil
    cdef void *acquire(self) noexcept nogil
    cdef Target *implicit_appender(self) noexcept nogil
    cdef bint has_room(self) noexcept nogil
    cdef Target *create(self, TargetKind kind) noexcept nogil
    cdef void create_appender(self) noexcept nogil
    cdef void create_tailer(self) noexcept nogil
    cdef void submit(self, Target *target, const Value *value) noexcept nogil
    cdef void close_target(self) noexcept nogil
    cdef void has_next(self, const Value *value, int64_t now) noexcept nogil
    cdef Target *tailer_of_request(self, const HasNext *request) noexcept nogil
    cdef void check_index(self, Target *target, const HasNext *request) noexcept nogil
