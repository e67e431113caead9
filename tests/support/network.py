"""TCP peers that break the network on purpose."""

from __future__ import annotations

import contextlib
import math
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil
import pytest

CHUNK = 65536
POLL_SECONDS = 0.05
# How soon a proxy notices a test's request.
PROXY_SECONDS = 0.01


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
            connection.settimeout(60)
            try:
                with connection:
                    self._serve(connection)
            except (ConnectionError, EOFError):
                continue  # The arrow went away; the test judges its exit code.
            except BaseException as error:
                self.error = error


def reset(connection: socket.socket) -> None:
    """Close with RST instead of FIN: SO_LINGER with a time of zero."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def splice(left: socket.socket, right: socket.socket, stopping: threading.Event) -> None:
    """Copy bytes both ways until one side closes, or ``stopping`` is set."""
    other = {left: right, right: left}
    while not stopping.is_set():
        for source in select.select([left, right], [], [], POLL_SECONDS)[0]:
            data = source.recv(CHUNK)
            if not data:
                return
            other[source].sendall(data)


@dataclass
class Passage:
    """A connection through a proxy.

    Attributes:
        ends: the client's socket and the server's.
        unsent: the unsent bytes for each of them.
        passed: bytes so far, both ways.
        due: when the next may pass (monotonic seconds); infinity for never.
        broken: the way of its cut.
    """

    ends: tuple[socket.socket, socket.socket]
    unsent: dict[socket.socket, bytes]
    passed: int = 0
    due: float = 0.0
    broken: str = ""


class Proxy:
    """Stands between clients and a server, and delays, stalls or cuts the bytes.

    It holds no more than one piece each way: a side that does not read stops the other side.

    Args:
        target: port of the server.
        pause: seconds in which nothing passes after each ``every`` bytes of a connection.
        every: as said; 0 for no pauses.
        after: bytes after which a connection breaks; None for never.
        how: `fin`, `rst`, or `silence`: both stay connected, and nothing passes.
    """

    def __init__(
        self,
        target: int,
        *,
        pause: float = 0.0,
        every: int = 0,
        after: int | None = None,
        how: str = "fin",
    ) -> None:
        self._target = target
        self._pause, self._every = pause, every
        self._after, self._how = after, how
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.passages: list[Passage] = []
        self.accepted = 0
        # Whether new connections are passed on; otherwise they wait.
        self.accepting = True
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(10)
        self._listener.close()
        for passage in self.passages:
            self._end(passage)

    def cut(self, how: str, *passages: Passage) -> None:
        """Break some connections, or all, in one of the ways of `how`."""
        for passage in passages or list(self.passages):
            passage.broken = how

    def resume(self) -> None:
        """Let silent connections go on."""
        for passage in list(self.passages):
            passage.broken, passage.due = "", 0.0

    def _run(self) -> None:
        while not self._stopping.is_set():
            now = time.monotonic()
            for passage in [each for each in self.passages if each.broken]:
                self._break(passage)
            reading, writing = [self._listener] * self.accepting, []
            for passage in self.passages:
                if passage.due <= now:
                    left, right = passage.ends
                    reading += [
                        a for a, b in ((left, right), (right, left)) if not passage.unsent[b]
                    ]
                    writing += [end for end in passage.ends if passage.unsent[end]]
            wait = min(
                [each.due - now for each in self.passages if each.due > now] + [PROXY_SECONDS]
            )
            readable, writable, _ = select.select(reading, writing, [], wait)
            if self._listener in readable:
                self._accept()
            for passage in list(self.passages):
                self._pass(passage, readable, writable)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        self.accepted += 1
        try:
            server = socket.create_connection(("127.0.0.1", self._target), 10)
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.passages.append(Passage((client, server), {client: b"", server: b""}))

    def _pass(
        self, passage: Passage, readable: list[socket.socket], writable: list[socket.socket]
    ) -> None:
        try:
            for source, goal in (passage.ends, passage.ends[::-1]):
                if source in readable:
                    data = source.recv(CHUNK)
                    if not data:
                        raise EOFError
                    passage.unsent[goal] = data
                if passage.unsent[goal] and (goal in writable or source in readable):
                    with contextlib.suppress(BlockingIOError):
                        self._count(passage, goal.send(passage.unsent[goal]), goal)
        except (OSError, EOFError):
            self._end(passage)

    def _count(self, passage: Passage, size: int, goal: socket.socket) -> None:
        passage.unsent[goal] = passage.unsent[goal][size:]
        before = passage.passed
        passage.passed += size
        if self._every and before // self._every != passage.passed // self._every:
            passage.due = time.monotonic() + self._pause
        if self._after is not None and passage.passed >= self._after:
            passage.broken = self._how

    def _break(self, passage: Passage) -> None:
        if passage.broken == "silence":
            passage.due = math.inf
        else:
            self._end(passage, passage.broken)

    def _end(self, passage: Passage, how: str = "fin") -> None:
        self.passages.remove(passage)
        for end in passage.ends:
            if how == "rst":
                reset(end)
            else:
                end.close()


def breaking_proxy(target: int, after: int, how: str) -> Proxy:
    """Stand between an arrow and a peer, and break the connection mid-run; as of `Proxy`."""
    return Proxy(target, after=after, how=how)


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


def other_address() -> str:
    """Return an address of this machine that is not the loopback interface's, or skip."""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family == socket.AF_INET and not each.address.startswith("127."):
                return each.address
    pytest.skip("this machine has only its loopback interface")
