"""Why TLS failed, in words: alerts, missing certificates, revocation lists, other files."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from support.arrows import arguments, pyfast, run_pyfast
from support.certificates import Certificates, list_of
from support.judgement import assert_clean, assert_error
from support.network import TcpServer, reset
from support.processes import Running, free_port, wait_until
from support.server import Server, running_server

from quiver_fast.cli.arrow.command import main as arrow
from quiver_fast.cli.pair.command import main as quiver
from quiver_fast.errors import SecurityError
from quiver_fast.management.queues import QueueManager
from quiver_fast.security.security import Security

# RFC 8446, 6 and B.2, and older ones (RFC 5246, 7.2; RFC 4346, 7.2).
ALERTS = {
    10: "unexpected message", 20: "bad record mac", 21: "decryption failed",
    22: "record overflow", 30: "decompression failure", 40: "handshake failure",
    42: "bad certificate", 43: "unsupported certificate",
    44: "certificate revoked", 45: "certificate expired", 46: "certificate unknown",
    47: "illegal parameter", 48: "unknown CA", 49: "access denied", 50: "decode error",
    51: "decrypt error", 60: "export restriction", 70: "protocol version",
    71: "insufficient security", 80: "internal error", 86: "inappropriate fallback",
    90: "user canceled", 100: "no renegotiation", 109: "missing extension",
    110: "unsupported extension", 111: "certificate unobtainable", 112: "unrecognized name",
    113: "bad certificate status response", 114: "bad certificate hash value",
    115: "unknown PSK identity", 120: "no application protocol", 121: "ECH required",
    200: "alert 200",
}  # fmt: skip
SECONDS = 10
WANTED = "the peer wants a certificate: --cert, --key"


@contextlib.contextmanager
def alerting(number: int) -> Iterator[int]:
    """Yield the port of a server that answers a client's hello by a fatal alert."""

    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(struct.pack(">BHHBB", 21, 0x0303, 2, 2, number))
        with contextlib.suppress(OSError):
            connection.recv(65536)

    with TcpServer(serve) as server:
        yield server.port


def failure_at(port: int, **settings: object) -> str:
    """Return the error of a client."""
    security = Security(tls=True, verify=False, **settings)  # type: ignore[arg-type]
    with pytest.raises(SecurityError) as caught:
        QueueManager("127.0.0.1", port, security)
    return str(caught.value)


@pytest.mark.parametrize("number", ALERTS)
def test_each_alert_has_words(number: int) -> None:
    with alerting(number) as port:
        said = failure_at(port)
    assert f"TLS: the peer ended TLS: {ALERTS[number]}" in said
    options = {42: "--cert", 48: "--cert", 70: "--tls-insecure", 112: "the host of the URL"}
    assert f"(see {options[number]})" in said if number in options else WANTED not in said


@pytest.mark.parametrize("number", [41, 116])
def test_alerts_about_a_missing_certificate(number: int) -> None:
    with alerting(number) as port:
        assert f"TLS: {WANTED}; the peer ended TLS: " in failure_at(port)


# -- A peer that wants a certificate


