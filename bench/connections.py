"""How much memory our server takes for idle connections.

    python -m bench.connections [--count 10000]

Each is a socket that did the AMQP handshake, without SASL, and then says nothing.
"""

from __future__ import annotations

import argparse
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.runner import Measured, RunError, await_exit, await_ready, free_port
from bench.soak import GREETING, descriptors
from bench.through import our_server

# The longest answer is far below this.
ANSWER = 4096


def connect(port: int, count: int) -> list[socket.socket]:
    """Return connections that are open: each has had the server's answer."""
    sockets = []
    for number in range(count):
        # Loopback has an ephemeral port for each address.
        source = (f"127.0.0.{2 + number // 20_000}", 0)
        one = socket.create_connection(("127.0.0.1", port), 10, source)
        one.sendall(GREETING)
        sockets.append(one)
    for one in sockets:
        if not one.recv(ANSWER):
            raise RunError("the server closed a connection")
    return sockets


def measure(count: int) -> str:
    """Return one line of figures."""
    port = free_port()
    server = Measured([*our_server(port), "idle-timeout=0"], Path("/dev/null"))
    try:
        await_ready(server, port)
        server.sample_memory()
        before, opened = server.rss[-1], descriptors(server)
        sockets = connect(port, count)
        server.sample_memory()
        held = server.rss[-1]
        found = descriptors(server) - opened
        for one in sockets:
            one.close()
        server.process.send_signal(signal.SIGTERM)
        await_exit([server], 20.0)
    finally:
        server.close()
    each = (held - before) / count
    return f"{found} connections: {held / 1e6:.0f} MB, {each / 1e3:.1f} kB for each"


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    options = parser.parse_args(arguments)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        print(measure(options.count))
    except (RunError, OSError) as error:
        print(f"connections: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
