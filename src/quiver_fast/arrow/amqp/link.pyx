"""One link of a session: how it is attached, its loop, and how the peer ends it."""

from libc.errno cimport ECONNRESET, EPIPE
from libc.stdint cimport int64_t

from quiver_fast.amqp.data_plane cimport amqp_arrival_t, amqp_disposition_t
from quiver_fast.arrow.amqp.connection cimport PEER_CLOSED, Connection
from quiver_fast.arrow.amqp.transaction cimport Coordinator
from quiver_fast.arrow.run.course cimport OVER, Course, Limits, flush_and_report
from quiver_fast.errors import LinkError
from quiver_fast.proton.conditions cimport condition_text
from quiver_fast.proton.libproton cimport (
    PN_COORDINATOR, PN_LOCAL_UNINIT, PN_MAP, PN_REMOTE_ACTIVE, PN_REMOTE_CLOSED, PN_REMOTE_UNINIT,
    PN_SYMBOL, PN_ULONG, PN_UNSPECIFIED, pn_bytes_t, pn_condition_is_set,
    pn_condition_set_description, pn_condition_set_name, pn_condition_t, pn_connection_state,
    pn_data_clear, pn_data_decode, pn_data_enter, pn_data_exit, pn_data_get_symbol,
    pn_data_get_ulong, pn_data_is_described, pn_data_next, pn_data_rewind, pn_data_t, pn_data_type,
    pn_link_close, pn_link_condition, pn_link_head, pn_link_is_sender, pn_link_next, pn_link_open,
    pn_link_remote_condition, pn_link_remote_source, pn_link_remote_target, pn_link_session,
    pn_link_source, pn_link_state, pn_link_t, pn_link_target, pn_receiver, pn_sender, pn_session,
    pn_session_head, pn_session_open, pn_session_remote_condition, pn_session_state,
    pn_terminus_copy, pn_terminus_filter, pn_terminus_get_type, pn_terminus_set_address,
    pn_terminus_t,
)
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.records.writer cimport RecordWriter

cdef int64_t SECOND = 1000000000


