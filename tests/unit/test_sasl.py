"""SASL mechanisms against the exchanges printed in their RFCs."""

from __future__ import annotations

import pytest

from quiver_fast.errors import SecurityError
from quiver_fast.security.sasl import choose_client_mechanism
from quiver_fast.security.scram import ScramClient, sasl_prep

# (mechanism, client nonce, server-first, client-final, server-final)
RFC_5802 = (
    "SCRAM-SHA-1",
    "fyko+d2lbbFgONRv9qkxdawL",
    "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
RFC_7677 = (
    "SCRAM-SHA-256",
    "rOprNGfwEbeRWgbNEkqO",
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


@pytest.mark.parametrize(("name", "nonce", "first", "final", "proof"), [RFC_5802, RFC_7677])
def test_scram_exchanges_of_the_rfcs(
    name: str, nonce: str, first: str, final: str, proof: str
) -> None:
    client = ScramClient(name, "user", "pencil", nonce)
    assert client.initial == f"n,,n=user,r={nonce}".encode()
    assert client.respond(first.encode()) == final.encode()
    assert client.respond(proof.encode()) == b""
    client.finish(b"")


def test_scram_takes_the_servers_proof_with_the_outcome() -> None:
    name, nonce, first, _, proof = RFC_7677
    client = ScramClient(name, "user", "pencil", nonce)
    client.respond(first.encode())
    client.finish(proof.encode())


def exchange(client: ScramClient, first: str, final: str | None) -> None:
    client.respond(first.encode())
    assert final is not None
    client.finish(final.encode())


@pytest.mark.parametrize(
    ("first", "final", "reason"),
    [
        ("r=other,s=QSXCR+Q6sek8bf92,i=4096", None, "nonce"),
        (f"r={RFC_7677[1]},s=QSXCR+Q6sek8bf92,i=4096", None, "nonce"),
        (f"r={RFC_7677[1]}x,s=QSXCR+Q6sek8bf92,i=0", None, "iterations"),
        (f"r={RFC_7677[1]}x,s=QSXCR+Q6sek8bf92,i=99999999999", None, "iterations"),
        ("nonsense", None, "malformed"),
        ("r=,i=4", None, "malformed"),
        (RFC_7677[2], "v=AAAA", "does not know the password"),
        (RFC_7677[2], "e=invalid-proof", "invalid-proof"),
        (RFC_7677[2], "x=1", "malformed"),
        (RFC_7677[2], "", "no proof"),
    ],
)
def test_scram_refuses_a_server_that_cheats(first: str, final: str | None, reason: str) -> None:
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", RFC_7677[1])
    with pytest.raises(SecurityError, match=reason):
        exchange(client, first, final)


def test_scram_escapes_user_names() -> None:
    assert b"n=a=3Db=2Cc," in ScramClient("SCRAM-SHA-1", "a=b,c", "p").initial


def choose(
    offered: str,
    username: str | None = None,
    password: str | None = None,
    certificate: bool = False,
    allowed: str | None = None,
) -> str:
    mechanism = choose_client_mechanism(
        offered.split(),
        username=username,
        password=password,
        certificate=certificate,
        allowed=allowed.split() if allowed else None,
    )
    return mechanism.name


def test_the_strongest_that_fits_is_chosen() -> None:
    everything = "PLAIN SCRAM-SHA-1 ANONYMOUS EXTERNAL SCRAM-SHA-256"
    assert choose(everything) == "ANONYMOUS"
    assert choose(everything, "u", "p") == "SCRAM-SHA-256"
    assert choose("PLAIN SCRAM-SHA-1", "u", "p") == "SCRAM-SHA-1"
    assert choose("PLAIN ANONYMOUS", "u", "p") == "PLAIN"
    assert choose(everything, certificate=True) == "EXTERNAL"
    assert choose(everything, "u", "p", allowed="PLAIN SCRAM-SHA-256") == "PLAIN"


def test_a_password_is_not_given_up_silently() -> None:
    with pytest.raises(SecurityError, match="the peer offers ANONYMOUS, usable here: SCRAM"):
        choose("ANONYMOUS", "u", "p")
    assert choose("ANONYMOUS", "u", "p", allowed="ANONYMOUS") == "ANONYMOUS"


@pytest.mark.parametrize("offered", ["PLAIN ANONYMOUS", "SCRAM-SHA-256 ANONYMOUS", "ANONYMOUS"])
def test_a_user_without_password_is_not_given_up_silently(offered: str) -> None:
    with pytest.raises(SecurityError, match="user 'u' has no password: give --password-file"):
        choose(offered, "u")
    with pytest.raises(SecurityError, match="give --password-file"):
        choose(offered, "u", allowed="PLAIN")
    assert choose(offered, "u", allowed="ANONYMOUS") == "ANONYMOUS"
    assert choose(f"{offered} EXTERNAL", "u", certificate=True) == "EXTERNAL"
    with pytest.raises(SecurityError, match="usable here: EXTERNAL; user 'u' has no password"):
        choose(offered, "u", certificate=True)


def test_a_password_is_not_sent_in_clear_silently() -> None:
    keys = {"username": "u", "password": "p", "certificate": False, "readable": True}
    with pytest.raises(SecurityError, match="use TLS, or allow that with sasl-mechanisms=PLAIN"):
        choose_client_mechanism(["PLAIN"], allowed=None, **keys)
    assert choose_client_mechanism(["PLAIN"], allowed=["PLAIN"], **keys).name == "PLAIN"
    offered = ["PLAIN", "SCRAM-SHA-256"]
    assert choose_client_mechanism(offered, allowed=None, **keys).name == "SCRAM-SHA-256"


def test_plain_response_is_that_of_rfc_4616() -> None:
    mechanism = choose_client_mechanism(
        ["PLAIN"], username="tim", password="tanstaaftanstaaf", certificate=False, allowed=None
    )
    assert mechanism.initial == b"\0tim\0tanstaaftanstaaf"


def test_sasl_prep_examples_of_rfc_4013() -> None:
    assert sasl_prep("I\u00adX") == "IX"
    assert sasl_prep("\u00aa") == "a"
    assert sasl_prep("\u2168") == "IX"
    with pytest.raises(SecurityError):
        sasl_prep("\u0007")
