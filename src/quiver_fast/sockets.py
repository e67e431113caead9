"""TCP sockets for an arrow: it connects, or accepts one peer."""

from __future__ import annotations

import errno
import os
import select
import socket
import time

from quiver_fast.arguments import endpoint
from quiver_fast.arrow.run.control import Control
from quiver_fast.errors import PeerError
from quiver_fast.loop import interrupt


def _wait(fds: list[tuple[int, int]], deadline: float | None) -> bool:
    """Wait for one of the descriptors; return False after the deadline (monotonic).

    Raises:
        SignalError: a signal came.
    """
    poller = select.poll()
    for fd, events in fds:
        poller.register(fd, events)
    if interrupt.wake_fd() >= 0:
        poller.register(interrupt.wake_fd(), select.POLLIN)
    rest = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
    ready = poller.poll(rest)
    interrupt.raise_if_pending()
    return bool(ready)


def _tune(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    # With Nagle's algorithm we measured a tenth of the throughput.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def resolve(host: str, port: int, flags: int = 0) -> list[tuple[int, tuple[object, ...]]]:
    """Return the addresses of ``host`` as (family, address for the socket).

    Raises:
        PeerError: the name does not resolve.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else "not a host name"
        raise PeerError(f"cannot resolve host '{host}': {reason}") from None
    return [(family, address) for family, _, _, _, address in found]


def _connect_one(family: int, address: tuple[object, ...], deadline: float) -> socket.socket:
    sock = begin_connect(family, address)
    try:
        if not _wait([(sock.fileno(), select.POLLOUT)], deadline):
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


def connect(host: str, port: int, timeout: float) -> socket.socket:
    """Connect to the first address of ``host`` that answers within ``timeout`` seconds.

    Raises:
        PeerError: the name does not resolve, or no address answers.
        SignalError: a signal came.
    """
    deadline = time.monotonic() + timeout
    reason = "no address"
    for family, address in resolve(host, port):
        try:
            return _connect_one(family, address, deadline)
        except OSError as error:
            reason = error.strerror or str(error)
    raise PeerError(f"cannot connect to {endpoint(host, port)}: {reason}")


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
    for family, address in resolve(host, port, socket.AI_PASSIVE):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(backlog)
            sock.setblocking(False)
        except OSError as error:
            sock.close()
            # On a host without IPv6 the other address is enough.
            if error.errno == errno.EADDRNOTAVAIL and listeners:
                continue
            for other in listeners:
                other.close()
            raise PeerError(f"cannot listen on {endpoint(host, port)}: {error.strerror}") from None
        listeners.append(sock)
    return listeners


def _accept_first(
    listeners: list[socket.socket], deadline: float | None, patience: float, control: Control
) -> socket.socket | None:
    while not control.stopped:
        descriptors = [each.fileno() for each in listeners]
        if control.fileno() >= 0:
            descriptors.append(control.fileno())
        if not _wait([(each, select.POLLIN) for each in descriptors], deadline):
            break
        control.read()
        interrupt.raise_if_pending()
        for listener in listeners:
            try:
                sock, _ = listener.accept()
            except OSError:
                continue
            silent_until = time.monotonic() + patience
            if _wait([(sock.fileno(), select.POLLIN)], silent_until) and has_spoken(sock):
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
    """Return a free TCP port of ``host``. Another process may take it at any time."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