def demanding(
    certificates: Certificates, version: ssl.TLSVersion, answer: str = "alert"
) -> TcpServer:
    """Return a server that wants a client's certificate, and its answer to a client without."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(
        **{name + "file": value for name, value in certificates.server.keys().items()}
    )
    context.load_verify_locations(certificates.authority)
    context.verify_mode = ssl.CERT_REQUIRED if answer == "alert" else ssl.CERT_OPTIONAL
    context.minimum_version = context.maximum_version = version

    def serve(connection: socket.socket) -> None:
        wrapped = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with contextlib.suppress(OSError):
            try:
                wrapped.do_handshake()
            except ssl.SSLError:
                # Input that is not read would make a reset of the close, which overtakes the alert.
                with socket.socket(fileno=wrapped.detach()) as plain:
                    plain.settimeout(SECONDS)
                    plain.shutdown(socket.SHUT_WR)
                    while plain.recv(65536):
                        pass
                return
            if answer == "reset":
                # With TLS 1.3 the client may have begun AMQP already.
                reset(wrapped)
            else:
                wrapped.close()

    return TcpServer(serve)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("answer", ["alert", "close", "reset"])
def test_a_broker_that_wants_a_certificate(
    certificates: Certificates, version: ssl.TLSVersion, answer: str
) -> None:
    with demanding(certificates, version, answer) as server:
        assert WANTED in failure_at(server.port)


def test_of_one_that_got_a_certificate_nobody_says_so(certificates: Certificates) -> None:
    with demanding(certificates, ssl.TLSVersion.TLSv1_3) as server:
        keys = certificates.foreign_client
        said = failure_at(server.port, certificate=keys.cert, key=keys.key)
    assert WANTED not in said
    assert "unknown CA" in said
    assert "(see --cert)" in said


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (quiver, ("-c", "1")),
        (quiver, ("--hold", "1", "-d", "1")),
        (quiver, ("--churn", "5", "-d", "1")),
        (arrow, ("send", "-c", "1")),
        (arrow, ("receive", "-c", "1")),
        (arrow, ("send", "--declare", "-c", "1")),
    ],
    ids=["pair", "hold", "churn", "send", "receive", "declare"],
)
def test_all_commands_name_the_options(
    command: Callable[[list[str]], int], words: tuple[str, ...], certificates: Certificates,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    operation = [word for word in words[:1] if word in ("send", "receive")]
    options = [*words[len(operation) :], "--tls-insecure", "--output", str(tmp_path / "out")]
    with demanding(certificates, ssl.TLSVersion.TLSv1_3) as server:
        assert command([*operation, f"amqps://127.0.0.1:{server.port}/q0", *options]) == 1
    assert WANTED in capsys.readouterr().err


# -- The server's words


def refused_lines(server: Server) -> list[str]:
    return re.findall("refused .*", server.running.stderr_so_far())


@contextlib.contextmanager
def telling(directory: Path, **keys: object) -> Iterator[Server]:
    """Run a server with TLS that writes to its log."""
    with running_server(directory, says=None, quiet=0, scheme="amqps", **keys) as server:
        yield server


def test_the_server_tells_why_it_refused(certificates: Certificates, tmp_path: Path) -> None:
    keys = certificates.server.keys()
    with telling(tmp_path, trust_store=certificates.authority, **keys) as server:
        foreign = certificates.foreign_client
        failure_at(server.port)
        failure_at(server.port, certificate=foreign.cert, key=foreign.key)
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            plain.sendall(b"AMQP\0\1\0\0")
            plain.recv(1)
        wait_until(lambda: len(refused_lines(server)) == 3, "three lines are there")
        first, second, third = refused_lines(server)
    assert re.match(r"refused 127\.0\.0\.1:\d+: TLS: peer did not return a certificate", first)
    assert "certificate verify failed: unable to get local issuer certificate" in second
    assert "certificate with SHA-256" in second
    assert "the peer speaks no TLS" in third


def test_the_server_tells_of_the_alerts_of_clients(
    certificates: Certificates, tmp_path: Path
) -> None:
    with telling(tmp_path, **certificates.server.keys()) as server:
        security = Security(tls=True, trust_store=certificates.other_authority)
        with pytest.raises(SecurityError):
            QueueManager("localhost", server.port, security)
        wait_until(lambda: bool(refused_lines(server)), "a line is there")
        assert "does not trust the authority of our certificate" in refused_lines(server)[0]


def test_a_client_that_is_too_old_is_told_with_the_option(
    certificates: Certificates, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with telling(tmp_path, **certificates.server.keys()) as server:
        with (
            socket.create_connection(("127.0.0.1", server.port)) as sock,
            pytest.raises(ssl.SSLError),
        ):
            context.wrap_socket(sock)
        wait_until(lambda: bool(refused_lines(server)), "a line is there")
        assert "(allow-old-tls takes older clients)" in refused_lines(server)[0]


def test_clients_do_not_fill_the_log(certificates: Certificates, tmp_path: Path) -> None:
    """A reason is told its 1st, 10th and 100th time."""
    with telling(tmp_path, trust_store=certificates.authority, **certificates.server.keys()) as on:
        for _ in range(25):
            failure_at(on.port)
        wait_until(lambda: len(refused_lines(on)) == 2, "two lines are there")
        assert refused_lines(on)[1].endswith(", 10 times")


# -- Revocation lists


@dataclass(frozen=True)
class Revoking:
    """An authority with a revocation list, and certificates of it."""

    store: str
    good: dict[str, str]
    revoked: dict[str, str]
    late_store: str


def keys_of(directory: Path, name: str, leaf: trustme.LeafCert) -> dict[str, str]:
    cert, key = directory / f"{name}.pem", directory / f"{name}.key"
    leaf.cert_chain_pems[0].write_to_path(cert)
    leaf.private_key_pem.write_to_path(key)
    return {"cert": str(cert), "key": str(key)}


def name_hash(certificate: x509.Certificate) -> int:
    """Return OpenSSL's hash of a certificate's subject."""
    text = subprocess.run(
        ["openssl", "x509", "-noout", "-subject_hash"],
        input=certificate.public_bytes(serialization.Encoding.PEM),
        capture_output=True,
        check=True,
    ).stdout
    return int(text, 16)


@pytest.fixture(scope="module")
def revoking(tmp_path_factory: pytest.TempPathFactory) -> Revoking:
    folder = tmp_path_factory.mktemp("revoking")
    authority, other = trustme.CA(), trustme.CA()
    good, bad = (authority.issue_cert("localhost", "127.0.0.1") for _ in range(2))
    for name, days in (("store", 9), ("late", -1)):
        # The other authority has no list.
        parts = [
            other.cert_pem.bytes(),
            authority.cert_pem.bytes(),
            list_of(authority, bad.cert_chain_pems[0], days),
        ]
        (folder / f"{name}.pem").write_bytes(b"".join(parts))
    return Revoking(
        store=str(folder / "store.pem"),
        good=keys_of(folder, "good", good),
        revoked=keys_of(folder, "revoked", bad),
        late_store=str(folder / "late.pem"),
    )


def opens(port: int, store: str, keys: dict[str, str]) -> str:
    """Return why a client with a certificate does not get in; empty if it does."""
    security = Security(tls=True, trust_store=store, certificate=keys["cert"], key=keys["key"])
    try:
        with QueueManager("localhost", port, security):
            return ""
    except SecurityError as error:
        return str(error)


def test_a_revoked_client_is_refused(revoking: Revoking, tmp_path: Path) -> None:
    with telling(tmp_path, trust_store=revoking.store, **revoking.good) as server:
        assert opens(server.port, revoking.store, revoking.good) == ""
        assert "certificate revoked" in opens(server.port, revoking.store, revoking.revoked)
        wait_until(lambda: bool(refused_lines(server)), "a line is there")
        assert "certificate verify failed: certificate revoked" in refused_lines(server)[0]


@pytest.mark.parametrize(
    ("scope", "counts"), [(["user"], True), (["ca"], False), (["ca", "user"], True)]
)
def test_lists_about_some_certificates(scope: list[str], counts: bool, tmp_path: Path) -> None:
    """A certificate beside the scope of its authority's list has no list (RFC 5280, 5.2.5)."""
    authority = trustme.CA()
    good, bad = (authority.issue_cert("localhost") for _ in range(2))
    lists = [list_of(authority, bad.cert_chain_pems[0], 9, one) for one in scope]
    store = tmp_path / "store.pem"
    store.write_bytes(authority.cert_pem.bytes() + b"".join(lists))
    keys, revoked = keys_of(tmp_path, "good", good), keys_of(tmp_path, "bad", bad)
    with telling(tmp_path, trust_store=str(store), **keys) as server:
        assert opens(server.port, str(store), keys) == ""
        if counts:
            assert "certificate revoked" in opens(server.port, str(store), revoked)


