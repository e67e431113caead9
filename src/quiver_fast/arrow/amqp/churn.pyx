"""Connections, sessions or links that are opened at a rate, send one message, and are closed."""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t

from quiver_fast.amqp.data_plane cimport (
    AMQP_CODE_ACCEPTED, AMQP_CODE_MODIFIED, AMQP_CODE_NONE, AMQP_CODE_RECEIVED,
    AMQP_CODE_REJECTED, AMQP_CODE_RELEASED, AMQP_FRAME_ROOM, AMQP_RECEIVER, AMQP_THEIRS,
    amqp_bytes_t, amqp_disposition_t, amqp_link_end_release,
)
from quiver_fast.arrow.amqp.attempts cimport (
    STEP_ATTACH, STEP_BEGIN, STEP_CLOSE, STEP_MESSAGE, Attempt, Attempts,
)
from quiver_fast.arrow.amqp.attempts import STEPS
from quiver_fast.arrow.amqp.connection cimport PEER_CLOSED, Connection, error_text
from quiver_fast.arrow.run.delays cimport DelayHistogram
from quiver_fast.arrow.run.pacer cimport Pacer
from quiver_fast.errors import LinkError, OutcomeError, PeerError, QuiverError
from quiver_fast.proton.conditions cimport condition_text
from quiver_fast.proton.libproton cimport (
    PN_REMOTE_CLOSED, PN_REMOTE_UNINIT, PN_SND_UNSETTLED, PN_UNSPECIFIED,
    pn_connection_close, pn_link_close, pn_link_free, pn_link_open,
    pn_link_remote_condition, pn_link_remote_target, pn_link_set_snd_settle_mode, pn_link_state,
    pn_link_target, pn_sender, pn_session, pn_session_close, pn_session_free, pn_session_open,
    pn_session_remote_condition, pn_session_state, pn_terminus_get_type, pn_terminus_set_address,
)
from quiver_fast.proton.libsys cimport monotonic_ns

# What is opened and closed: each contains the next.
CONNECTION, SESSION, LINK = range(3)
KINDS = ("connection", "session", "link")

# Attempts at the same time: more would only wait in the backlog of a listener.
MOST_PENDING = 512
NOT_BEGUN = "not begun in time"

cdef int64_t SECOND = 1000000000
# The period of idle time-outs: a tenth of the shortest time-out in use.
cdef int64_t TICK_PERIOD = SECOND // 10
# Attempts that begin between two calls of `poll`.
cdef int BURST = 64

OUTCOMES = {
    AMQP_CODE_REJECTED: "rejected", AMQP_CODE_RELEASED: "released",
    AMQP_CODE_MODIFIED: "modified",
}


