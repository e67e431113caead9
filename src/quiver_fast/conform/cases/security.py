"""Cases of security: SASL and TLS (part 5)."""

from __future__ import annotations

from quiver_fast.conform.case import MUST, server
from quiver_fast.conform.mutation import header
from quiver_fast.conform.server import Server
from quiver_fast.conform.wire.frames import AMQP_HEADER


@server("5.3.3.5/1", MUST, header(b"AMQP\x03\x01\x00\x00"))
def headers_again(server: Server) -> None:
    """After the outcome ok both sides send a header again, that of AMQP."""
    peer = server.authenticated()
    peer.send_bytes(AMQP_HEADER)
    peer.header(AMQP_HEADER)
