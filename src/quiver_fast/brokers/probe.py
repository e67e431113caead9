"""Whether a broker accepts AMQP by now: asked as a client would, and left at once."""

from __future__ import annotations

import socket
import ssl

from quiver_fast.server.config import ServerConfig

__all__ = ["accepts_amqp"]

_SECONDS = 1.0
_SASL_HEADER = b"AMQP\x03\x01\x00\x00"
"""AMQP 1.0, part 5, section 5.3.1: what a client that wants SASL says first."""
_ANSWER = b"AMQP"


def accepts_amqp(config: ServerConfig) -> bool:
    """Say whether a peer at the configured host and port answers a protocol header with its own."""
    try:
        with socket.create_connection((config.host, config.port), _SECONDS) as plain:
            if config.scheme != "amqps":
                return _answers(plain)
            return _answers_in_tls(plain, config)
    except OSError:
        return False


def _answers_in_tls(plain: socket.socket, config: ServerConfig) -> bool:
    # The probe need not verify who answers, and not all certificates are for this name.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with context.wrap_socket(plain) as wrapped:
            # A broker that demands a certificate refuses us, which have none: it is there. In
            # TLS 1.3 it does so after our handshake, by an alert or by a plain end.
            return config.trust_store is not None or _answers(wrapped)
    except ssl.SSLError:
        return config.trust_store is not None


def _answers(connection: socket.socket) -> bool:
    connection.sendall(_SASL_HEADER)
    answer = b""
    while len(answer) < len(_ANSWER):
        part = connection.recv(len(_ANSWER) - len(answer))
        if not part:
            return False
        answer += part
    return answer == _ANSWER
