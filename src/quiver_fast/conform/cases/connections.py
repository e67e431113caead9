"""Cases of connections: headers, framing, open and close (parts 2.2 to 2.4, 2.7.1)."""

from __future__ import annotations

import struct

from quiver_fast.conform.case import MUST, rows, server
from quiver_fast.conform.mutation import dropped, header
from quiver_fast.conform.server import Server
from quiver_fast.conform.wire.frames import AMQP_HEADER


@server("2.2/1", MUST, header(b"AMQP\x00\x00\x09\x01"))
def same_version(server: Server) -> None:
    """The header of AMQP 1.0.0 is answered by the same header."""
    peer = server.authenticated() if server.facts.mechanisms else server.connect()
    peer.send_bytes(AMQP_HEADER)
    peer.header(AMQP_HEADER)


def head(size: int, offset: int = 2, kind: int = 0) -> bytes:
    return struct.pack(">IBBH", size, offset, kind, 0)


@rows(server, MUST, dropped("close"), table={
    "2.3.1/1": ("A frame of fewer than 8 bytes ends the connection.", head(7)),
    "2.3.1/2": ("A data offset below 2 ends the connection.", head(8, 1)),
    "2.3.1/3": ("A data offset beyond the frame ends the connection.", head(8, 3)),
})  # fmt: skip
def malformed(server: Server, data: bytes) -> None:
    peer = server.opened()
    peer.send_bytes(data)
    peer.refused("close")


@server("2.4.3/1", MUST, dropped("close"))
def close_is_answered(server: Server) -> None:
    """A close is answered by a close."""
    peer = server.opened()
    peer.send("close")
    peer.expect("close")
