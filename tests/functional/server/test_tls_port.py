"""The TLS port: nothing goes out in clear, for every input."""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import warnings
from collections.abc import Iterator
from pathlib import Path
from subprocess import run

import pytest
from support.certificates import Certificates
from support.server import Server, running_server

TLS_RECORDS = {20, 21, 22, 23}


@pytest.fixture(scope="module")
def tls_server(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Server]:
    keys = certificates.server.keys()
    with running_server(tmp_path_factory.mktemp("tls"), scheme="amqps", **keys) as server:
        yield server


def hello() -> bytes:
    """The first flight of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def words() -> dict[str, bytes]:
    generator = random.Random(14)
    noise = {f"noise {n}": generator.randbytes(1 + 40 * n) for n in range(20)}
    handshake = {f"record {n}": b"\x16\x03\x01" + generator.randbytes(4 + 9 * n) for n in range(20)}
    flight = hello()
    return {
        "nothing": b"",
        "AMQP": b"AMQP\0\1\0\0",
        "AMQP and more": b"AMQP\0\1\0\0" + b"\0\0\0\x0f\2\0\0\0\0\x53\x10\xc0\x01\0\x40" * 3,
        "SASL": b"AMQP\3\1\0\0",
        "TLS of AMQP": b"AMQP\2\1\0\0",
        "part of a header": b"AMQ",
        "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "alert": b"\x15\x03\x01\0\2\2\x28",
        "hello, then AMQP": flight + b"AMQP\0\1\0\0",
        "hello, then noise": flight + generator.randbytes(500),
        "hello, cut": flight[: len(flight) // 2],
        "hello twice": flight + flight,
        **noise,
        **handshake,
    }  # fmt: skip


def answer(port: int, said: bytes) -> bytes:
    """Say something, and then no more; return all that came back."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(said)
        # The server may have closed the connection already.
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
        try:
            while data := sock.recv(65536):
                received += data
        except ConnectionResetError:
            pass
    return received


def is_tls(data: bytes) -> bool:
    """Tell whether bytes are TLS records and nothing else; the last may be cut."""
    while data:
        if data[0] not in TLS_RECORDS or data[1:2] not in (b"", b"\3"):
            return False
        data = data[5 + int.from_bytes(data[3:5], "big") :]
    return True


@pytest.mark.parametrize("said", words().values(), ids=words().keys())
def test_nothing_goes_out_in_clear(tls_server: Server, said: bytes) -> None:
    assert is_tls(answer(tls_server.port, said))


ANCIENT = {
    "TLS 1.0": (ssl.TLSVersion.TLSv1, "ALL"),
    "TLS 1.1": (ssl.TLSVersion.TLSv1_1, "ALL"),
    "RSA key exchange": (ssl.TLSVersion.TLSv1_2, "AES256-GCM-SHA384"),
    "SHA-1": (ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES256-SHA"),
}


def handshake(port: int, version: ssl.TLSVersion, ciphers: str) -> None:
    """Shake hands as a client of the past.

    Raises:
        OSError: The server refused.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as sock,
        context.wrap_socket(sock) as session,
    ):
        session.sendall(b"AMQP\3\1\0\0")
        assert session.recv(8) == b"AMQP\3\1\0\0"


@pytest.fixture(scope="module")
def rsa(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A certificate that every cipher here can use."""
    folder = tmp_path_factory.mktemp("rsa")
    keys = {"cert": str(folder / "cert.pem"), "key": str(folder / "key.pem")}
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    run([*words, "-keyout", keys["key"], "-out", keys["cert"]], check=True, capture_output=True)
    return keys


@pytest.mark.parametrize("kind", ANCIENT)
def test_tls_of_the_past(tmp_path: Path, rsa: dict[str, str], kind: str) -> None:
    """RFC 8996: refused, but taken on demand."""
    with (
        running_server(tmp_path, scheme="amqps", **rsa) as server,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        handshake(server.port, *ANCIENT[kind])
    with running_server(tmp_path, scheme="amqps", allow_old_tls=1, **rsa) as server:
        handshake(server.port, *ANCIENT[kind])


def test_tls_of_today(tls_server: Server) -> None:
    handshake(tls_server.port, ssl.TLSVersion.TLSv1_2, "ECDHE+AESGCM")
    handshake(tls_server.port, ssl.TLSVersion.TLSv1_3, "ALL")
