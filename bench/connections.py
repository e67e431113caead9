"""How much memory our server takes for idle connections.

    python -m bench.connections [--count 10000] [--ceiling 400] [--tls]

Each is a socket that did the AMQP handshake, without SASL, and then sends nothing; with ``--tls``
it did TLS's first. Exits 1 if the server's memory is above the ceiling, in MB of 1,000,000 bytes.
"""

from __future__ import annotations

import argparse
import resource
import signal
import socket
import ssl
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trustme

from bench.runner import Certificate, Measured, RunError, await_exit, await_ready, free_port
from bench.soak import GREETING, descriptors
from bench.through import ServerLine, our_server, our_tls_server

# Far above the longest answer.
ANSWER = 4096


@dataclass(frozen=True)
class Idle:
    """Idle connections: their number, and the server's memory in bytes."""

    count: int
    before: int
    held: int

    def __str__(self) -> str:
        each = (self.held - self.before) / self.count
        return f"{self.count} connections: {self.held / 1e6:.0f} MB, {each / 1e3:.1f} kB for each"


def allow_descriptors() -> None:
    """Raise the limit of descriptors of this process and the server that it starts."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connect(port: int, count: int, secure: ssl.SSLContext | None) -> list[socket.socket]:
    """Return open connections: each has had the server's answer."""
    sockets = []
    for number in range(count):
        # Loopback has an ephemeral port for each address.
        source = (f"127.0.0.{2 + number // 20_000}", 0)
        one = socket.create_connection(("127.0.0.1", port), 10, source)
        if secure:
            one = secure.wrap_socket(one)
        one.sendall(GREETING)
        sockets.append(one)
    for one in sockets:
        if not one.recv(ANSWER):
            raise RunError("the server closed a connection")
    return sockets


def measure(
    count: int, server_line: ServerLine = our_server, secure: ssl.SSLContext | None = None
) -> Idle:
    """Hold idle connections, within TLS if ``secure``, and measure the server's memory.

    Raises:
        RunError: the server failed, or closed one.
        OSError: there are not so many descriptors or ports.
    """
    port = free_port()
    server = Measured([*server_line(port), "idle-timeout=0"], Path("/dev/null"))
    try:
        await_ready(server, port)
        server.sample_memory()
        before, opened = server.rss[-1], descriptors(server)
        sockets = connect(port, count, secure)
        server.sample_memory()
        held = server.rss[-1]
        found = descriptors(server) - opened
        for one in sockets:
            one.close()
        server.process.send_signal(signal.SIGTERM)
        await_exit([server], 20.0)
    finally:
        server.close()
    return Idle(found, before, held)


def measure_secure(count: int) -> Idle:
    """Like `measure`, within TLS.

    Raises:
        RunError: the server failed, or closed one.
        OSError: there are not so many descriptors or ports.
    """
    authority = trustme.CA()
    secure = ssl.create_default_context()
    authority.configure_trust(secure)
    secure.check_hostname = False
    with tempfile.TemporaryDirectory() as folder:
        pem = str(Path(folder, "server.pem"))
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
        return measure(count, our_tls_server(Certificate(pem, pem, "")), secure)


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--ceiling", type=float, metavar="MB", help="exit 1 above it")
    parser.add_argument("--tls", action="store_true", help="connections within TLS")
    options = parser.parse_args(arguments)
    allow_descriptors()
    try:
        idle = (measure_secure if options.tls else measure)(options.count)
    except (RunError, OSError) as error:
        print(f"connections: {error}", file=sys.stderr)
        return 1
    print(idle)
    if options.ceiling is not None and idle.held > options.ceiling * 1e6:
        print(f"connections: more than {options.ceiling:g} MB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