def test_a_revoked_authority_between_is_refused(tmp_path: Path) -> None:
    """Of a chain each certificate counts, and a folder of a trust store has lists too."""
    root = trustme.CA()
    between = root.create_child_ca()
    deep = between.issue_cert("client@example.org")
    own = keys_of(tmp_path, "own", root.issue_cert("localhost"))
    keys = keys_of(tmp_path, "deep", deep)
    Path(keys["cert"]).write_bytes(b"".join(pem.bytes() for pem in deep.cert_chain_pems))
    store = tmp_path / "store"
    store.mkdir()
    # The names of OpenSSL's folders: the hash of the authority's name (openssl-rehash(1)).
    certificate = x509.load_pem_x509_certificate(root.cert_pem.bytes())
    name = store / f"{name_hash(certificate):08x}"
    name.with_suffix(".0").write_bytes(root.cert_pem.bytes())
    with telling(tmp_path, trust_store=str(store), **own) as server:
        assert opens(server.port, str(store), keys) == ""
    name.with_suffix(".r0").write_bytes(list_of(root, between.cert_pem, 9))
    with telling(tmp_path, trust_store=str(store), **own) as server:
        assert "certificate revoked" in opens(server.port, str(store), keys)
        assert opens(server.port, str(store), own) == ""


def test_a_revoked_server_is_refused(revoking: Revoking, tmp_path: Path) -> None:
    with telling(tmp_path, **revoking.revoked) as server:
        said = opens(server.port, revoking.store, revoking.good)
    assert "certificate verify failed: certificate revoked" in said


