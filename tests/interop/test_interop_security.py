"""TLS and SASL between engines, in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.arrows import COMMANDS, OPPOSITE, Pair, arguments, pyfast, run_pair, run_pyfast
from support.cases import cases
from support.certificates import Certificates
from support.judgement import assert_clean, assert_error
from support.processes import Running, free_port, run
from support.sasl_server import SaslServer, authenticating_proxy
from support.scripted_peer import ScriptedPeer
from support.server import running_server

PROTON = pytest.param("proton", marks=pytest.mark.peer("proton"))
RHEA = pytest.param("rhea", marks=pytest.mark.peer("rhea"))
LARGE = {("proton", "send"), ("rhea", "receive")}
ALL = pytest.mark.parametrize("other", ["pyfast", PROTON, RHEA])
ROLES = pytest.mark.parametrize("role", ["send", "receive"])
# pyfast with itself has both roles in one pair; of others each role and each mode.
MODES = pytest.mark.parametrize(
    ("other", "role", "mode"),
    cases(
        ["pyfast", PROTON, RHEA], ["send", "receive"], ["client", "server"],
        gate=lambda other, role, mode: (
            role == "send" if other == "pyfast" else (role == "send") == (mode == "client")
        ),
    ),
)  # fmt: skip

# A name, because Proton's own TLS does not match certificates by IP address.
TLS = {"scheme": "amqps", "host": "localhost"}

USER = {"username": "alice", "password": "correct horse"}


def run_ends(
    role: str,
    other: str,
    mode: str,
    *,
    server: dict[str, Any],
    client: dict[str, Any],
    **both: Any,
) -> None:
    """Run pyfast in `role` and connection mode `mode` against `other`; both must succeed.

    Args:
        role: The operation of pyfast, `send` or `receive`.
        other: The peer.
        mode: The mode of pyfast, `client` or `server`.
        server: Options of the end that listens.
        client: Options of the end that connects.
        both: Options of both.
    """
    listens = role if mode == "server" else OPPOSITE[role]
    options = {listens: server, OPPOSITE[listens]: client}
    names = {role: "pyfast", OPPOSITE[role]: other}
    pair = run_pair(
        names["send"],
        names["receive"],
        server=listens,
        sender_options=options["send"],
        receiver_options=options["receive"],
        count=100,
        **both,
    )
    pair.check(100)


@MODES
def test_tls(role: str, other: str, mode: str, certificates: Certificates) -> None:
    run_ends(
        role,
        other,
        mode,
        server=certificates.server.keys(),
        client={"trust_store": certificates.authority},
        **TLS,
    )


@pytest.mark.parametrize("other", ["pyfast", RHEA])
def test_tls_by_ip_address(other: str, certificates: Certificates) -> None:
    """The certificate names 127.0.0.1: RFC 6125 (B.2.2), RFC 2818 (3.1), an iPAddress name."""
    run_ends(
        "send",
        other,
        "client",
        server=certificates.server.keys(),
        client={"trust_store": certificates.authority},
        scheme="amqps",
        host="127.0.0.1",
    )


@pytest.mark.parametrize(
    ("other", "role"), cases([PROTON, RHEA], ["send", "receive"], gate=lambda *each: each in LARGE)
)
def test_tls_with_large_bodies(role: str, other: str, certificates: Certificates) -> None:
    run_ends(
        role,
        other,
        "client",
        server=certificates.server.keys(),
        client={"trust_store": certificates.authority},
        **TLS,
        body_size=300_000,
    )


@MODES
def test_external_by_client_certificate(
    role: str, other: str, mode: str, certificates: Certificates
) -> None:
    """The server demands a certificate and sees SASL EXTERNAL."""
    server = {**certificates.server.keys(), "trust_store": certificates.authority}
    if mode == "client" and other == "proton":
        server["expect_mechanism"] = "EXTERNAL"
    client = {**certificates.client.keys(), "trust_store": certificates.authority}
    if other == "proton" and mode == "server":
        client["sasl_mechanisms"] = "EXTERNAL"
    run_ends(role, other, mode, server=server, client=client, **TLS)


def test_client_certificate_of_another_authority(certificates: Certificates) -> None:
    port = free_port()
    server = arguments(
        "receive",
        port,
        **TLS,
        connection_mode="server",
        channel_mode="passive",
        trust_store=certificates.authority,
        **certificates.server.keys(),
    )
    client = arguments(
        "send",
        port,
        **TLS,
        trust_store=certificates.authority,
        **certificates.foreign_client.keys(),
    )
    with Running(pyfast(*server)) as listening:
        listening.wait_until_listening(port)
        assert_error(run_pyfast(*client), f"localhost:{port}")


@ALL
@ROLES
def test_plain_at_our_server(role: str, other: str) -> None:
    run_ends(role, other, "server", server=USER, client=USER)


@ROLES
@pytest.mark.peer("rhea")
def test_plain_at_the_server_of_rhea(role: str) -> None:
    run_ends(role, "rhea", "client", server=USER, client=USER)


@ALL
def test_plain_within_tls(other: str, certificates: Certificates) -> None:
    run_ends(
        "receive",
        other,
        "server",
        server={**certificates.server.keys(), **USER},
        client={"trust_store": certificates.authority, **USER},
        **TLS,
    )


@ALL
def test_a_user_at_our_server(other: str, tmp_path: Path) -> None:
    """Ours takes SCRAM-SHA-256, the others what they have of what is offered: PLAIN."""
    login = {"user": USER["username"], "password": USER["password"]}
    with running_server(tmp_path, **login) as server:
        sender = run([*COMMANDS[other], *arguments("send", server.port, **USER)])
        receiver = run([*COMMANDS[other], *arguments("receive", server.port, **USER)])
        Pair(sender, receiver).check(100)
        wrong = {**USER, "password": "battery staple"}
        refused = run_pyfast(*arguments("send", server.port, **wrong))
        assert_error(refused, "SASL SCRAM-SHA-256: our credentials were refused")
        unknown = run_pyfast(*arguments("send", server.port))
        assert_error(unknown, "the peer offers SCRAM-SHA-256 PLAIN, usable here: ANONYMOUS")


# -- mechanisms that the other engines' servers lack, by support.sasl_server

CREDENTIALS = [
    ("alice", "correct horse"),
    ("al,ice=bob", "a,b=c"),  # RFC 5802, 5.1: ',' and '=' are escaped in user names
    ("j\u00fcrgen", "pass\u00a0w\u00f6rd"),  # RFC 5802, 5.1: SASLprep makes U+00A0 a space
]


@pytest.mark.peer("proton")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
@pytest.mark.parametrize("in_outcome", [False, True])
@pytest.mark.parametrize("role", ["send", pytest.param("receive", marks=pytest.mark.slow)])
def test_scram(role: str, mechanism: str, in_outcome: bool) -> None:
    sasl = SaslServer((mechanism,), {"alice": "correct horse"}, signature_in_outcome=in_outcome)
    with ScriptedPeer() as peer, authenticating_proxy(sasl, peer.port) as server:
        end = run_pyfast(*arguments(role, server.port, **USER))
    assert_clean(end)
    assert len(end.lines) == 100
    assert [name for name, _ in sasl.inits] == [mechanism]


@pytest.mark.peer("proton")
@pytest.mark.parametrize(("username", "password"), CREDENTIALS[1:])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_unusual_credentials(mechanism: str, username: str, password: str) -> None:
    prepared = password if mechanism == "PLAIN" else password.replace("\u00a0", " ")
    sasl = SaslServer((mechanism,), {username: prepared})
    with ScriptedPeer() as peer, authenticating_proxy(sasl, peer.port) as server:
        words = arguments("send", server.port, username=username, password=password)
        assert_clean(run_pyfast(*words))


@pytest.mark.peer("proton")
def test_strongest_mechanism_is_chosen() -> None:
    offered = ("ANONYMOUS", "PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256")
    sasl = SaslServer(offered, {"alice": "correct horse"})
    with ScriptedPeer() as peer, authenticating_proxy(sasl, peer.port) as server:
        assert_clean(run_pyfast(*arguments("send", server.port, **USER)))
    assert [name for name, _ in sasl.inits] == ["SCRAM-SHA-256"]


@pytest.mark.peer("proton")
@pytest.mark.parametrize("allowed", [None, "ANONYMOUS"])
def test_anonymous_by_default_and_on_demand(allowed: str | None) -> None:
    sasl = SaslServer(("SCRAM-SHA-256", "PLAIN", "ANONYMOUS"))
    with ScriptedPeer() as peer, authenticating_proxy(sasl, peer.port) as server:
        assert_clean(run_pyfast(*arguments("send", server.port, sasl_mechanisms=allowed)))
    assert [name for name, _ in sasl.inits] == ["ANONYMOUS"]
