"""The handshake of TLS at the socket, with Python's TLS at the other end of a pair of sockets."""

from __future__ import annotations

import ctypes
import hashlib
import socket
import ssl
from pathlib import Path

import pytest
import trustme
from support.certificates import Certificates, Identity
from support.tls_layer import (
    AGAIN,
    ANY,
    END,
    FAILED,
    POLLIN,
    REQUESTED,
    REQUIRED,
    VERSIONS,
    Connect,
    Context,
    established,
    shake_hands,
)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Identity]]:
    """An authority, and certificates for `localhost` and two addresses with keys of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    found = {}
    for kind in trustme.KeyType:
        leaf = authority.issue_cert("localhost", "127.0.0.1", "::1", key_type=kind)
        leaf.private_key_and_cert_chain_pem.write_to_path(folder / kind.name)
        found[kind.name] = Identity(str(folder / kind.name), str(folder / kind.name))
    return str(folder / "authority.pem"), found


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("sizes", [(1 << 20,), (1,), (7, 300)])
def test_handshake_in_pieces(
    connect: Connect, server: bool, version: ssl.TLSVersion, sizes: tuple[int, ...]
) -> None:
    layer, peer = connect(server=server, theirs={"version": version})
    shake_hands(layer, peer, sizes)
    assert layer.established
    assert peer.established
    facts = layer.facts
    assert facts.protocol.decode().replace(".", "_") == version.name
    name, _, strength = peer.tls.cipher() or ("", "", 0)
    assert (facts.cipher.decode(), facts.strength) == (name, strength)
    assert layer.events == POLLIN


@pytest.mark.parametrize("kind", ["RSA", "ECDSA"])
@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_kinds_of_keys(
    connect: Connect,
    kinds: tuple[str, dict[str, Identity]],
    kind: str,
    server: bool,
    version: ssl.TLSVersion,
) -> None:
    authority, identities = kinds
    identity = identities[kind]
    keys = {"cert": identity.cert, "key": identity.key}
    ours = keys if server else {"store": authority}
    theirs = {"trust": authority} if server else {"identity": identity}
    established(connect, server=server, ours=ours, theirs={**theirs, "version": version})


@pytest.mark.parametrize("host", ["localhost", "localhost.", "LOCALHOST", "127.0.0.1", "::1",
                                  "0:0:0:0:0:0:0:1", "::1%lo"])  # fmt: skip
def test_names_and_addresses_that_the_certificate_has(connect: Connect, host: str) -> None:
    established(connect, host=host)


@pytest.mark.parametrize(
    ("host", "identity", "words"),
    [
        ("localhost", "elsewhere", "does not name 'localhost' as a DNS name or common name"),
        ("elsewhere.example", "server", "does not name 'elsewhere.example'"),
        ("127.0.0.1", "elsewhere", "does not name '127.0.0.1' as an IP address"),
        ("127.0.0.2", "server", "does not name '127.0.0.2' as an IP address"),
        ("::2", "server", "does not name '::2' as an IP address"),
        ("localhost", "expired", "certificate has expired"),
    ],
)
def test_certificates_that_are_refused(
    connect: Connect, certificates: Certificates, host: str, identity: str, words: str
) -> None:
    theirs = getattr(certificates, identity)
    layer, peer = connect(host=host, theirs={"identity": theirs})
    shake_hands(layer, peer)
    assert layer.handshake() == FAILED
    assert layer.read() == FAILED
    assert layer.write(b"secret") == FAILED
    assert words in layer.failure
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(Path(theirs.cert).read_text())).hexdigest()
    assert digest in layer.failure
    assert "\n" not in layer.failure
    # The peer was told, by an alert.
    peer.receive()
    peer.step()
    assert peer.error is not None


@pytest.mark.parametrize("store", ["other_authority", None])
def test_an_unknown_authority(
    connect: Connect, certificates: Certificates, store: str | None
) -> None:
    ours = {"store": getattr(certificates, store) if store else None}
    layer, peer = connect(ours=ours)
    shake_hands(layer, peer)
    assert "certificate verify failed: unable to get local issuer" in layer.failure


@pytest.mark.parametrize("identity", ["expired", "elsewhere", "server"])
def test_who_verifies_nobody_takes_any_certificate(
    connect: Connect, certificates: Certificates, identity: str
) -> None:
    established(
        connect,
        ours={"store": certificates.other_authority, "peer": ANY},
        theirs={"identity": getattr(certificates, identity)},
    )


def test_no_common_version(connect: Connect) -> None:
    # TLS 1.3 has ciphers of its own, so that these leave a client with nothing to offer.
    layer, peer = connect(server=True, theirs={"version": ssl.TLSVersion.TLSv1_3})
    peer.step()
    hello = peer.outgoing.read()
    # The extension of versions (RFC 8446, 4.2.1) names one that nobody has.
    peer.sock.send(hello.replace(b"\0\x2b\0\3\2\3\4", b"\0\x2b\0\3\2\3\x7f"))
    assert layer.handshake() == FAILED
    assert "version" in layer.failure or "protocol" in layer.failure


@pytest.mark.parametrize("peer_mode", [REQUESTED, REQUIRED])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shown", ["client", "foreign_client", None])
def test_certificates_of_clients(
    connect: Connect,
    certificates: Certificates,
    peer_mode: int,
    version: ssl.TLSVersion,
    shown: str | None,
) -> None:
    identity = getattr(certificates, shown) if shown else None
    layer, peer = connect(
        server=True,
        ours={"store": certificates.authority, "peer": peer_mode},
        theirs={"identity": identity, "version": version},
    )
    shake_hands(layer, peer)
    if shown == "client" or (shown is None and peer_mode == REQUESTED):
        assert layer.established
        assert (layer.subject is not None) == (shown is not None)
    else:
        assert not layer.established
        expected = "verify failed" if shown else "peer did not return a certificate"
        assert expected in layer.failure


def test_the_subject_reads_as_the_engine_told_it(
    connect: Connect, certificates: Certificates
) -> None:
    layer, _ = established(
        connect,
        server=True,
        ours={"store": certificates.authority, "peer": REQUIRED},
        theirs={"identity": certificates.client},
    )
    subject = layer.subject or ""
    assert subject.split(",")[-1].startswith("O=trustme")
    assert layer.subject == subject


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refused_client_is_told_why(
    connect: Connect, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    """With TLS 1.3 a client's handshake is over when the server looks at its certificate."""
    layer, peer = connect(
        ours={"cert": certificates.foreign_client.cert, "key": certificates.foreign_client.key},
        theirs={"trust": certificates.authority, "version": version},
    )
    shake_hands(layer, peer)
    peer.receive()
    peer.step()
    peer.send()
    assert layer.read() == FAILED
    assert layer.failure == "the peer ended TLS: unknown CA"


