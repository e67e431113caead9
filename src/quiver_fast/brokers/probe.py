"""A probe that connects as a client, and so tells whether a broker serves AMQP yet."""

from __future__ import annotations

import socket
import ssl
import struct

from quiver_fast.server.config import ServerConfig

_SECONDS = 1.0
# Protocol headers: SASL's (AMQP 1.0, part 5, section 5.3.1), and AMQP's (part 2, section 2.2).
_SASL_HEADER = b"AMQP\x03\x01\x00\x00"
_AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
_ANSWER = b"AMQP"
# Codes of performatives (parts 2.7 and 5.3.3), and types of frames (parts 2.3.1 and 5.3.1).
_OPEN, _CLOSE, _INIT, _OUTCOME = 0x10, 0x18, 0x41, 0x44
_AMQP, _SASL = 0, 1
_LARGEST_FRAME = 65_536
# The encodings of lists without fields, of 8 bits and of 32, and null.
_LIST0, _LIST8, _LIST32, _NULL = 0x45, 0xC0, 0xD0, 0x40


def accepts_amqp(config: ServerConfig) -> bool:
    """Say whether a peer at the configured host and port opens a connection.

    A peer that refuses this user also serves, and so does one that answers anything but AMQP after
    its protocol header. A peer that closes the connection with an error is still starting:
    Broker-J's virtual host becomes active after its port.
    """
    try:
        with socket.create_connection((config.host, config.port), _SECONDS) as plain:
            if config.scheme != "amqps":
                return _serves(plain, config)
            return _answers_in_tls(plain, config)
    except OSError:
        return False


def _answers_in_tls(plain: socket.socket, config: ServerConfig) -> bool:
    # The probe need not verify the peer, and not all certificates are for this name.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with context.wrap_socket(plain) as wrapped:
            # A broker that demands a certificate refuses the probe, which has none: it serves. In
            # TLS 1.3 it refuses after our handshake, by an alert or by a plain end.
            return config.trust_store is not None or _serves(wrapped, config)
    except ssl.SSLError:
        return config.trust_store is not None


def _serves(connection: socket.socket, config: ServerConfig) -> bool:
    connection.sendall(_SASL_HEADER)
    if _read(connection, len(_SASL_HEADER))[: len(_ANSWER)] != _ANSWER:
        return False
    if not _is_let_in(connection, config):
        return True
    opening = _frame(_AMQP, _OPEN, [_text(0xB1, "quiver-probe"), _text(0xB1, config.host)])
    connection.sendall(_AMQP_HEADER + opening + _frame(_AMQP, _CLOSE, []))
    _read(connection, len(_AMQP_HEADER))
    return not _has_fields(_until(connection, _CLOSE))


def _is_let_in(connection: socket.socket, config: ServerConfig) -> bool:
    """Do SASL; say whether its outcome is ok (part 5.3.3.6)."""
    if config.user is None:
        mechanism, initial = "ANONYMOUS", ""
    else:
        mechanism, initial = "PLAIN", f"\0{config.user}\0{config.password or ''}"
    try:
        connection.sendall(_frame(_SASL, _INIT, [_text(0xB3, mechanism), _text(0xB0, initial)]))
        outcome = _until(connection, _OUTCOME)
    except ConnectionError:
        # It cut the connection, perhaps before it read all that we said.
        return False
    # Its only mandatory field is the code, a ubyte.
    return _has_fields(outcome) and b"\x50\x00" in outcome


def _text(constructor: int, text: str) -> bytes:
    """Encode a string, a symbol or binary of 32 bits (part 1.6)."""
    encoded = text.encode()
    return struct.pack(">BI", constructor, len(encoded)) + encoded


def _frame(kind: int, code: int, fields: list[bytes]) -> bytes:
    content = b"".join(fields)
    body = struct.pack(">BBBBII", 0, 0x53, code, _LIST32, len(content) + 4, len(fields)) + content
    return struct.pack(">IBBH", len(body) + 8, 2, kind, 0) + body


def _until(connection: socket.socket, code: int) -> bytes:
    """Read frames up to one of this code; return its list, or nothing at the end of input."""
    while head := _read(connection, 8):
        size, offset = struct.unpack(">IB", head[:5])
        if not 8 <= size <= _LARGEST_FRAME:
            return b""
        body = _read(connection, size - 8)[4 * offset - 8 :]
        if body[:3] == bytes((0, 0x53, code)):
            return body[3:]
    return b""


def _has_fields(encoded: bytes) -> bool:
    """Say whether a list has a first field that is not null."""
    if not encoded or encoded[0] == _LIST0:
        return False
    begin = {_LIST8: 3, _LIST32: 9}.get(encoded[0], len(encoded))
    return encoded[begin : begin + 1] not in (b"", bytes((_NULL,)))


def _read(connection: socket.socket, size: int) -> bytes:
    """Read exactly so many bytes; nothing at the end of input."""
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            return b""
        data += part
    return data
