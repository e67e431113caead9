"""TCP sockets for an arrow: it connects, or accepts one peer."""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import zip_longest

from quiver_fast.arguments import endpoint
from quiver_fast.arrow.run.control import Control
from quiver_fast.errors import PeerError
from quiver_fast.loop import interrupt
from quiver_fast.resolving import Address, resolve, wait

# The delay of a connection attempt (RFC 8305, section 5), in seconds.
_ATTEMPT_DELAY = 0.25
# Errors of an address that this machine does not have.
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def _tune(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    # With Nagle's algorithm we measured a tenth of the throughput.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Race:
    """Connects to the first of some addresses that answers.

    An attempt begins when the one before it fails, or 250 ms after its begin, and the families
    take turns (RFC 8305, sections 4 and 5).

    Attributes:
        due: when the next attempt begins (monotonic seconds); infinity without one.
    """

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._left = _in_turns(addresses)
        self._attempts: dict[int, socket.socket] = {}
        self._error = OSError(errno.EADDRNOTAVAIL, "no address")
        self._epoll = select.epoll()
        self.due = 0.0

    def fileno(self) -> int:
        """Return a descriptor that is readable when an attempt has ended."""
        return self._epoll.fileno()

    def step(self) -> socket.socket | None:
        """Return the socket that is connected, if there is one; else begin what is due.

        Raises:
            OSError: the last attempt has failed.
        """
        for fd, _ in self._epoll.poll(0):
            if sock := self._connected(fd):
                return sock
        while self._left and (not self._attempts or time.monotonic() >= self.due):
            self._begin(self._left.pop(0))
        if not self._attempts:
            raise self._error
        return None

    def close(self) -> None:
        """Give up all attempts."""
        for sock in self._attempts.values():
            sock.close()
        self._attempts = {}
        self._epoll.close()

    def _begin(self, place: Address) -> None:
        self.due = time.monotonic() + _ATTEMPT_DELAY if self._left else math.inf
        try:
            sock = begin_connect(*place)
        except OSError as error:
            self._error = error
            return
        self._attempts[sock.fileno()] = sock
        self._epoll.register(sock, select.EPOLLOUT)

    def _connected(self, fd: int) -> socket.socket | None:
        """Take the socket of an attempt that has ended; return it if it is connected."""
        self._epoll.unregister(fd)
        sock = self._attempts.pop(fd)
        if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            sock.close()
            self._error = OSError(code, os.strerror(code))
            return None
        return sock


def _in_turns(addresses: Sequence[Address]) -> list[Address]:
    """Return the addresses in their order, but those of both families in turns."""
    firsts = [one for one in addresses if one[0] == addresses[0][0]]
    others = [one for one in addresses if one[0] != addresses[0][0]]
    return [one for pair in zip_longest(firsts, others) for one in pair if one]


def connect(host: str, port: int, timeout: float) -> socket.socket:
    """Connect to the first address of ``host`` that answers within ``timeout`` seconds.

    Raises:
        PeerError: the name does not resolve, or no address answers.
        SignalError: a signal came.
    """
    deadline = time.monotonic() + timeout
    addresses = resolve(host, port, timeout=timeout)
    return connect_to(addresses, endpoint(host, port), deadline)


def connect_to(addresses: Sequence[Address], place: str, deadline: float) -> socket.socket:
    """Connect to the first of some addresses that answers until ``deadline`` (monotonic).

    Args:
        addresses: see :func:`resolve`.
        place: the name of the host and port in messages.
        deadline: when to give up (monotonic seconds).

    Raises:
        PeerError: none answers.
        SignalError: a signal came.
    """
    with closing(Race(addresses)) as race:
        try:
            while (sock := race.step()) is None:
                if time.monotonic() >= deadline:
                    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
                fds = [(race.fileno(), select.POLLIN)]
                wait(fds, min(deadline, race.due), f"connecting to {place}")
        except OSError as error:
            reason = error.strerror or str(error)
            raise PeerError(f"cannot connect to {place}: {reason}") from None
    return sock


def begin_connect(family: int, address: tuple[object, ...]) -> socket.socket:
    """Return a socket that begins to connect; it becomes writable on success and on failure.

    Raises:
        OSError: it fails at once.
    """
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        _tune(sock)
        code = sock.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


def peer_address(sock: socket.socket) -> dict[str, str | int | None]:
    """Return the address and the port of the peer; each is None if the peer is gone."""
    try:
        address, port = sock.getpeername()[:2]
    except OSError:
        return {"address": None, "port": None}
    return {"address": address, "port": port}


def take_peers(listener: socket.socket, most: int) -> list[socket.socket]:
    """Accept the peers that wait, at most ``most``."""
    peers: list[socket.socket] = []
    while len(peers) < most:
        try:
            sock, _ = listener.accept()
        except OSError:
            break
        peers.append(_tune(sock))
    return peers


def has_spoken(sock: socket.socket) -> bool | None:
    """Say whether a peer sent its first byte; None if it may still do so.

    A probe of the port closes without sending one.
    """
    try:
        return sock.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return None
    except OSError:
        return False


def listen(host: str, port: int, backlog: int = 8) -> list[socket.socket]:
    """Listen on every address of ``host``: a name may have addresses of IPv4 and IPv6.

    Args:
        host: name or address; empty for all of this machine's.
        port: port to listen on.
        backlog: connections that may wait to be accepted.

    Raises:
        PeerError: the name does not resolve, or the address cannot be used.
    """
    listeners: list[socket.socket] = []
    reason: OSError | None = None
    for family, address in resolve(host, port, flags=socket.AI_PASSIVE):
        try:
            listeners.append(_listening(family, address, backlog))
        except OSError as error:
            reason = error
            # On a host without IPv6, or without IPv4, the other address is enough.
            if error.errno not in _ABSENT:
                break
    if reason is not None and (not listeners or reason.errno not in _ABSENT):
        for other in listeners:
            other.close()
        raise PeerError(f"cannot listen on {endpoint(host, port)}: {reason.strerror}")
    return listeners


def _listening(family: int, address: tuple[object, ...], backlog: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _accept_first(
    listeners: list[socket.socket], deadline: float | None, patience: float, control: Control
) -> socket.socket | None:
    while not control.stopped:
        descriptors = [each.fileno() for each in listeners]
        if control.fileno() >= 0:
            descriptors.append(control.fileno())
        if not wait([(each, select.POLLIN) for each in descriptors], deadline):
            break
        control.read()
        interrupt.raise_if_pending()
        for listener in listeners:
            try:
                sock, _ = listener.accept()
            except OSError:
                continue
            silent_until = time.monotonic() + patience
            if wait([(sock.fileno(), select.POLLIN)], silent_until) and has_spoken(sock):
                return _tune(sock)
            sock.close()
    return None


def accept(
    host: str, port: int, timeout: float | None, patience: float, control: Control
) -> socket.socket:
    """Listen on ``host`` and return the first peer that speaks, refusing all later ones.

    Args:
        host: name or address to listen on.
        port: port to listen on.
        timeout: seconds to wait for a peer; None for ever.
        patience: seconds that a connected peer may stay silent.
        control: the wrapper's socket; a stop from it ends the wait.

    Raises:
        PeerError: the address cannot be used, no peer came in time, or the wrapper said stop.
        SignalError: a signal came.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    listeners = listen(host, port)
    try:
        sock = _accept_first(listeners, deadline, patience, control)
    finally:
        for listener in listeners:
            listener.close()
    if sock is None and control.stopped:
        raise PeerError(f"told to stop before a peer connected to {endpoint(host, port)}")
    if sock is None:
        raise PeerError(f"no peer connected to {endpoint(host, port)} within {timeout:g} s")
    return sock


def free_port(host: str = "localhost") -> int:
    """Return a free TCP port of ``host``. Another process may take it at any time.

    Raises:
        PeerError: the host has no address on this machine.
    """
    listeners = listen(host, 0)
    try:
        return int(listeners[-1].getsockname()[1])
    finally:
        for one in listeners:
            one.close()
