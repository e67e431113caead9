"""The server's connections to other servers. Lost ones are connected again."""

cdef int64_t SECOND = 1000000000
cdef double FIRST_DELAY = 0.1
cdef double MAX_DELAY = 5.0
# The longest time of a connection attempt.
cdef double CONNECT_TIMEOUT = 10.0


cdef class Connector:
    """Keeps one connection to another server.

    It resolves the other server's name once, at the start. Each time it begins with the next of
    the name's addresses. After a failure it waits 0.1 s, then twice as long each time, up to 5 s.

    Args:
        broker: the broker that uses the connection.
        target: a :class:`quiver_fast.server.config.Target`.
        security: TLS and SASL as a client.

    Raises:
        PeerError: the name does not resolve.
        SignalError: a signal came.
    """

    cdef Broker broker
    cdef Security security
    cdef SaslExchange exchange
    cdef object target
    cdef list addresses
    cdef size_t attempt
    # The sockets while they connect.
    cdef object race
    # When it gives them up (monotonic ns).
    cdef int64_t given_up
    cdef double delay
    # The last report, to report a state only once.
    cdef str said
    cdef Dial dial

    def __init__(self, broker: Broker, target: Target, security: Security) -> None:
        self.broker = broker
        self.target = target
        self.security = security
        self.addresses = resolve(target.host, target.port, timeout=CONNECT_TIMEOUT)
        self.delay = FIRST_DELAY
        self.said = ""
        dial = &self.dial
        dial.owner = <void *>self
        dial.lost = on_lost
        dial.watch.owner = <void *>self
        dial.watch.ready = on_connected
        dial.hook.owner = <void *>dial
        dial.hook.turn = on_turn
        broker.reactor.add_hook(&dial.hook)

    def close(self) -> None:
        """Stop connecting. An existing connection ends with all others of the server."""
        self.abandon()
        self.dial.due = INT64_MAX

    def abandon(self) -> None:
        """Close the sockets that are connecting."""
        if self.race is not None:
            watch_remove(self.broker.container.epoll, &self.dial.watch)
            self.race.close()
            self.race = None

    def start(self) -> None:
        """Begin to connect."""
        first = self.attempt % len(self.addresses)
        self.attempt += 1
        try:
            self.race = Race(self.addresses[first:] + self.addresses[:first])
        except OSError as error:
            self.fail(error.strerror or str(error))
            return
        self.dial.watch.fd = self.race.fileno()
        watch_add(self.broker.container.epoll, &self.dial.watch, EPOLLIN)
        self.wait(CONNECT_TIMEOUT)
        self.given_up = self.dial.due
        self.advance()

    def advance(self) -> None:
        """Take the socket that has connected, or go on with the addresses."""
        if self.broker.reactor.now >= self.given_up:
            self.fail("no answer")
            return
        try:
            sock = self.race.step()
        except OSError as error:
            self.fail(error.strerror or str(error))
            return
        self.dial.due = <int64_t>min(self.race.due * SECOND, <double>self.given_up)
        if sock is not None:
            self.finish(sock)

    def finish(self, sock: object) -> None:
        """Use a connected socket."""
        self.abandon()
        self.exchange = SaslExchange(self.security, False, peer_is_loopback(sock.fileno()))
        self.dial.due = INT64_MAX
        self.dial.peer = admit(
            self.broker, sock.detach(), self.exchange, wire_name(self.target.host))
        if self.dial.peer == NULL:
            self.fail("too many connections")
            return
        self.dial.peer.dial = &self.dial

    def fail(self, reason: str) -> None:
        """Report the reason of a failure, and try again later."""
        self.abandon()
        self.say(reason)
        self.wait(self.delay)
        self.delay = min(self.delay * 2, MAX_DELAY)

    def wait(self, seconds: float) -> None:
        """Set the time of the next call."""
        self.dial.due = self.broker.reactor.now + <int64_t>(seconds * SECOND)

    def say(self, what: str) -> None:
        """Report a change on standard error, in one line."""
        if what != self.said and not self.broker.config.quiet:
            sys.stderr.write(f"trunk to {self.target}: {one_line(what)}\n")
        self.said = what

    cdef int ended(self, Peer *peer) except -1:
        """Connect again later: the connection was lost."""
        self.dial.peer = NULL
        if self.broker.container.closing:
            return 0
        reason = "lost" if peer.opened else "refused"
        if self.exchange.error is not None:
            reason = str(self.exchange.error)
        for condition in (
                condition_text(pn_connection_remote_condition(peer.driver.connection)),
                condition_text(pn_transport_condition(peer.driver.transport)),
                condition_text(pn_connection_condition(peer.driver.connection))):
            if condition:
                reason = condition
                break
        if peer.tls != NULL and not peer.opened and tls_failure(peer.tls)[0]:
            reason = f"TLS: {tls_failure(peer.tls).decode('utf-8', 'replace')}"
            if tls_lacks_certificate(peer.tls):
                reason += "; that server wants a certificate, and trunks have none"
        if peer.opened and peer.trunk:
            self.delay = FIRST_DELAY
        self.fail(reason)
        return 0


cdef int64_t on_turn(void *owner, int64_t now) noexcept nogil:
    cdef Dial *dial = <Dial *>owner
    if now >= dial.due:
        with gil:
            turn(<Connector>dial.owner)
    return dial.due


cdef int turn(Connector connector) noexcept:
    """Begin to connect, or go on with it."""
    if connector.race is None:
        connector.start()
    else:
        connector.advance()
    return 0


cdef void on_connected(Watch *watch, uint32_t events) noexcept with gil:
    connector = <Connector>watch.owner
    # A time-out in the same turn may have closed the sockets.
    if connector.race is not None:
        connector.advance()


cdef void on_lost(Dial *dial, Peer *peer) noexcept with gil:
    (<Connector>dial.owner).ended(peer)
