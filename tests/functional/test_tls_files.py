"""Files that hold something else than a certificate or a key, in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs7, pkcs12
from support.certificates import Certificates, list_of
from support.judgement import assert_error
from support.network import TcpServer
from support.processes import free_port, run
from support.server import command

from quiver_fast.errors import SecurityError
from quiver_fast.management.queues import QueueManager
from quiver_fast.security.security import Security


@pytest.fixture(scope="module")
def unfit(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("unfit")
    key = serialization.load_pem_private_key(Path(certificates.server.key).read_bytes(), None)
    cert = x509.load_pem_x509_certificate(Path(certificates.server.cert).read_bytes())
    lock = serialization.BestAvailableEncryption(b"secret")
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat
    contents = {
        "locked": key.private_bytes(pem, form.PKCS8, lock),
        "old lock": key.private_bytes(pem, form.TraditionalOpenSSL, lock),
        "p12": pkcs12.serialize_key_and_certificates(b"me", key, cert, None, lock),
        "der": cert.public_bytes(serialization.Encoding.DER),
        "jks": b"\xfe\xed\xfe\xed\0\0\0\2" + bytes(40),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: str(folder / name) for name in contents}


UNFIT = [
    ("key", "locked", "is locked by a password"),
    ("key", "old lock", "is locked by a password"),
    ("key", "p12", "is a PKCS #12 file, not PEM"),
    ("cert", "p12", "is a PKCS #12 file, not PEM"),
    ("cert", "der", "is DER, not PEM"),
    ("cert", "jks", "is a Java key store, not PEM"),
    ("trust_store", "p12", "is a PKCS #12 file, not PEM"),
    ("trust_store", "jks", "is a Java key store, not PEM"),
]


@pytest.mark.parametrize(("role", "kind", "words"), UNFIT)
@pytest.mark.parametrize("mode", ["client", "server"])
def test_files_of_other_kinds_are_named(
    certificates: Certificates, unfit: dict[str, str], mode: str, role: str, kind: str, words: str
) -> None:
    files = {**certificates.server.keys(), "trust_store": certificates.authority, role: unfit[kind]}
    with TcpServer(lambda connection: None) as server:
        settings = Security(
            tls=True, certificate=files["cert"], key=files["key"], trust_store=files["trust_store"]
        )
        begin = settings.prepare_server
        if mode == "client":
            begin = partial(QueueManager, "127.0.0.1", server.port, settings)
        with pytest.raises(SecurityError, match=re.escape(words)) as caught:
            begin()
    assert unfit[kind] in str(caught.value)


PARTS = [
    ("key", "cert", "--key: {} has a certificate, and no private key"),
    ("key", "public", "--key: {} has a public key, and no private key"),
    ("key", "request", "--key: {} has a certificate request, and no private key"),
    ("key", "pkcs7", "--key: {} has PKCS #7, and no private key"),
    ("key", "list", "--key: {} has a revocation list, and no private key"),
    ("key", "empty", "--key: {} is empty"),
    ("key", "text", "--key: {} has no private key"),
    ("key", "folder", "--key: {} is a folder, not a file"),
    ("cert", "key", "--cert: {} has a private key, and no certificate"),
    ("cert", "request", "--cert: {} has a certificate request, and no certificate"),
    ("cert", "pkcs7", "--cert: {} has PKCS #7, and no certificate"),
    ("cert", "list", "--cert: {} has a revocation list, and no certificate"),
    ("cert", "empty", "--cert: {} is empty"),
    ("cert", "text", "--cert: {} has no certificate"),
    ("cert", "folder", "--cert: {} is a folder, not a file"),
    ("trust_store", "list", "trust store {}: {} has a revocation list, and no certificate"),
    ("trust_store", "key", "trust store {}: {} has a private key, and no certificate"),
    ("trust_store", "empty", "trust store {}: {} is empty"),
    ("trust_store", "folder", "trust store {}: the folder has no certificate under its hash"),
]  # fmt: skip


@pytest.fixture(scope="module")
def parts(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the paths of files with one part of PEM, and of a folder with an authority."""
    folder = tmp_path_factory.mktemp("parts")
    own = Path(certificates.server.cert).read_bytes()
    key = serialization.load_pem_private_key(Path(certificates.server.key).read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    pem, authority = serialization.Encoding.PEM, trustme.CA()
    bundle = pkcs7.serialize_certificates([x509.load_pem_x509_certificate(own)], pem)
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    contents = {
        "public": key.public_key().public_bytes(pem, public),
        "request": request.sign(key, hashes.SHA256()).public_bytes(pem),
        "pkcs7": bundle,
        "list": list_of(authority, authority.cert_pem, 9),
        "empty": b"",
        "text": b"This is no PEM.\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    authority.cert_pem.write_to_path(folder / "folder" / "ca.pem")
    paths = {name: str(folder / name) for name in [*contents, "folder"]}
    return {**paths, **certificates.server.keys()}


@pytest.mark.parametrize(("role", "part", "words"), PARTS)
@pytest.mark.parametrize("mode", ["client", "server"])
def test_what_a_file_has_is_named(
    certificates: Certificates, parts: dict[str, str], mode: str, role: str, part: str, words: str
) -> None:
    files = {**certificates.server.keys(), "trust_store": certificates.authority, role: parts[part]}
    settings = Security(
        tls=True, certificate=files["cert"], key=files["key"], trust_store=files["trust_store"]
    )
    with TcpServer(lambda connection: None) as server:
        begin: Callable[[], object] = settings.prepare_server
        if mode == "client":
            begin = partial(QueueManager, "127.0.0.1", server.port, settings)
        with pytest.raises(SecurityError, match=re.escape(words.replace("{}", parts[part]))):
            begin()


def test_a_certificate_without_a_key(certificates: Certificates) -> None:
    alone = Security(tls=True, certificate=certificates.server.cert)
    with pytest.raises(SecurityError, match=r"--cert: .* has a certificate, and no private key"):
        alone.prepare_server()


@pytest.mark.parametrize(("role", "part"), [("cert", "folder"), ("trust_store", "list")])
def test_a_server_with_such_a_file_does_not_start(
    certificates: Certificates, parts: dict[str, str], role: str, part: str, tmp_path: Path
) -> None:
    files = {**certificates.server.keys(), role: parts[part]}
    end = run(command(free_port(), tmp_path / "ready", scheme="amqps", **files))
    assert_error(end, parts[part])


def test_a_certificate_with_its_locked_key_in_one_file(
    certificates: Certificates, unfit: dict[str, str], tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    parts = [Path(name).read_bytes() for name in (certificates.server.cert, unfit["locked"])]
    both.write_bytes(b"".join(parts))
    with pytest.raises(SecurityError, match="is locked by a password"):
        Security(tls=True, certificate=str(both)).prepare_server()
    # Another file's key is used.
    Security(tls=True, certificate=str(both), key=certificates.server.key).prepare_server()