cdef class Churn(Attempts):
    """Attempts of one kind, which begin at the times of an open-loop schedule.

    Args:
        common: the arguments of Attempts.
        kind: a word of KINDS.
        rate: attempts per second.
        duration: seconds during which attempts are due.
        address_at: returns the address of a link over an open connection.
        make_message: makes an encoded message.
        name: the prefix of the links' names.
    """

    cdef Pacer pacer
    cdef int kind
    cdef object address_at
    cdef object make_message
    cdef str name
    cdef bytes node
    # How many links were attached, for the number in a link's name.
    cdef int64_t attached
    # Attempts whose message has no outcome yet, by session and delivery-id.
    cdef dict sent
    # The connection over which sessions or links are opened; None while there is none.
    cdef Attempt shared
    cdef bint is_open
    cdef int64_t total
    cdef int64_t duration
    cdef int64_t start
    cdef int64_t ended
    cdef int64_t next_ticks
    # The number of the next attempt; attempts that did not begin in time are counted too.
    cdef int64_t next
    cdef readonly int64_t due
    cdef readonly int64_t begun
    cdef readonly int64_t succeeded
    # Of attempts that succeeded: from the time due to the end, and of each step.
    cdef readonly DelayHistogram latency
    cdef readonly list[DelayHistogram] steps

    def __init__(self, *common: Unpack[Common], kind: str, rate: int, duration: int,
                 address_at: Callable[[Connection], str], make_message: Callable[[], bytes],
                 name: str) -> None:
        super().__init__(*common)
        self.kind = KINDS.index(kind)
        self.pacer = Pacer(rate)
        self.duration = duration * SECOND
        self.total = self.pacer.due(self.duration - 1)
        self.address_at = address_at
        self.make_message = make_message
        self.name = name
        self.sent = {}
        self.latency = DelayHistogram()
        self.steps = [DelayHistogram() for _ in STEPS]

    @property
    def elapsed_ns(self) -> int:
        """Nanoseconds from the first time that was due to the end."""
        return max(self.ended - self.start, 0)

    def run(self) -> None:
        """Begin attempts until all have ended, or until the user stops."""
        cdef Attempt one
        if self.kind != CONNECTION:
            self.open_shared(monotonic_ns())
            while self.shared is not None and not self.is_open and not self.is_stopped():
                self.poll(INT64_MAX)
        self.start = monotonic_ns()
        while not self.is_stopped() and (self.next < self.total or self.pending):
            self.due = min(self.total, self.pacer.due(monotonic_ns() - self.start))
            self.begin_due()
            self.poll(self.wake())
            self.keep_time_outs(monotonic_ns())
        # Attempts that a signal ends count neither as succeeded nor as failed.
        self.ended = monotonic_ns()
        for one in list(self.pending):
            self.release(one)
        if self.shared is not None:
            self.release(self.shared)

    cdef int keep_time_outs(self, int64_t now) except -1:
        """Check the idle time-outs of connections that wait for the peer."""
        cdef Attempt one
        if now < self.next_ticks:
            return 0
        self.next_ticks = now + TICK_PERIOD
        for one in [*self.pending, self.shared] if self.is_open else list(self.pending):
            if one.watch.fd >= 0 and one.connection is not None and (
                    one.connection.next_tick <= now):
                self.serve(one)
        return 0

    cdef int64_t wake(self) except? -1:
        """Return when the next attempt can begin."""
        if self.next >= self.total or not self.has_room():
            return INT64_MAX
        return self.start + self.pacer.intended(self.next)

    cdef bint has_room(self) except -1:
        """Say whether one more attempt may begin."""
        cdef int64_t most = MOST_PENDING
        if self.kind != CONNECTION and self.shared is not None:
            if not self.is_open:
                return False
            most = min(most, self.most_shared())
        return len(self.pending) < most

    cdef int64_t most_shared(self) except -1:
        """Return how many sessions or links the peer allows at a time (parts 2.7.1, 2.7.2)."""
        if self.kind == SESSION:
            return self.shared.connection.sessions_allowed()
        session = self.shared.connection.plane.endpoints.sessions
        return <int64_t>session.handle_max[<int>AMQP_THEIRS] + 1

    cdef int begin_due(self) except -1:
        """Begin attempts that are due, up to the limit of `has_room`."""
        cdef int64_t due
        for _ in range(BURST):
            if self.next >= self.due or not self.has_room():
                break
            due = self.start + self.pacer.intended(self.next)
            if due + self.patience <= monotonic_ns():
                self.next += 1
                self.failed += 1
                self.count_reason(self.reasons, None, NOT_BEGUN)
            elif self.kind != CONNECTION and self.shared is None:
                self.open_shared(due)
            else:
                self.next += 1
                self.begun += 1
                self.begin(due)
        if self.is_open:
            self.flush(self.shared)
        return 0

    cdef int begin(self, int64_t due) except -1:
        if self.kind == CONNECTION:
            self.connect(due)
            return 0
        one = Attempt()
        one.watch.fd = -1
        one.connection = self.shared.connection
        one.due = due
        one.since = monotonic_ns()
        one.deadline = due + self.patience
        one.step = STEP_BEGIN if self.kind == SESSION else STEP_ATTACH
        one.session = self.shared.session
        self.pending[one] = None
        return self.begin_step(one)

    cdef int open_shared(self, int64_t due) except -1:
        """Open the connection of all sessions or links."""
        self.is_open = False
        self.shared = self.connect(due)
        return self.skip_attempt() if self.shared is None else 0

    cdef int skip_attempt(self) except -1:
        """Count the next attempt as begun: it fails, because there is no connection."""
        self.next += 1
        self.begun += 1
        self.due = max(self.due, self.next)
        return 0

    # ---- steps -----------------------------------------------------------------------

    cdef int begin_step(self, Attempt one) except -1:
        cdef Connection connection = one.connection
        if one is self.shared and one.step == (STEP_BEGIN if self.kind == SESSION else STEP_ATTACH):
            self.is_open = True
            # The shared connection has no deadline.
            self.pending.pop(one)
        elif one.step == STEP_BEGIN:
            one.session = pn_session(connection.connection)
            pn_session_open(one.session)
        elif one.step == STEP_ATTACH:
            self.attach(one)
        elif one.step == STEP_MESSAGE:
            one.end = connection.end_of(one.link)
            one.end.user = <void *>one
        elif one.step == STEP_CLOSE:
            self.close(one)
        return 0

    cdef int attach(self, Attempt one) except -1:
        if self.node is None:
            self.node = self.address_at(one.connection).encode()
        self.attached += 1
        one.link = pn_sender(one.session, f"{self.name}-{self.attached}".encode())
        pn_terminus_set_address(pn_link_target(one.link), self.node)
        pn_link_set_snd_settle_mode(one.link, PN_SND_UNSETTLED)
        pn_link_open(one.link)
        return 0

    cdef int close(self, Attempt one) except -1:
        if self.kind == CONNECTION:
            one.connection.closing = True
            pn_connection_close(one.connection.connection)
        elif self.kind == SESSION:
            pn_session_close(one.session)
        else:
            pn_link_close(one.link)
        return 0

    cdef bint has_passed(self, Attempt one) except -1:
        if one.step < STEP_BEGIN or (one is self.shared and self.is_open):
            return Attempts.has_passed(self, one)
        if one.step == STEP_CLOSE:
            return self.is_closed(one)
        self.judge_end(one)
        if one.step == STEP_BEGIN:
            return not pn_session_state(one.session) & PN_REMOTE_UNINIT
        if one.step == STEP_ATTACH:
            return (not pn_link_state(one.link) & PN_REMOTE_UNINIT and pn_terminus_get_type(
                pn_link_remote_target(one.link)) != PN_UNSPECIFIED)
        if not one.is_sent:
            self.send(one)
        if one.refusal:
            raise OutcomeError(one.refusal)
        return one.is_settled

    cdef bint is_closed(self, Attempt one) except -1:
        """Say whether the peer has answered the close; raise PeerError if it closed more."""
        cdef bint gone = one.connection.check() == PEER_CLOSED
        if self.kind == CONNECTION:
            return gone
        if gone:
            raise PeerError("the peer closed the connection")
        if self.kind == SESSION:
            return pn_session_state(one.session) & PN_REMOTE_CLOSED
        return pn_link_state(one.link) & PN_REMOTE_CLOSED

    cdef int judge_end(self, Attempt one) except -1:
        """Raise the error of a link, session or connection that the peer has ended."""
        if one.link != NULL and pn_link_state(one.link) & PN_REMOTE_CLOSED:
            why = condition_text(pn_link_remote_condition(one.link))
            raise LinkError(f"the peer detached the link{': ' if why else ''}{why}")
        if one.session != NULL and pn_session_state(one.session) & PN_REMOTE_CLOSED:
            why = condition_text(pn_session_remote_condition(one.session))
            raise LinkError(f"the peer ended the session{': ' if why else ''}{why}")
        if one.connection.check() == PEER_CLOSED:
            raise PeerError("the peer closed the connection")
        return 0

    # ---- the message -----------------------------------------------------------------

    cdef int send(self, Attempt one) except -1:
        """Send the message of an attempt, if credit and window allow it."""
        cdef amqp_bytes_t tag
        cdef amqp_bytes_t text
        cdef bytes message
        cdef int64_t window = one.end.session.counts.remote_incoming_window
        cdef int64_t most = one.connection.largest_frame() - AMQP_FRAME_ROOM
        if one.end.counts.credit == 0:
            return 0
        message = self.make_message()
        if window * most < len(message):
            return 0
        tag.start = <const uint8_t *>b"0"
        tag.size = 1
        text.start = <const uint8_t *>message
        text.size = len(message)
        one.delivery_id = one.connection.transfer(one.end, tag, text, False)
        one.is_sent = True
        self.sent[<size_t>one.end.session, one.delivery_id] = one
        return 0

    cdef int take_outcome(self, Connection connection) except -1:
        cdef const amqp_disposition_t *disposition = &connection.plane.disposition
        cdef uint32_t span = disposition.last - disposition.first
        # Not an outcome yet (part 3.4.1).
        if disposition.role != AMQP_RECEIVER or disposition.state.code == AMQP_CODE_RECEIVED or (
                disposition.state.code == AMQP_CODE_NONE and not disposition.settled):
            return 0
        session = <size_t>connection.plane.session
        if span == 0:
            keys = [(session, disposition.first)]
        else:
            # A peer may settle any range.
            keys = [key for key in self.sent
                    if key[0] == session and <uint32_t>(key[1] - disposition.first) <= span]
        for key in keys:
            self.settle(self.sent.pop(key, None), disposition)
        if not disposition.settled:
            connection.settle(connection.plane.session, disposition.first, disposition.last)
        return 0

    cdef int settle(self, Attempt one, const amqp_disposition_t *disposition) except -1:
        if one is None:
            return 0
        one.is_settled = True
        # Settled without an outcome stands for the default one (part 2.6.12).
        if disposition.state.code not in (AMQP_CODE_ACCEPTED, AMQP_CODE_NONE):
            why = error_text(disposition.state.condition, disposition.state.description)
            outcome = OUTCOMES.get(disposition.state.code, "not accepted")
            one.refusal = f"the message was {outcome}{': ' if why else ''}{why}"
        return 0

    # ---- ends ------------------------------------------------------------------------

    cdef int take_bytes(self, Attempt one) except -1:
        cdef Attempt each
        self.advance(one)
        if one is self.shared and self.is_open:
            for each in list(self.pending):
                try:
                    self.advance(each)
                except QuiverError as error:
                    self.fail(each, error)
        return 0

    cdef int fail(self, Attempt one, object error) except -1:
        if self.shared is None or one is not self.shared:
            return Attempts.fail(self, one, error)
        # All attempts over the connection fail with it; before its open, the next attempt does.
        self.shared = None
        self.release(one)
        for each in list(self.pending):
            Attempts.fail(self, each, error)
        if not self.is_open:
            self.failed += 1
            self.count_reason(self.reasons, one, error)
            self.skip_attempt()
        self.is_open = False
        return 0

    cdef int succeed(self, Attempt one) except -1:
        cdef int step
        self.succeeded += 1
        (<DelayHistogram>self.latency).add(one.since - one.due)
        for step in range(len(STEPS)):
            if one.spent[step] >= 0:
                (<DelayHistogram>self.steps[step]).add(one.spent[step])
        return 0

    cdef int release(self, Attempt one) except -1:
        if one.is_sent:
            self.sent.pop((<size_t>one.end.session, one.delivery_id), None)
        if self.kind == CONNECTION or one.sock is not None:
            return Attempts.release(self, one)
        self.pending.pop(one, None)
        return self.end_part(one)

    cdef int end_part(self, Attempt one) except -1:
        """Close the session or link of an attempt if it is open, and free it."""
        if one.link != NULL:
            pn_link_close(one.link)
        if self.kind == SESSION and one.session != NULL:
            pn_session_close(one.session)
        # The engine writes no frames for freed links and sessions.
        one.connection.drain()
        if one.end != NULL:
            amqp_link_end_release(&one.connection.plane.endpoints, one.end)
        if one.link != NULL:
            pn_link_free(one.link)
        if self.kind == SESSION and one.session != NULL:
            pn_session_free(one.session)
        return 0
