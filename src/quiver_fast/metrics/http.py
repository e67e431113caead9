"""Serving metrics by HTTP, as OpenMetrics or as Prometheus' older text, in its own thread."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Protocol

from quiver_fast.errors import QuiverError
from quiver_fast.extras import how_to_install

LOOPBACK = "127.0.0.1"
"""The default host for metrics."""

# Requests are served one after the other; a silent client delays the next one so long.
_REQUEST_SECONDS = 2.0
# How long another thread waits for the interpreter while text is made, in seconds: the server's
# loop needs it now and then, and Python's default of 5 ms would show in its latencies.
_SWITCH_SECONDS = 0.0005


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
        registry = _registry(collector)
        self._server = _listening(host, port, registry)
        self.port = int(self._server.server_address[1])
        self.url = f"http://{_shown(host)}:{self.port}/metrics"
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                request, address = self._server.get_request()
            except OSError:
                return
            with contextlib.suppress(OSError):
                self._server.process_request(request, address)

    def close(self) -> None:
        """Answer no more; a request that is being answered goes on."""
        # Wakes the thread that waits for a connection.
        with contextlib.suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.server_close()


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


def _listening(host: str, port: int, registry: Any) -> HTTPServer:
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise QuiverError(f"--metrics-host: {host}: {error.strerror}") from None

    class Handler(_Handler):
        metrics = registry

    class Server(HTTPServer):
        address_family = family

        def server_bind(self) -> None:
            # HTTPServer would ask the name service for its own name, which may take seconds.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(self.server_address)
            self.server_address = self.socket.getsockname()

        def handle_error(self, _request: Any, _address: Any) -> None:
            """Print nothing: a client that went away is no failure of ours."""

    try:
        return Server((str(address[0]), int(address[1])), Handler)
    except OSError as error:
        raise QuiverError(
            f"cannot serve metrics on {_shown(host)}:{port}: {error.strerror}"
        ) from None


class _Handler(BaseHTTPRequestHandler):
    """Answers one request, and closes the connection."""

    metrics: Any
    timeout = _REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answer with the metrics."""
        from prometheus_client.exposition import choose_encoder

        if self.path.partition("?")[0] not in ("/", "/metrics"):
            self._answer(HTTPStatus.NOT_FOUND, b"metrics are at /metrics\n")
            return
        encode, content_type = choose_encoder(self.headers.get("Accept") or "")
        try:
            text = encode(self.metrics)
        except QuiverError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode())
            return
        self._answer(HTTPStatus.OK, text, content_type)

    def _answer(
        self, status: HTTPStatus, text: bytes, content_type: str = "text/plain; charset=utf-8"
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_arguments: Any) -> None:
        """Write no log of requests."""
