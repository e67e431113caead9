"""The bytes of one connection, between its socket and the engine."""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t

from quiver_fast.amqp.tls cimport (
    TLS_AGAIN, TLS_FAILED, iovec, tls_close, tls_events, tls_flush, tls_has_input, tls_read,
    tls_write,
)
from quiver_fast.loop.reactor cimport watch_change
from quiver_fast.proton.libproton cimport (
    PN_LOCAL_ACTIVE, PN_LOCAL_CLOSED, PN_REJECTED, PN_REMOTE_CLOSED, pn_bytes_t,
    pn_condition_is_set, pn_condition_set_description, pn_condition_set_name, pn_condition_t,
    pn_connection_close, pn_connection_condition, pn_connection_driver_finished,
    pn_connection_driver_read_buffer, pn_connection_driver_read_buffer_sized,
    pn_connection_driver_read_close, pn_connection_driver_read_closed,
    pn_connection_driver_read_done, pn_connection_driver_write_buffer,
    pn_connection_driver_write_close, pn_connection_driver_write_closed,
    pn_connection_driver_write_done, pn_connection_open,
    pn_connection_state, pn_delivery_local, pn_delivery_settle, pn_delivery_t, pn_delivery_update,
    pn_disposition_condition, pn_link_close, pn_link_condition, pn_rwbytes_t,
    pn_transport_close_tail, pn_transport_condition, ssize_t,
)
from quiver_fast.proton.libsys cimport (
    EPOLLIN, EPOLLOUT, MSG_DONTWAIT, MSG_NOSIGNAL, POLLOUT, recv, send,
)
from quiver_fast.server.model.structures cimport Link, Peer, peer_dirty

cdef size_t READ_SIZE = 65536
# Bytes to read at a time from a peer whose short frames are expensive.
cdef size_t COSTLY_SIZE = 4096
# A peer with so many unanswered frames that reads no answers is not read any more. With a
# lower limit, two servers that fill each other's sockets could both stop reading.
cdef size_t UNANSWERED_MAX = 256
# Bytes to write at a time.
cdef size_t WRITE_SIZE = 65536
# The first size of the engine's buffer.
cdef size_t ENGINE_BUFFER = 8192


cdef bint peer_read(Peer *peer) noexcept nogil:
    """Read once from the socket, up to a limit; return whether there may be more."""
    cdef pn_rwbytes_t space
    cdef ssize_t n
    if peer.cut or not wants_input(peer):
        return False
    space = pn_connection_driver_read_buffer_sized(&peer.driver, READ_SIZE)
    if space.size == 0:
        # The buffer has only part of a frame: let it grow.
        space = pn_connection_driver_read_buffer(&peer.driver)
    if peer.costly:
        space.size = min(space.size, COSTLY_SIZE)
    if space.size == 0:
        return False
    if peer.tls != NULL:
        n = tls_read(peer.tls, space.start, space.size)
    else:
        n = recv(peer.watch.fd, space.start, space.size, MSG_DONTWAIT)
        if n < 0 and (errno == EAGAIN or errno == EINTR):
            n = TLS_AGAIN
        elif n < 0:
            n = TLS_FAILED
    if n == TLS_AGAIN:
        return False
    if n <= 0:
        peer_cut(peer)
        return False
    pn_connection_driver_read_done(&peer.driver, n)
    if pn_connection_driver_read_closed(&peer.driver):
        refuse_garbage(peer)
        return False
    return <size_t>n == space.size and not peer.costly


cdef bint peer_has_rest(const Peer *peer) noexcept nogil:
    """Say whether there is something to read that the socket tells nobody of."""
    return peer.tls != NULL and not peer.cut and wants_input(peer) and tls_has_input(peer.tls)


cdef int peer_clear_socket(const Peer *peer) noexcept nogil:
    """Return the socket that frames may be written to past TLS; -1 where TLS is between.

    What is framed for no socket waits in the engine's output.
    """
    return peer.watch.fd if peer.tls == NULL else -1


cdef void refuse_garbage(Peer *peer) noexcept nogil:
    """Give the reason of an error if the engine gave none.

    The engine stops without an error at a frame that it cannot dispatch.
    """
    if not (pn_condition_is_set(pn_transport_condition(peer.driver.transport))
            or pn_connection_state(peer.driver.connection) & PN_REMOTE_CLOSED):
        peer_refuse(peer, b"amqp:decode-error", b"not a frame of AMQP")


cdef void peer_cut(Peer *peer) noexcept nogil:
    """Take the connection as gone in both directions."""
    peer.cut = True
    pn_connection_driver_read_close(&peer.driver)
    pn_connection_driver_write_close(&peer.driver)


cdef void peer_write(Peer *peer) noexcept nogil:
    """Give the socket what the engine has, and wait for the socket where it is full.

    The engine is not asked for output while the socket is full, because it would frame
    everything it has. Nor is it asked when the connection was cut.
    """
    cdef uint32_t events = 0
    if not (peer.full or peer.cut):
        write_some(peer)
    if peer.cut:
        return
    if peer.full:
        events |= EPOLLOUT
    if wants_input(peer):
        events |= EPOLLIN
    if events != peer.events:
        peer.events = events
        watch_change(peer.container.epoll, &peer.watch, events)


