"""A SASL server for mechanisms that proton and rhea lack as servers.

AMQP 1.0 part 5, section 5.3 gives the frames; RFC 5802 and RFC 7677 give
SCRAM. After a successful dialogue the connection is spliced to a real AMQP
peer, which then sees a connection without a SASL layer.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from proton import UNDESCRIBED, Array, Data, Described, symbol, ubyte, ulong

from quiver_fast.conform.wire.client import read_exactly
from support.network import TcpServer, splice

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = 0x40, 0x41, 0x42, 0x43, 0x44
OK, AUTH, SYS, SYS_PERM, SYS_TEMP = range(5)
ITERATIONS = 4096
HASHES = {"SCRAM-SHA-1": "sha1", "SCRAM-SHA-256": "sha256"}


class SaslError(Exception):
    """The client's part of the dialogue is wrong."""


def write_frame(connection: socket.socket, code: int, *fields: Any) -> None:
    """Write one SASL frame."""
    data = Data()
    data.put_object(Described(ulong(code), list(fields)))
    body = data.encode()
    connection.sendall(struct.pack(">IBBH", 8 + len(body), 2, 1, 0) + body)


def read_frame(connection: socket.socket, expected: int) -> list[Any]:
    """Read one SASL frame's fields.

    Raises:
        SaslError: It is another frame than expected.
    """
    size, offset, kind, _ = struct.unpack(">IBBH", read_exactly(connection, 8))
    body = read_exactly(connection, size - 8)[offset * 4 - 8 :]
    data = Data()
    data.decode(body)
    data.rewind()
    data.next()
    performative: Any = data.get_object()
    if kind != 1 or performative.descriptor != expected:
        raise SaslError(f"frame {performative.descriptor:#x} where {expected:#x} was due")
    # Binary values are views into `data`, which ends here.
    return [bytes(v) if isinstance(v, memoryview) else v for v in performative.value]


@dataclass
class SaslServer:
    """One dialogue with each client.

    Attributes:
        mechanisms: The offered mechanisms.
        users: Passwords by user name.
        outcome: The code of every answer, or None to judge the client.
        forge: Answer SCRAM with a wrong server signature: an impostor.
        signature_in_outcome: Give SCRAM's server signature as the outcome's additional
            data, as some servers do, and not as a last challenge.
        inits: The mechanism each client chose and its initial response.
    """

    mechanisms: tuple[str, ...]
    users: dict[str, str] = field(default_factory=dict)
    outcome: int | None = None
    forge: bool = False
    signature_in_outcome: bool = False
    inits: list[tuple[str, bytes]] = field(default_factory=list)

    def serve(self, connection: socket.socket) -> bool:
        """Authenticate one client; return True if it may go on."""
        if read_exactly(connection, 8) != SASL_HEADER:
            raise SaslError("the client does not begin with the SASL header")
        undescribed: Any = UNDESCRIBED
        offered = Array(undescribed, Data.SYMBOL, *map(symbol, self.mechanisms))
        connection.sendall(SASL_HEADER)
        write_frame(connection, MECHANISMS, offered)
        fields = read_frame(connection, INIT)
        mechanism, response = str(fields[0]), bytes(fields[1] or b"")
        self.inits.append((mechanism, response))
        code, additional = self._judge(connection, mechanism, response)
        write_frame(connection, OUTCOME, ubyte(code), additional)
        return code == OK

    def _judge(
        self, connection: socket.socket, mechanism: str, response: bytes
    ) -> tuple[int, bytes | None]:
        if self.outcome is not None:
            return self.outcome, None
        if mechanism == "PLAIN":
            _, user, password = response.decode().split("\0")
            return (OK if self.users.get(user) == password else AUTH), None
        if mechanism in HASHES:
            return self._scram(connection, HASHES[mechanism], response.decode())
        return (OK if mechanism == "ANONYMOUS" else AUTH), None

    def _scram(
        self, connection: socket.socket, algorithm: str, first: str
    ) -> tuple[int, bytes | None]:
        header, _, bare = first.partition(",,")
        attributes = dict(part.split("=", 1) for part in bare.split(","))
        if header not in ("n", "y"):
            raise SaslError(f"unexpected GS2 header {header!r}")
        user = attributes["n"].replace("=2C", ",").replace("=3D", "=")
        salt, nonce = os.urandom(16), attributes["r"] + base64.b64encode(os.urandom(18)).decode()
        challenge = f"r={nonce},s={base64.b64encode(salt).decode()},i={ITERATIONS}"
        write_frame(connection, CHALLENGE, challenge.encode())
        final = bytes(read_frame(connection, RESPONSE)[0]).decode()
        without_proof, _, proof = final.rpartition(",p=")
        binding = base64.b64encode(f"{header},,".encode()).decode()
        if without_proof != f"c={binding},r={nonce}":
            raise SaslError(f"client-final-message is {final!r}")

        def mac(key: bytes, text: str) -> bytes:
            return hmac.new(key, text.encode(), algorithm).digest()

        password = self.users.get(user, "")
        salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, ITERATIONS)
        stored = hashlib.new(algorithm, mac(salted, "Client Key")).digest()
        message = f"{bare},{challenge},{without_proof}"
        pairs = zip(base64.b64decode(proof), mac(stored, message), strict=True)
        client_key = bytes(left ^ right for left, right in pairs)
        if user not in self.users or hashlib.new(algorithm, client_key).digest() != stored:
            return AUTH, None
        signature = b"\0" * 20 if self.forge else mac(mac(salted, "Server Key"), message)
        proof_of_server = b"v=" + base64.b64encode(signature)
        if self.signature_in_outcome:
            return OK, proof_of_server
        write_frame(connection, CHALLENGE, proof_of_server)
        read_frame(connection, RESPONSE)
        return OK, None


@contextlib.contextmanager
def authenticating_proxy(sasl: SaslServer, target: int | None = None) -> Iterator[TcpServer]:
    """Authenticate clients, and splice accepted ones to the peer on port `target`."""

    def serve(connection: socket.socket) -> None:
        if not sasl.serve(connection):
            return
        if target is None:
            raise AssertionError("a client passed that should not have")
        with socket.create_connection(("127.0.0.1", target), 10) as backend:
            splice(connection, backend, server.stopping)

    with TcpServer(serve) as server:
        yield server
