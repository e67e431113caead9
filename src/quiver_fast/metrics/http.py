"""Serving metrics by HTTP, as OpenMetrics or as Prometheus' older text, in its own thread.

The thread never waits for one client: it serves all connections at once. A connection beyond
`_REQUESTS_MAX` ends the oldest one, so slow clients keep nobody else from the metrics.
"""

from __future__ import annotations

import contextlib
import re
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Any, Protocol

from quiver_fast.errors import PeerError, QuiverError
from quiver_fast.extras import how_to_install
from quiver_fast.resolving import resolve

LOOPBACK = "127.0.0.1"
"""The default host for metrics."""

# The connections that are served at once, and the time of each: for request and answer together.
_REQUESTS_MAX = 16
_REQUEST_SECONDS = 5.0
# The most bytes of a request's head, and of all input of a connection.
_HEAD_MAX = 16384
_INPUT_MAX = 65536
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
# How long to wait before accepting again, after a lack of descriptors.
_PAUSE_SECONDS = 0.1
# How long another thread waits for the interpreter while text is made, in seconds: the server's
# loop needs it now and then, and Python's default of 5 ms would show in its latencies.
_SWITCH_SECONDS = 0.0005
# The figures of the end stay for the next scrape, and for half an interval more: scrapes jitter.
_STAY = 1.5
# Nobody waits longer than that for a scrape.
_STAY_MOST = 60.0


class Collector(Protocol):
    """Makes the metrics of one request."""

    def collect(self) -> Iterable[Any]:
        """Return metric families of ``prometheus_client``.

        Raises:
            QuiverError: there are no figures now.
        """