cdef class Endpoint:
    """One link of one session of one connection.

    Args:
        connection: an open connection.
        writer: where the records go.
        limits: when to stop.
        address: the node to send to or receive from.
        name: the link's name when this side attaches it.
        time_unit: ``ms``, ``us`` or ``ns``, of SendTime and of the records.
        transaction_size: messages per transaction; 0 for none.
    """

    def __init__(self, connection: Connection, writer: RecordWriter, limits: Limits, *,
                 address: str, name: str, time_unit: str, transaction_size: int) -> None:
        self.course = Course(limits, time_unit)
        self.writer = writer
        self.connection = connection
        self.address = address
        self.name = name
        self.batch_size = transaction_size

    def attach(self, *, passive: bool, timeout: float) -> None:
        """Open session and link, or wait for the peer to, and confirm them.

        With transactions, attach to the peer's coordinator as well.

        Args:
            passive: wait for the peer's begin and attach instead of sending them.
            timeout: seconds.

        Raises:
            LinkError: the peer refused the link or opened one we cannot use.
            PeerError: it did not answer in time, or closed.
            TransactionError: it has no transaction coordinator.
        """
        cdef int64_t deadline = monotonic_ns() + <int64_t>(timeout * SECOND)
        if passive:
            self.await_session(deadline)
            self.attach_passively(deadline)
        else:
            self.open_session(deadline)
            self.attach_actively(deadline)
        self.confirm_attach()

    def begin_attach(self, *, passive: bool) -> None:
        """Begin to attach, without waiting for the peer; `try_attach` continues.

        Args:
            passive: see `attach`.
        """
        if not passive:
            self.open_session(0)
            self.send_attach()

    def try_attach(self, *, passive: bool) -> bool:
        """Say whether the link is attached, by the frames that have come.

        Call it again after each exchange, while it is false.

        Args:
            passive: see `attach`.

        Raises:
            LinkError: see `attach`.
        """
        self.ended_by_reason()
        if passive:
            if not (self.find_session() and self.find_link()):
                return False
        elif not self.usable():
            if self.closed_by_peer():
                self.refused()
            return False
        else:
            self.is_doubtful = self.is_refusal()
        self.confirm_attach()
        return True

    def check_end(self) -> None:
        """Raise LinkError if the peer has ended session or link with an error."""
        self.ended_by_reason()

    def be_one_of_many(self, number: int) -> None:
        """Share the connection with other ends, each of which has a session of its own.

        Args:
            number: which end of the process this is.
        """
        self.is_one_of_many = True
        self.number = number

    # ---- a lost connection -----------------------------------------------------------

    def lose(self) -> list[int]:
        """Give up the lost connection; return the numbers of messages that are in doubt now."""
        self.drop_coordinator()
        return []

    cdef int drop_coordinator(self) noexcept:
        if self.coordinator is not None:
            self.discharged_before += self.coordinator.discharged
            self.coordinator = None
        return 0

    def take_resent(self) -> list[int]:
        """Return the numbers of messages that were sent again over this connection."""
        return []

    def go_without(self) -> bool:
        """Go on without a connection; say whether the run is over. Call it again and again."""
        cdef int64_t now = monotonic_ns()
        self.course.notice(now, self.writer)
        return self.course.interrupted != 0 or self.is_over_without(now)

    def conclude(self) -> None:
        """Judge the run that is over: raise the QuiverError of what went wrong."""

    def fail_without(self) -> None:
        """End the run now, without a connection: messages were due until now."""
        self.course.start_draining(monotonic_ns())

    cdef bint is_over_without(self, int64_t now) noexcept nogil:
        """Say whether the run is over for an end without a connection."""
        return True

    def move_to(self, connection: Connection, address: str) -> None:
        """Go on over another connection; `begin_attach` opens the session and the link.

        Args:
            connection: an open connection.
            address: the node at its peer.
        """
        self.drop_coordinator()
        self.connection = connection
        self.address = address
        self.session = NULL
        self.link = NULL
        self.end = NULL

    def resume(self) -> None:
        """Go on over the attached link of the new connection."""

    cdef int confirm_attach(self) except -1:
        """Begin the run over a link that both sides have attached."""
        self.end = self.connection.end_of(self.link)
        self.end.user = self.user()
        if self.batch_size:
            self.coordinator = Coordinator(self.connection)
        self.use_link()
        if self.batch_size:
            self.coordinator.attach(self.session, f"{self.name}-coordinator")
        self.begin()
        return 0

    @property
    def interrupted(self) -> int:
        """Number of the signal that ended the run early, or 0."""
        return self.course.interrupted

    def account(self) -> "Account":
        """Return the `Account` of this end."""
        from quiver_fast.arrow.run.account import Account

        return Account(
            address=self.address, sending_ns=self.course.sending_ns,
            transactions=self.discharged_before + (
                0 if self.coordinator is None else self.coordinator.discharged))

    cdef void *user(self) noexcept:
        """Return the pointer that events of the data plane have for our link; never NULL."""
        return <void *>self

    cdef int open_session(self, int64_t deadline) except -1:
        self.session = pn_session(self.connection.connection)
        self.prepare_session()
        pn_session_open(self.session)
        return 0

    cdef int await_session(self, int64_t deadline) except -1:
        while not self.find_session():
            self.advance(deadline, "begin a session")
        return 0

    cdef bint find_session(self) except -1:
        """Answer the first session that the peer has begun; say whether we have a session."""
        if self.session != NULL:
            return True
        self.session = pn_session_head(
            self.connection.connection, PN_LOCAL_UNINIT | PN_REMOTE_ACTIVE)
        if self.session == NULL:
            return False
        self.prepare_session()
        pn_session_open(self.session)
        return True

    cdef int attach_actively(self, int64_t deadline) except -1:
        self.send_attach()
        while not self.usable():
            self.advance(deadline, f"attach the link to '{self.address}'")
            if self.closed_by_peer():
                self.refused()
        self.is_doubtful = self.is_refusal()
        return 0

    def send_attach(self) -> None:
        """Open our end of the link."""
        name = self.name.encode()
        address = self.address.encode()
        if self.is_sender:
            self.link = pn_sender(self.session, name)
            pn_terminus_set_address(pn_link_target(self.link), address)
        else:
            self.link = pn_receiver(self.session, name)
            pn_terminus_set_address(pn_link_source(self.link), address)
        self.prepare()
        pn_link_open(self.link)

    cdef int advance(self, int64_t deadline, str purpose) except -1:
        """Exchange once, within ``deadline``; raise the first error that the peer names."""
        self.connection.step(deadline)
        self.ended_by_reason()
        return self.connection.judge(deadline, purpose)

    cdef bint usable(self) noexcept nogil:
        """Say whether the peer has attached the link without refusing it."""
        if pn_link_state(self.link) & PN_REMOTE_UNINIT:
            return False
        # The engine shows a receiver no difference between a null source and a source without an
        # address. A peer that refuses detaches at once (part 2.6.3), and the run sees that.
        return not self.is_sender or not self.is_refusal()

    cdef bint is_refusal(self) noexcept nogil:
        """Say whether the peer's attach has a null terminus, which refuses (part 2.6.3)."""
        if self.is_sender:
            return pn_terminus_get_type(pn_link_remote_target(self.link)) == PN_UNSPECIFIED
        return pn_terminus_get_type(pn_link_remote_source(self.link)) == PN_UNSPECIFIED

    def refused(self) -> None:
        """Raise the LinkError of a peer that refused the link without a reason."""
        raise LinkError(
            f"{self.connection.peer}: the peer refused the link to '{self.address}'")

    cdef int attach_passively(self, int64_t deadline) except -1:
        while not self.find_link():
            self.advance(deadline, "attach a link")
        return 0

    cdef bint find_link(self) except -1:
        """Answer the links that the peer attached in our session; say whether one is ours."""
        cdef int fresh = PN_LOCAL_UNINIT | PN_REMOTE_ACTIVE
        cdef pn_link_t *link = pn_link_head(self.connection.connection, fresh)
        cdef pn_link_t *following
        while link != NULL:
            following = pn_link_next(link, fresh)
            if pn_link_session(link) == self.session or not self.is_one_of_many:
                self.answer(link)
            link = following
        return self.link != NULL

    cdef int answer(self, pn_link_t *link) except -1:
        """Confirm the link of this endpoint; refuse any other."""
        if pn_terminus_get_type(pn_link_remote_target(link)) == PN_COORDINATOR:
            return self.refuse(
                link, b"amqp:not-implemented", b"an arrow coordinates no transactions")
        if pn_link_is_sender(link) != self.is_sender or self.link != NULL:
            self.refuse(
                link, b"amqp:not-allowed", b"this arrow has one link, in the other direction")
            role = "sender" if self.is_sender else "receiver"
            raise LinkError(f"{self.connection.peer}: the peer attached as a {role}, as we are")
        self.link = link
        pn_terminus_copy(pn_link_source(link), pn_link_remote_source(link))
        pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link))
        if self.is_sender:
            # Our source names the filters that we apply (part 2.6.3): none.
            pn_data_clear(pn_terminus_filter(pn_link_source(link)))
        self.prepare()
        pn_link_open(link)
        return 0

    cdef int loop(self) except -1 nogil:
        """Transfer until the run is over; then flush the records."""
        cdef int64_t now
        cdef int64_t wake
        while True:
            now = monotonic_ns()
            # Input first: messages and outcomes before the end of the link count.
            self.take_input()
            wake = self.turn(now)
            if wake == OVER:
                flush_and_report(self.writer, self.course.control)
                return 0
            self.await_input(wake)

    cdef int take_input(self) except -1 nogil:
        """Take all input that was read."""
        return 0

    cdef int64_t turn(self, int64_t now) except? -1 nogil:
        """Do the work that is due, after all input was taken.

        Returns when the next turn is due without new input (monotonic ns): 0 for at once, and OVER
        at the end of the run.
        """
        return OVER

    cdef int await_input(self, int64_t wake) except -1 nogil:
        """Write and read; wait for the peer until ``wake``."""
        return 0

    cdef int take_disposition(self, const amqp_disposition_t *disposition) except -1 nogil:
        """Take outcomes of our deliveries; an end without deliveries has none."""
        return 0

    cdef int take_reply(self, const amqp_arrival_t *arrival) except -1 nogil:
        """Take a frame that came to a sender; one that is no requester has no such frames."""
        return 0

    cdef int begin(self) noexcept nogil:
        """Begin the clock of the run, or prepare it. The link is attached."""
        return self.course.start_clock()

    def use_link(self) -> None:
        """Prepare to transfer over the attached link; raise LinkError where it cannot be used."""

    def prepare_session(self) -> None:
        """Set fields of our begin before it is sent."""

    def prepare(self) -> None:
        """Set fields of our attach before it is sent."""

    cdef int refuse(self, pn_link_t *link, const char *name, const char *why) noexcept:
        # Part 2.6.3: attach without termini, then detach with the error.
        cdef pn_condition_t *condition = pn_link_condition(link)
        pn_link_open(link)
        pn_condition_set_name(condition, name)
        pn_condition_set_description(condition, why)
        pn_link_close(link)
        return 0

    cdef bint closed_by_peer(self) except? -1 nogil:
        """Say whether the peer ended link, session or connection without an error.

        Raises LinkError, TransactionError or PeerError (with the condition) if it ended with
        one. One read may bring all three: the first has the reason, and the
        others follow from it.
        """
        cdef bint closed = self.ended_by_reason()
        if self.connection.cut and not self.connection.excused:
            self.excuse_lost_connection(closed)
        return self.connection.check() == PEER_CLOSED or closed

    cdef int excuse_lost_connection(self, bint closed) except -1 nogil:
        """Treat a connection that was lost at the end of a timed run as closed.

        A peer of the same duration that closes with unread input of ours, and exits, has its
        system reset the connection, which may overtake its close.
        """
        cdef int error = self.connection.socket_error
        cdef bint is_gone = self.connection.hung_up or error == ECONNRESET or error == EPIPE
        if pn_connection_state(self.connection.connection) & PN_REMOTE_CLOSED:
            return 0
        if self.course.limits.reconnects or self.course.limits.count or not is_gone or not (
                self.course.stopping or self.course.near_the_end(monotonic_ns())):
            return 0
        self.connection.excused = True
        if closed:
            return 0
        with gil:
            self.course.limits.warnings.append(
                f"{self.connection.peer}: the connection was lost at the end of the run, before "
                "the peer closed it")
        return 0

    cdef bint is_ended(self) noexcept nogil:
        """Say whether the peer has ended link or session."""
        return ((pn_link_state(self.link) | pn_session_state(self.session)) & PN_REMOTE_CLOSED) != 0

    cdef bint ended_by_reason(self) except? -1 nogil:
        """Say whether the peer ended link or session; raise LinkError if it gave a reason."""
        cdef bint closed = False
        if self.link != NULL and pn_link_state(self.link) & PN_REMOTE_CLOSED:
            closed = True
            if pn_condition_is_set(pn_link_remote_condition(self.link)):
                with gil:
                    self.fail_with(pn_link_remote_condition(self.link), "detached the link")
        if self.coordinator is not None:
            self.coordinator.check_detach()
        if self.session != NULL and pn_session_state(self.session) & PN_REMOTE_CLOSED:
            closed = True
            if pn_condition_is_set(pn_session_remote_condition(self.session)):
                with gil:
                    self.fail_with(pn_session_remote_condition(self.session), "ended the session")
        return closed

    cdef int fail_with(self, pn_condition_t *condition, str what) except -1:
        text = condition_text(condition)
        raise LinkError(f"{self.connection.peer}: the peer {what} of '{self.address}': {text}")