def test_a_list_that_is_too_old_is_told(revoking: Revoking, tmp_path: Path) -> None:
    with telling(tmp_path, **revoking.good) as server:
        assert "CRL has expired" in opens(server.port, revoking.late_store, revoking.good)


def test_a_revoked_client_of_an_arrow_is_refused(revoking: Revoking) -> None:
    port = free_port()
    listening = {"connection_mode": "server", "channel_mode": "passive"}
    common = {"scheme": "amqps", "host": "localhost", "trust_store": revoking.store, "count": 1}
    words = arguments("receive", port, **listening, **common, **revoking.good)
    with Running(pyfast(*words)) as receiver:
        receiver.wait_until_listening(port)
        end = run_pyfast(*arguments("send", port, **common, **revoking.revoked))
        assert_error(end, "certificate revoked")
        assert "certificate revoked" in receiver.wait().stderr


def test_a_good_pair_still_works(revoking: Revoking) -> None:
    """An arrow with a revocation list accepts those that are not on it."""
    port = free_port()
    common = {"scheme": "amqps", "host": "localhost", "trust_store": revoking.store, "count": 1}
    listening = {"connection_mode": "server", "channel_mode": "passive"}
    words = arguments("receive", port, **listening, **common, **revoking.good)
    with Running(pyfast(*words)) as receiver:
        receiver.wait_until_listening(port)
        assert_clean(run_pyfast(*arguments("send", port, **common, **revoking.good)))
        assert_clean(receiver.wait())


def test_a_trunk_says_that_it_has_no_certificate(
    certificates: Certificates, tmp_path: Path
) -> None:
    with demanding(certificates, ssl.TLSVersion.TLSv1_3) as other:
        keys = {"connect": f"amqps://localhost:{other.port}", "quiet": 0}
        trust = {"connect_trust_store": certificates.authority}
        with running_server(tmp_path, says=None, **keys, **trust) as server:
            said = server.running.stderr_so_far
            wait_until(lambda: "trunks have none" in said(), "the trunk reports")
