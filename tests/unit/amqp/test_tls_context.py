"""TLS contexts as Python makes them, with the files that a user names."""

from __future__ import annotations

import pytest
from support.certificates import Certificates

import quiver_fast
from quiver_fast.amqp.tls import TlsContext, present
from quiver_fast.errors import SecurityError


def test_the_build_says_whether_it_has_tls() -> None:
    assert present() is quiver_fast.has("tls")


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("peer", ["any", "requested", "required"])
def test_files_that_fit(certificates: Certificates, server: bool, peer: str) -> None:
    keys = certificates.server
    TlsContext(
        server=server, certificate=keys.cert, key=keys.key, trust_store=certificates.authority,
        peer=peer,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("certificate", "key", "words"),
    [
        ("server", "client", "key values mismatch"),
        ("server", None, "cannot use certificate"),
    ],
)
def test_a_certificate_that_cannot_be_used(
    certificates: Certificates, certificate: str, key: str | None, words: str
) -> None:
    cert = getattr(certificates, certificate).cert
    private = getattr(certificates, key).key if key else None
    with pytest.raises(SecurityError, match=f"^TLS: cannot use certificate {cert} .*: ") as caught:
        TlsContext(server=True, certificate=cert, key=private)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_trust_store_that_has_no_authority(certificates: Certificates) -> None:
    store = certificates.server.key
    with pytest.raises(SecurityError, match=f"^TLS: cannot use trust store {store}: "):
        TlsContext(server=False, trust_store=store)