class MetricsServer:
    """Answers ``GET /metrics`` until it is closed.

    Attributes:
        port: the port on which it listens.
    """

    def __init__(self, host: str, port: int, collector: Collector) -> None:
        """Begin to serve.

        Args:
            host: name or address to listen on.
            port: the port; 0 for any free one.
            collector: makes the metrics; the process's own are added.

        Raises:
            QuiverError: ``prometheus_client`` is not installed, or the address cannot be used.
        """
        self._registry = _registry(collector)
        self._socket = _listening(host, port)
        self._selector = selectors.PollSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._requests: list[_Request] = []
        self._closed = threading.Event()
        self._scraped = threading.Condition()
        self._scrapes: list[float] = []
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://{_shown(host)}:{self.port}/metrics"
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._closed.is_set():
            for key, _ in self._selector.select(self._seconds_left()):
                if key.data in self._requests:
                    self._go_on(key.data)
                elif key.data is None:
                    self._accept()
            while self._requests and self._requests[0].seconds_left() <= 0:
                self._end(self._requests[0])
        for request in self._requests:
            request.sock.close()
        self._socket.close()

    def _seconds_left(self) -> float | None:
        return max(self._requests[0].seconds_left(), 0) if self._requests else None

    def _accept(self) -> None:
        try:
            sock, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:
            # There is no descriptor left, or `close` was called.
            self._closed.wait(_PAUSE_SECONDS)
            return
        if len(self._requests) == _REQUESTS_MAX:
            self._end(self._requests[0])
        request = _Request(sock)
        self._requests.append(request)
        self._selector.register(sock, request.events, request)

    def _go_on(self, request: _Request) -> None:
        goes_on = False
        # Whatever is wrong with one request, the thread serves the others.
        with contextlib.suppress(Exception):
            goes_on = request.go_on(self._registry)
        if goes_on:
            self._selector.modify(request.sock, request.events, request)
        else:
            self._end(request)

    def _end(self, request: _Request) -> None:
        if request.answered and request.scraped:
            self._note_scrape()
        self._requests.remove(request)
        self._selector.unregister(request.sock)
        request.sock.close()

    def _note_scrape(self) -> None:
        with self._scraped:
            self._scrapes = [*self._scrapes[-1:], time.monotonic()]
            self._scraped.notify_all()

    @property
    def seconds_to_scrape(self) -> float:
        """How long the next scrape may take, by the interval of the last two; 0 before two."""
        with self._scraped:
            if len(self._scrapes) < 2:
                return 0.0
            before, last = self._scrapes
        left = last + _STAY * (last - before) - time.monotonic()
        return min(max(left, 0.0), _STAY_MOST)

    def wait_for_scrape(self, seconds: float) -> bool:
        """Wait until a client has the figures of now; return whether one came in ``seconds``."""
        with self._scraped:
            before = self._scrapes
            return self._scraped.wait_for(lambda: self._scrapes is not before, seconds)

    def close(self) -> None:
        """Answer no more."""
        self._closed.set()
        # Wakes the thread that waits for a connection.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class _Request:
    """A connection, which gets one answer.

    Args:
        sock: the connected socket.

    Attributes:
        events: those of its socket that it waits for.
        answered: whether the whole answer was written.
        scraped: whether it has the metrics.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.events = selectors.EVENT_READ
        self._until = time.monotonic() + _REQUEST_SECONDS
        self._input = bytearray()
        self._unsent = memoryview(b"")
        self.answered = self.scraped = False

    def seconds_left(self) -> float:
        """Return the time that request and answer may still take."""
        return self._until - time.monotonic()

    def go_on(self, registry: Any) -> bool:
        """Read or write once; return False at the end.

        Raises:
            OSError: the client has gone.
        """
        if self.events == selectors.EVENT_WRITE:
            self._write()
            return True
        piece = self.sock.recv(_HEAD_MAX)
        before = len(self._input)
        self._input += piece
        if self.answered:
            # Closing before the client does would destroy the answer.
            return bool(piece) and len(self._input) < _INPUT_MAX
        if piece and not _END_OF_HEAD.search(self._input, max(before - 3, 0)):
            return len(self._input) < _HEAD_MAX
        if self._input:
            answer, self.scraped = _answer(bytes(self._input), registry)
            self._unsent = memoryview(answer)
            self.events = selectors.EVENT_WRITE
        return bool(self._input)

    def _write(self) -> None:
        self._unsent = self._unsent[self.sock.send(self._unsent) :]
        if not self._unsent:
            self.sock.shutdown(socket.SHUT_WR)
            self.answered = True
            self.events = selectors.EVENT_READ


def _answer(request: bytes, registry: Any) -> tuple[bytes, bool]:
    """Return the answer to a request, and whether it has the metrics."""

    class Handler(_Handler):
        metrics = registry

    handler: Any = Handler
    made = handler(request, None, None)
    return made.wfile.getvalue(), made.scraped


def _encoder(accept: str) -> tuple[Any, str]:
    """Return what makes the text, and its type. A header that cannot be read counts as none."""
    from prometheus_client.exposition import choose_encoder

    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _registry(collector: Collector) -> Any:
    """Return a registry of ``collector`` and the process's own metrics."""
    try:
        from prometheus_client import CollectorRegistry, ProcessCollector
    except ImportError:
        remedy = how_to_install("metrics")
        raise QuiverError(f"--metrics-port needs prometheus_client: {remedy}") from None
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(collector)
    return registry


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, address = resolve(host, port, flags=socket.AI_PASSIVE)[0]
    except PeerError as error:
        raise QuiverError(f"--metrics-host: {error}") from None
    sock = None
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen()
    except OSError as error:
        if sock is not None:
            sock.close()
        raise QuiverError(
            f"cannot serve metrics on {_shown(host)}:{port}: {error.strerror}"
        ) from None
    sock.setblocking(False)
    return sock


class _Handler(BaseHTTPRequestHandler):
    """Makes the answer to one request, whose bytes are its ``request``."""

    metrics: Any
    scraped = False

    def setup(self) -> None:
        """Read from bytes, and write to bytes."""
        self.rfile = BytesIO(self.request)
        self.wfile = BytesIO()

    def finish(self) -> None:
        """Close nothing."""

    def do_GET(self) -> None:
        """Answer with the metrics."""
        if self.path.partition("?")[0] not in ("/", "/metrics"):
            self._answer(HTTPStatus.NOT_FOUND, b"metrics are at /metrics\n")
            return
        encode, content_type = _encoder(self.headers.get("Accept") or "")
        try:
            text = encode(self.metrics)
        except QuiverError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode())
            return
        self._answer(HTTPStatus.OK, text, content_type)
        self.scraped = self.command == "GET"

    # The answer to HEAD is that to GET without its content (RFC 9110, 9.3.2).
    do_HEAD = do_GET  # noqa: N815  # the name that the base class looks for

    def _refuse_method(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"metrics are read with GET\n")

    do_OPTIONS = do_POST = do_PUT = do_PATCH = do_DELETE = _refuse_method  # noqa: N815  # likewise

    def _answer(
        self, status: HTTPStatus, text: bytes, content_type: str = "text/plain; charset=utf-8"
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(text)))
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            # RFC 9110, 15.5.6.
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def log_message(self, *_arguments: Any) -> None:
        """Write no log of requests."""
