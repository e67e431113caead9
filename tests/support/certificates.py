"""Certificates made for one test run."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

import trustme

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
