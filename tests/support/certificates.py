"""Certificates made for one test run."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

EXPIRED = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True)
class Identity:
    """Files of one certificate and its private key, PEM."""

    cert: str
    key: str

    def keys(self) -> dict[str, str]:
        """Return them by their keys in the arrow contract."""
        return {"cert": self.cert, "key": self.key}


@dataclass(frozen=True)
class Certificates:
    """Authorities and certificates for tests."""

    authority: str
    other_authority: str
    server: Identity
    elsewhere: Identity
    expired: Identity
    client: Identity
    foreign_client: Identity


def _issue(directory: Path, name: str, certificate: trustme.LeafCert) -> Identity:
    cert, key = directory / f"{name}.pem", directory / f"{name}.key"
    certificate.cert_chain_pems[0].write_to_path(cert)
    certificate.private_key_pem.write_to_path(key)
    return Identity(str(cert), str(key))


def make_certificates(directory: Path) -> Certificates:
    """Make two authorities and their certificates.

    Args:
        directory: The folder for the PEM files.
    """
    authority, other = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(directory / "authority.pem")
    other.cert_pem.write_to_path(directory / "other.pem")
    here = ("localhost", "127.0.0.1", "::1")
    expired = authority.issue_cert(*here, not_after=EXPIRED)
    return Certificates(
        authority=str(directory / "authority.pem"),
        other_authority=str(directory / "other.pem"),
        server=_issue(directory, "server", authority.issue_cert(*here)),
        elsewhere=_issue(directory, "elsewhere", authority.issue_cert("elsewhere.example")),
        expired=_issue(directory, "expired", expired),
        client=_issue(directory, "client", authority.issue_cert("client@example.org")),
        foreign_client=_issue(directory, "foreign", other.issue_cert("client@example.org")),
    )


def list_of(
    authority: trustme.CA, revoked_one: trustme.Blob, days: int, scope: str | None = None
) -> bytes:
    """Return the authority's list with one revoked certificate, which is valid for so long.

    Args:
        authority: The issuer.
        revoked_one: The revoked certificate.
        days: For how many days the list is valid.
        scope: The certificates that the list is about: "user", "ca", or all.
    """
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    one = x509.load_pem_x509_certificate(revoked_one.bytes())
    now = datetime.datetime.now(datetime.timezone.utc)
    revoked = (
        x509.RevokedCertificateBuilder()
        .serial_number(one.serial_number)
        .revocation_date(now)
        .build()
    )
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.subject)
        .last_update(now - datetime.timedelta(9))
        .next_update(now + datetime.timedelta(days))
        .add_revoked_certificate(revoked)
    )
    if scope is not None:
        of_users, of_authorities = scope == "user", scope == "ca"
        point = x509.IssuingDistributionPoint(
            None, None, of_users, of_authorities, None, False, False
        )
        builder = builder.add_extension(point, critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