cdef bint has_ended(Endpoint end, pn_link_t *link) except? -1 nogil:
    """Say whether the peer ended an endpoint's link for replies; LinkError if it gave a reason."""
    if link == NULL or not (pn_link_state(link) & PN_REMOTE_CLOSED):
        return False
    if pn_condition_is_set(pn_link_remote_condition(link)):
        with gil:
            end.fail_with(pn_link_remote_condition(link), "detached the link for replies")
    return True


cdef int ask_for_filters(pn_terminus_t *source, bytes encoded) except -1:
    """Put an encoded filter set into our source."""
    cdef pn_data_t *data = pn_terminus_filter(source)
    pn_data_clear(data)
    if pn_data_decode(data, encoded, len(encoded)) != len(encoded):
        raise MemoryError("no memory for the filters")
    return 0


cdef int check_filters(Endpoint end, filters) except -1:
    """Raise LinkError if the peer does not apply one of the `SourceFilters` (part 2.6.3)."""
    missing = filters.missing(
        kept_filters(pn_link_remote_source(end.link)),
        end.connection.remote_property(b"product"), end.connection.remote_property(b"version"))
    if missing is not None:
        raise LinkError(
            f"{end.connection.peer}: the peer does not apply the filter {missing} "
            f"to '{end.address}'")
    return 0


cdef set kept_filters(pn_terminus_t *source):
    """Return the descriptors in the peer's source, which has the filters that the peer applies."""
    cdef pn_data_t *data = pn_terminus_filter(source)
    cdef pn_bytes_t name
    found = set()
    pn_data_rewind(data)
    if not pn_data_next(data) or pn_data_type(data) != PN_MAP:
        return found
    pn_data_enter(data)
    while pn_data_next(data) and pn_data_next(data):
        if not pn_data_is_described(data):
            continue
        pn_data_enter(data)
        pn_data_next(data)
        if pn_data_type(data) == PN_ULONG:
            found.add(pn_data_get_ulong(data))
        elif pn_data_type(data) == PN_SYMBOL:
            name = pn_data_get_symbol(data)
            found.add(name.start[:name.size].decode("ascii", "replace"))
        pn_data_exit(data)
    pn_data_exit(data)
    return found
