"""A listening socket. It pauses while the process has no free descriptors."""

# A listening descriptor, and a pause for when the process has no descriptors left.
cdef struct Acceptor:
    Watch watch
    Hook hook
    int epoll
    # When to accept again (monotonic ns); INT64_MAX while nothing keeps us from it.
    int64_t resume_at

# The length of a pause when there are no descriptors.
cdef int64_t PAUSE = 100 * MILLISECOND


cdef class Listener:
    """A listening socket whose connections belong to a broker.

    Args:
        broker: the broker of the connections.
        sock: a listening, non-blocking TCP socket; the listener owns it.
    """

    cdef Broker broker
    cdef Acceptor acceptor
    cdef object sock

    def __init__(self, broker: Broker, sock: socket.socket) -> None:
        self.broker = broker
        self.sock = sock
        acceptor = &self.acceptor
        acceptor.epoll = broker.container.epoll
        acceptor.resume_at = INT64_MAX
        acceptor.watch.fd = sock.fileno()
        acceptor.watch.owner = <void *>self
        acceptor.watch.ready = on_connections
        acceptor.hook.owner = acceptor
        acceptor.hook.turn = accept_again
        if watch_add(acceptor.epoll, &acceptor.watch, EPOLLIN) != 0:
            raise OSError(errno, "epoll")
        broker.reactor.add_hook(&acceptor.hook)

    def close(self) -> None:
        """Accept no more connections."""
        self.acceptor.resume_at = INT64_MAX
        watch_remove(self.acceptor.epoll, &self.acceptor.watch)
        self.sock.close()


cdef void on_connections(Watch *watch, uint32_t events) noexcept nogil:
    cdef int one = 1
    cdef int fd
    while True:
        fd = accept_connection(watch.fd)
        if fd < 0 and (errno == EINTR or errno == ECONNABORTED):
            continue
        if fd < 0 and errno == EAGAIN:
            return
        if fd < 0:
            pause(<Acceptor *>watch)
            return
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))
        with gil:
            broker = (<Listener>watch.owner).broker
            exchange = SaslExchange(
                broker.security, True, peer_is_loopback(fd), peer_network(fd))
            admit(broker, fd, exchange, b"")


cdef void pause(Acceptor *acceptor) noexcept nogil:
    """Leave connections in the kernel's queue. Without a pause they would wake the loop at once."""
    watch_change(acceptor.epoll, &acceptor.watch, 0)
    acceptor.resume_at = monotonic_ns() + PAUSE


cdef int64_t accept_again(void *owner, int64_t now) noexcept nogil:
    cdef Acceptor *acceptor = <Acceptor *>owner
    if now >= acceptor.resume_at:
        acceptor.resume_at = INT64_MAX
        watch_change(acceptor.epoll, &acceptor.watch, EPOLLIN)
    return acceptor.resume_at