@pytest.mark.parametrize(
    ("host", "name"),
    [("localhost", "localhost"), ("localhost.", "localhost"), ("127.0.0.1", None), ("::1", None)],
)
def test_the_server_is_told_the_name_and_no_address(
    connect: Connect, host: str, name: str | None
) -> None:
    asked: list[str | None] = []
    layer, peer = connect(host=host)
    peer.tls.context.sni_callback = lambda _, name, __: asked.append(name)
    shake_hands(layer, peer)
    assert asked == [name]


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_peer_that_closes_at_each_step(
    connect: Connect, server: bool, version: ssl.TLSVersion
) -> None:
    """After any number of bytes of the peer's the handshake ends, and says so."""
    for count in range(0, 8000, 97):
        layer, peer = connect(server=server, theirs={"version": version})
        left = count
        for _ in range(4):
            layer.handshake()
            peer.receive()
            peer.step()
            left -= peer.send(left) if left else 0
        peer.sock.shutdown(socket.SHUT_WR)
        result = layer.handshake()
        if layer.established:
            return
        assert result == END
        assert layer.truncated
        assert layer.failure == "the peer cut the connection in the handshake"
    pytest.fail("8000 bytes are no handshake")


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("said", [b"AMQP\0\1\0\0", b"A", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100])
def test_bytes_that_are_no_tls_are_answered_by_nothing(
    connect: Connect, server: bool, said: bytes
) -> None:
    layer, peer = connect(server=server)
    assert layer.handshake() == AGAIN
    peer.receive()
    peer.sock.send(said)
    assert layer.handshake() == FAILED
    assert layer.failure == "the peer speaks no TLS"
    assert layer.close() == FAILED
    layer.sock.shutdown(socket.SHUT_WR)
    assert peer.sock.recv(100) == b""


def test_files_that_cannot_be_used(
    library: ctypes.CDLL, certificates: Certificates, tmp_path: Path
) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate\n")
    server, client = certificates.server, certificates.client
    wrong: list[dict[str, object]] = [
        {"cert": str(text)},
        {"cert": "/no/such.pem"},
        {"cert": server.cert, "key": client.key},
        {"cert": server.cert, "key": str(text)},
        {"store": str(text)},
        {"store": "/no/such.pem"},
    ]
    for each in wrong:
        context = Context(library, server=True, **each)
        assert context.failure != "", each
        context.free()


def test_a_key_with_a_password_is_not_asked_for_one(
    library: ctypes.CDLL, certificates: Certificates, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(Path(certificates.server.key).read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    context = Context(library, server=True, cert=certificates.server.cert, key=str(locked))
    assert context.failure != ""
    context.free()


def test_a_folder_of_authorities(
    connect: Connect, certificates: Certificates, tmp_path: Path, library: ctypes.CDLL
) -> None:
    certificate = ssl.PEM_cert_to_DER_cert(Path(certificates.authority).read_text())
    names = tmp_path / "authority.pem"
    names.write_text(ssl.DER_cert_to_PEM_cert(certificate))
    context = Context(library, server=True, store=str(tmp_path), peer=REQUIRED)
    assert context.failure == ""
    context.free()