cdef void peer_flush(Peer *peer) noexcept nogil:
    """Write during a turn, if the socket is not full."""
    if not (peer.full or peer.cut):
        write_some(peer)


cdef bint wants_input(const Peer *peer) noexcept nogil:
    return not (peer.behind or peer.holder.slowed) and (
        not peer.full or peer.unanswered < UNANSWERED_MAX)


cdef void write_some(Peer *peer) noexcept nogil:
    """Write until there is no more, or the socket is full."""
    cdef pn_bytes_t data = output(peer)
    cdef ssize_t n
    peer.ending_sessions = 0
    peer.unanswered = 0
    if peer.tls != NULL:
        write_tls(peer, data)
        return
    while data.size > 0 and not peer.cut:
        n = send(peer.watch.fd, data.start, data.size, MSG_DONTWAIT | MSG_NOSIGNAL)
        if n < 0 and errno == EINTR:
            continue
        if n < 0 and errno == EAGAIN:
            peer.full = True
            break
        if n < 0:
            peer_cut(peer)
            break
        data = pn_connection_driver_write_done(&peer.driver, n)


cdef void write_tls(Peer *peer, pn_bytes_t data) noexcept nogil:
    """Write within TLS; what the socket does not take yet waits in TLS's buffer."""
    cdef iovec part
    cdef ssize_t n = tls_flush(peer.tls)
    while data.size > 0 and n != TLS_FAILED:
        part.iov_base = <void *>data.start
        part.iov_len = data.size
        n = tls_write(peer.tls, &part, 1)
        if n <= 0:
            break
        data = pn_connection_driver_write_done(&peer.driver, n)
    if n != TLS_FAILED and pn_connection_driver_write_closed(&peer.driver):
        n = tls_close(peer.tls)
    if n == TLS_FAILED:
        peer_cut(peer)
        return
    peer.full = (tls_events(peer.tls) & POLLOUT) != 0


cdef pn_bytes_t output(Peer *peer) noexcept nogil:
    """Return what the engine has to write.

    Each further call with a full buffer makes the buffer larger, up to the peer's frame size.
    """
    cdef pn_bytes_t data = pn_connection_driver_write_buffer(&peer.driver)
    cdef size_t before = 0
    while before < data.size < WRITE_SIZE and data.size % ENGINE_BUFFER == 0:
        before = data.size
        data = pn_connection_driver_write_buffer(&peer.driver)
    return data


cdef bint peer_finished(Peer *peer) noexcept nogil:
    """Say whether nothing more will come or go on this connection."""
    if peer.tls != NULL and peer.full and not peer.cut:
        # The engine's last bytes may be with TLS still.
        return False
    return peer.cut or pn_connection_driver_finished(&peer.driver)


cdef void set_condition(
        pn_condition_t *condition, const char *name, const char *description) noexcept nogil:
    pn_condition_set_name(condition, name)
    pn_condition_set_description(condition, description)


cdef void peer_close(
        Peer *peer, const char *condition, const char *description) noexcept nogil:
    """Close the connection with a close frame, and an error unless ``condition`` is NULL."""
    if pn_connection_state(peer.driver.connection) & PN_LOCAL_CLOSED:
        return
    if not pn_connection_state(peer.driver.connection) & PN_LOCAL_ACTIVE:
        # A close must follow an open (part 2.4.3).
        pn_connection_open(peer.driver.connection)
    if condition != NULL:
        set_condition(
            pn_connection_condition(peer.driver.connection), condition, description)
    pn_connection_close(peer.driver.connection)
    peer_dirty(peer)


cdef void peer_refuse(
        Peer *peer, const char *condition, const char *description) noexcept nogil:
    """End a connection whose peer violated the protocol; unlike `peer_close`, at any stage.

    Before the peer's open frame, the engine writes a close only for an error of its own. So
    this sets one, and an early end of input.
    """
    set_condition(pn_transport_condition(peer.driver.transport), condition, description)
    pn_transport_close_tail(peer.driver.transport)
    peer_dirty(peer)


cdef void delivery_reject(
        pn_delivery_t *delivery, const char *name, const char *description) noexcept nogil:
    """Reject a delivery with a reason (part 3.4.3)."""
    set_condition(pn_disposition_condition(pn_delivery_local(delivery)), name, description)
    pn_delivery_update(delivery, PN_REJECTED)
    pn_delivery_settle(delivery)


cdef void link_refuse(Link *link, const char *name, const char *description) noexcept nogil:
    """Detach a link with an error (part 2.6.4)."""
    if not link.refused:
        link.refused = True
        set_condition(pn_link_condition(link.link), name, description)
        pn_link_close(link.link)
    peer_dirty(link.peer)
