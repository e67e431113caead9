"""TCP peers that break the network on purpose."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator

import psutil
import pytest

CHUNK = 65536
POLL_SECONDS = 0.05


class TcpServer:
    """Runs a function for each accepted connection, one after the other.

    Args:
        serve: Called with the connected socket; it is closed afterwards. It must
            return soon after `stopping` is set.
    """

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self.stopping = threading.Event()
        self.accepted = 0
        self.error: BaseException | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(POLL_SECONDS)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> TcpServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._thread.join(10)
        self._listener.close()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            self.accepted += 1
            connection.settimeout(10)
            try:
                with connection:
                    self._serve(connection)
            except (ConnectionError, EOFError):
                continue  # The arrow went away; its own exit is what the test judges.
            except BaseException as error:
                self.error = error


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Read `size` bytes.

    Raises:
        EOFError: The peer closed first.
    """
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def reset(connection: socket.socket) -> None:
    """Close with RST instead of FIN: SO_LINGER with a time of zero."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def splice(
    left: socket.socket,
    right: socket.socket,
    stopping: threading.Event,
    limit: int | None = None,
) -> bool:
    """Copy bytes both ways until one side closes.

    Args:
        left: One connection.
        right: The other.
        stopping: Ends the copying when set.
        limit: Bytes to copy, both ways together, before returning.

    Returns:
        True when the limit was reached.
    """
    other = {left: right, right: left}
    copied = 0
    while not stopping.is_set():
        for source in select.select([left, right], [], [], POLL_SECONDS)[0]:
            data = source.recv(CHUNK)
            if not data:
                return False
            other[source].sendall(data)
            copied += len(data)
            if limit is not None and copied >= limit:
                return True
    return False


@contextlib.contextmanager
def breaking_proxy(target: int, after: int, how: str) -> Iterator[TcpServer]:
    """Stand between an arrow and a peer, and break the connection mid-run.

    Args:
        target: Port of the peer.
        after: Bytes to let through before.
        how: `fin`, `rst`, or `silence`: keep the connection open and pass nothing on.
    """

    def serve(connection: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", target), 10) as backend:
            broken = splice(connection, backend, server.stopping, after)
            if broken and how == "rst":
                reset(connection)
            elif broken and how == "silence":
                server.stopping.wait(30)

    with TcpServer(serve) as server:
        yield server


@contextlib.contextmanager
def silent_server(greeting: bytes = b"") -> Iterator[TcpServer]:
    """Accept, write a greeting, and keep quiet until the arrow leaves."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(greeting)
        while not server.stopping.is_set():
            if select.select([connection], [], [], POLL_SECONDS)[0] and not connection.recv(CHUNK):
                return

    with TcpServer(serve) as server:
        yield server


@contextlib.contextmanager
def tls_server(cert: str, key: str) -> Iterator[TcpServer]:
    """Do TLS with a certificate, and keep quiet; take as many connections as come."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    def serve(connection: socket.socket) -> None:
        # A client that refuses the certificate ends the handshake: that is the point.
        with (
            contextlib.suppress(ssl.SSLError),
            context.wrap_socket(connection, server_side=True) as wrapped,
        ):
            wrapped.recv(CHUNK)

    with TcpServer(serve) as server:
        yield server


def closed_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def other_address() -> str:
    """Return an address of this machine that is not the loopback interface's, or skip."""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family == socket.AF_INET and not each.address.startswith("127."):
                return each.address
    pytest.skip("this machine has only its loopback interface")
