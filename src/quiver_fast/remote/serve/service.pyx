"""The queue protocol on sockets: connections of the server's loop (B.1, B.9).

    reactor ── ready ──> Peer.read ──> Session.feed ──> output, marked dirty
            ── turn  ──> Store.turn (waits, syncs) ──> send to all that are dirty ──> bury

All requests of one turn of the loop are answered before anything is sent, so replies to
many requests leave in one write.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EAGAIN, ECONNABORTED, EINTR, errno
from libc.limits cimport INT_MAX
from libc.stdint cimport INT64_MAX, int64_t, uint32_t
from libc.stdlib cimport free, malloc
from posix.unistd cimport close

import os

from quiver_fast.loop.memory cimport (
    OVER_LIMIT, Holder, account, holder_add, holder_end, memory_ever_fits, memory_fits,
)
from quiver_fast.loop.reactor cimport Reactor, Watch, watch_add, watch_change, watch_remove
from quiver_fast.proton.libsys cimport (
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, IPPROTO_TCP, MSG_DONTWAIT, MSG_NOSIGNAL, SHUT_WR,
    SO_KEEPALIVE, SOL_SOCKET, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_NODELAY, monotonic_ns,
    recv, send, setsockopt, shutdown,
)
from quiver_fast.queuefile.reserve cimport accept_connection
from quiver_fast.remote.serve.outbox cimport ROOM, ROOM_LATER, ROOM_NEVER, Room
from quiver_fast.remote.serve.reply cimport REJECTED
from quiver_fast.remote.serve.session cimport Session
from quiver_fast.remote.serve.store cimport Store
from quiver_fast.remote.serve.target cimport Target, Wait
from quiver_fast.remote.wire.buffer cimport discard, pending

cdef size_t SCRATCH = 262144
cdef int64_t SECOND = 1000000000
# A peer with more unread replies is cut without a reason, which it would not read either.
cdef size_t UNREAD = 65536
# How long a peer may take to close after us.
cdef int64_t LINGER = 2 * SECOND
# So many probes without an answer end a connection; and the most seconds before a probe.
cdef int PROBES = 3
cdef int KEEPALIVE_MAX = 32767
# How long to wait before accepting again, after a lack of descriptors.
cdef int64_t NO_DESCRIPTORS_PAUSE = SECOND // 10


cdef class Peer(Session):
    """One connection. Made by a Service, and owned by it until it is buried."""

    cdef void output_ready(self) noexcept nogil:
        # Counted at once, because other sessions answer in the same turn.
        self.count_held()
        if not self.dirty:
            self.dirty = True
            self.next_dirty = (<Service>self.service).dirty
            (<Service>self.service).dirty = <void *>self

    cdef void read(self, char *scratch, int64_t now) noexcept nogil:
        """Read once, because other peers need their turn."""
        cdef ssize_t size
        if not (self.may_read() or self.lingering):
            return
        size = recv(self.watch.fd, scratch, SCRATCH, MSG_DONTWAIT)
        if size > 0:
            if not self.lingering:
                self.feed(scratch, size, now)
        elif size == 0:
            self.end_of_input(now)
            self.cut = self.lingering
        elif errno != EAGAIN and errno != EINTR:
            self.cut = True

    cdef bint may_read(self) noexcept nogil:
        return self.wants_input() and not self.holder.slowed

    cdef void count_held(self) noexcept nogil:
        """Count the memory of unread documents, unsent replies, targets and waiting requests.

        A request that waits may have a target of its own.
        """
        cdef size_t targets = self.targets.count + self.implicit_count + self.wait_count
        cdef size_t bytes = (
            self.input.capacity + self.output.capacity + self.held.capacity + self.marks.capacity
            + self.csp_text.capacity + targets * sizeof(Target) + self.wait_count * sizeof(Wait))
        if bytes != self.holder.bytes:
            holder_add(&self.holder, <int64_t>(bytes - self.holder.bytes))

    cdef Room room_for(self, size_t size) noexcept nogil:
        self.count_held()
        if memory_fits(size):
            return ROOM
        if not memory_ever_fits(size):
            return ROOM_NEVER
        (<Service>self.service).starve(<void *>self, size)
        return ROOM_LATER

    cdef bint send_some(self) noexcept nogil:
        """Send as much as the socket takes; say whether it took anything."""
        cdef ssize_t size
        cdef size_t before = pending(&self.output)
        while pending(&self.output) > 0:
            size = send(self.watch.fd, self.output.memory + self.output.start,
                        pending(&self.output), MSG_DONTWAIT | MSG_NOSIGNAL)
            if size < 0 and errno == EINTR:
                continue
            if size < 0:
                self.cut = self.cut or errno != EAGAIN
                break
            discard(&self.output, size)
        return pending(&self.output) < before

    cdef void linger(self, int64_t now) noexcept nogil:
        """Close our side. Closing both would destroy unread replies."""
        if self.lingering or self.cut:
            return
        if self.input_over:
            self.cut = True
            return
        shutdown(self.watch.fd, SHUT_WR)
        self.lingering = True
        self.linger_until = now + LINGER

    cdef void wait_for_events(self, int epoll) noexcept nogil:
        cdef uint32_t events = 0
        if self.may_read() or self.lingering:
            events = EPOLLIN
        if pending(&self.output) > 0:
            events |= EPOLLOUT
        if events != self.events:
            self.events = events
            watch_change(epoll, &self.watch, events)


cdef void on_peer(Watch *watch, uint32_t events) noexcept nogil:
    cdef void *peer = watch.owner
    cdef void *service = (<Peer>peer).service
    if (<Peer>peer).cut:
        return
    if events & EPOLLIN:
        (<Peer>peer).read((<Service>service).scratch, (<Service>service).reactor.now)
    elif events & (EPOLLERR | EPOLLHUP):
        # Both directions are gone: no reply can reach the peer.
        (<Peer>peer).cut = True
    (<Peer>peer).output_ready()


cdef void slow(Holder *holder) noexcept nogil:
    # Writing to the peer sets its events.
    (<Peer>holder.owner).output_ready()


cdef void refuse(Holder *holder) noexcept nogil:
    """Close a connection that holds too much, with the reason if it is still reading."""
    cdef void *peer = holder.owner
    (<Peer>peer).fatal(REJECTED, OVER_LIMIT)
    (<Peer>peer).cut = pending(&(<Peer>peer).output) > UNREAD
    (<Peer>peer).output_ready()


cdef void set_option(int fd, int level, int option, int value) noexcept nogil:
    setsockopt(fd, level, option, &value, sizeof(value))


cdef void keep_alive(int fd, int seconds) noexcept nogil:
    """Let the system end a connection whose peer has gone without a word, after twice the time.

    A tailer that waits is silent, and the server sends no heartbeats (B.4).
    """
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1)
    if seconds:
        set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, min(seconds, KEEPALIVE_MAX))
        set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, min(max(seconds // PROBES, 1), KEEPALIVE_MAX))
        set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES)


cdef class Door:
    """A listening socket of a service."""


cdef void on_door(Watch *watch, uint32_t events) noexcept nogil:
    cdef void *door = watch.owner
    cdef void *service = (<Door>door).service
    cdef int fd
    while True:
        fd = accept_connection(watch.fd)
        if fd < 0 and (errno == EINTR or errno == ECONNABORTED):
            continue
        if fd < 0 and errno != EAGAIN:
            # No descriptor is left: the kernel keeps the others waiting, and we must not spin.
            watch_change((<Service>service).reactor.epoll, watch, 0)
            (<Service>service).paused = (<Service>service).paused + 1
            (<Door>door).closed_until = (<Service>service).reactor.now + NO_DESCRIPTORS_PAUSE
        if fd < 0:
            return
        with gil:
            (<Service>service).add_peer(fd)


cdef int64_t on_turn(void *owner, int64_t now) noexcept nogil:
    return (<Service>owner).turn(now)


cdef class Service:
    """The queue protocol for all connections of one loop.

    Args:
        reactor: the loop.
        store: the queues.
        max_connections: the most connections; further sockets are closed.
        idle_timeout: the seconds of silence after which the system asks whether a peer is still
            there; 0 for the system's own.
    """

    def __cinit__(self) -> None:
        self.scratch = <char *>malloc(SCRATCH)
        if self.scratch == NULL:
            raise MemoryError("no memory for a read buffer")

    def __init__(self, reactor: Reactor, store: Store, *, max_connections: int = INT_MAX,
                 idle_timeout: int = 0) -> None:
        self.idle_seconds = idle_timeout
        self.reactor = reactor
        self.store = store
        self.max_connections = max_connections
        self.doors = []
        self.hook.owner = <void *>self
        self.hook.turn = on_turn
        reactor.add_hook(&self.hook)

    def __dealloc__(self) -> None:
        free(self.scratch)

    def listen(self, sock: "socket.socket") -> None:
        """Accept connections of ``sock``, a listening socket, which the service then owns.

        Raises:
            OSError: the system refused to watch it.
        """
        cdef Door door = Door()
        sock.setblocking(False)
        door.sock = sock
        door.service = <void *>self
        door.watch.fd = sock.fileno()
        door.watch.owner = <void *>door
        door.watch.ready = on_door
        if watch_add(self.reactor.epoll, &door.watch, EPOLLIN) != 0:
            raise OSError(errno, f"epoll: {os.strerror(errno)}")
        self.doors.append(door)

    def close(self) -> None:
        """Accept no more connections; answer all requests, and close the connections."""
        cdef Door door
        cdef void *peer = self.peers
        cdef int64_t deadline = monotonic_ns() + LINGER
        for door in self.doors:
            watch_remove(self.reactor.epoll, &door.watch)
            door.sock.close()
        self.doors = []
        while peer != NULL:
            (<Peer>peer).end_of_input(self.reactor.now)
            peer = (<Peer>peer).next
        with nogil:
            self.store.finish_syncs()
            self.turn(self.reactor.now)
            while self.peers != NULL and monotonic_ns() < deadline:
                self.reactor.turn(min(deadline, self.reactor.round()))
            while self.peers != NULL:
                self.bury(self.peers)

    cdef int64_t turn(self, int64_t now) noexcept nogil:
        """End a turn: answer waiting requests, send, bury; return the time of the next call."""
        cdef int64_t due = self.store.turn(now)
        self.settle_dirty(now)
        self.feed_starving(now)
        self.end_lingering(now)
        if self.dirty != NULL or self.store.grown != NULL:
            return now
        if self.oldest != NULL:
            due = min(due, (<Peer>self.oldest).linger_until)
        return min(due, self.reopen_doors(now))

    cdef void settle_dirty(self, int64_t now) noexcept nogil:
        cdef void *peer = self.dirty
        cdef void *following
        self.dirty = NULL
        while peer != NULL:
            following = (<Peer>peer).next_dirty
            (<Peer>peer).dirty = False
            self.settle(peer, now)
            peer = following

    cdef void settle(self, void *peer, int64_t now) noexcept nogil:
        """Send a peer's output, resume it if it was stopped, and check for its end."""
        if not (<Peer>peer).cut and ((<Peer>peer).send_some() or (<Peer>peer).relieved):
            (<Peer>peer).relieved = False
            (<Peer>peer).drained(now)
            if pending(&(<Peer>peer).output) > 0:
                (<Peer>peer).output_ready()
        if not (<Peer>peer).cut and (<Peer>peer).is_over():
            self.start_lingering(peer, now)
        if (<Peer>peer).cut or (<Peer>peer).broken:
            self.bury(peer)
        else:
            (<Peer>peer).count_held()
            (<Peer>peer).wait_for_events(self.reactor.epoll)

    cdef void start_lingering(self, void *peer, int64_t now) noexcept nogil:
        if (<Peer>peer).lingering:
            return
        (<Peer>peer).linger(now)
        if not (<Peer>peer).lingering:
            return
        (<Peer>peer).older = self.youngest
        if self.youngest != NULL:
            (<Peer>self.youngest).younger = peer
        else:
            self.oldest = peer
        self.youngest = peer

    cdef void starve(self, void *peer, size_t wanted) noexcept nogil:
        """Resume a peer when other connections have freed so much memory."""
        (<Peer>peer).wanted = wanted
        if (<Peer>peer).starving:
            return
        (<Peer>peer).starving = True
        (<Peer>peer).next_starving = NULL
        (<Peer>peer).previous_starving = self.last_starving
        if self.last_starving != NULL:
            (<Peer>self.last_starving).next_starving = peer
        else:
            self.starving = peer
        self.last_starving = peer
        account.starving += 1

    cdef void feed_starving(self, int64_t now) noexcept nogil:
        """Resume, in turn, the peers for which there is memory now."""
        cdef void *peer = self.starving
        while peer != NULL and (account.forced or memory_fits((<Peer>peer).wanted)):
            self.unlink_starving(peer)
            account.fed = True
            (<Peer>peer).drained(now)
            (<Peer>peer).output_ready()
            peer = self.starving

    cdef void unlink_starving(self, void *peer) noexcept nogil:
        cdef void *previous = (<Peer>peer).previous_starving
        cdef void *following = (<Peer>peer).next_starving
        if not (<Peer>peer).starving:
            return
        (<Peer>peer).starving = False
        account.starving -= 1
        if previous != NULL:
            (<Peer>previous).next_starving = following
        else:
            self.starving = following
        if following != NULL:
            (<Peer>following).previous_starving = previous
        else:
            self.last_starving = previous

    cdef void end_lingering(self, int64_t now) noexcept nogil:
        while self.oldest != NULL and (<Peer>self.oldest).linger_until <= now:
            self.bury(self.oldest)

    cdef int64_t reopen_doors(self, int64_t now) noexcept nogil:
        """Accept again after a pause; return the end of the next pause."""
        if self.paused == 0:
            return INT64_MAX
        with gil:
            return self.reopen(now)

    cdef int64_t reopen(self, int64_t now) noexcept:
        cdef int64_t due = INT64_MAX
        cdef Door door
        for door in self.doors:
            if 0 < door.closed_until <= now:
                door.closed_until = 0
                self.paused -= 1
                watch_change(self.reactor.epoll, &door.watch, EPOLLIN)
            elif door.closed_until:
                due = min(due, door.closed_until)
        return due

    cdef int add_peer(self, int fd) noexcept:
        """Make a peer of a connected socket; close it after a failure."""
        cdef Peer peer
        if self.count >= self.max_connections:
            close(fd)
            return 0
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1)
        keep_alive(fd, self.idle_seconds)
        try:
            peer = Peer(self.store)
        except MemoryError:
            close(fd)
            return 0
        peer.service = <void *>self
        peer.watch.fd = fd
        peer.watch.owner = <void *>peer
        peer.watch.ready = on_peer
        peer.events = EPOLLIN
        peer.holder.owner = <void *>peer
        peer.holder.slow = slow
        peer.holder.refuse = refuse
        if watch_add(self.reactor.epoll, &peer.watch, EPOLLIN) != 0:
            close(fd)
            return 0
        Py_INCREF(peer)
        peer.next = self.peers
        if self.peers != NULL:
            (<Peer>self.peers).previous = <void *>peer
        self.peers = <void *>peer
        self.count += 1
        return 0

    cdef void bury(self, void *peer) noexcept nogil:
        """Close a peer's socket and free its memory."""
        watch_remove(self.reactor.epoll, &(<Peer>peer).watch)
        close((<Peer>peer).watch.fd)
        (<Peer>peer).free_all()
        (<Peer>peer).count_held()
        holder_end(&(<Peer>peer).holder)
        self.unlink(peer)
        with gil:
            Py_DECREF(<Peer>peer)

    cdef void unlink(self, void *peer) noexcept nogil:
        """Remove a peer from all lists."""
        cdef void **place = &self.dirty
        cdef void *previous = (<Peer>peer).previous
        cdef void *following = (<Peer>peer).next
        self.count -= 1
        if previous != NULL:
            (<Peer>previous).next = following
        else:
            self.peers = following
        if following != NULL:
            (<Peer>following).previous = previous
        if (<Peer>peer).dirty:
            while place[0] != peer:
                place = &(<Peer>place[0]).next_dirty
            place[0] = (<Peer>peer).next_dirty
        if (<Peer>peer).lingering:
            self.unlink_lingering(peer)
        self.unlink_starving(peer)

    cdef void unlink_lingering(self, void *peer) noexcept nogil:
        cdef void *older = (<Peer>peer).older
        cdef void *younger = (<Peer>peer).younger
        if older != NULL:
            (<Peer>older).younger = younger
        else:
            self.oldest = younger
        if younger != NULL:
            (<Peer>younger).older = older
        else:
            self.youngest = older
