"""Waiting until a server knows that a client has gone, and has released its messages."""

from __future__ import annotations

import socket
from typing import Any

from support.processes import wait_until
from support.server import Server


def port_of(connection: Any) -> int:
    """Return the client's own port of a connection of `Clients`, which is not cut yet."""
    descriptor = socket.dup(int(connection.transport._selectable.fileno()))
    with socket.socket(fileno=descriptor) as same:
        port: int = same.getsockname()[1]
        return port


def wait_until_gone(server: Server, port: int) -> None:
    """Return when a server has closed its end of a connection."""

    def is_gone() -> bool:
        ends = server.process.net_connections("tcp")
        return all(not each.raddr or each.raddr.port != port for each in ends)

    wait_until(is_gone, f"the server misses the client of port {port}", timeout=30.0)
