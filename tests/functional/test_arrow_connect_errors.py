"""The arrow cannot get as far as a link: network, TLS, SASL. One line, exit 1, no hang."""

from __future__ import annotations

import pytest
from proton import Condition
from support.arrows import arguments, pyfast, run_at, run_pyfast
from support.certificates import Certificates
from support.judgement import assert_clean, assert_error
from support.network import silent_server, tls_server
from support.processes import Finished, Running, free_port
from support.sasl_server import AUTH, SYS, SYS_PERM, SYS_TEMP, SaslServer, authenticating_proxy
from support.scripted_peer import RefusesConnection, ScriptedPeer

NOT_YOU = Condition("amqp:unauthorized-access", "not you")

BOTH = pytest.mark.parametrize("operation", ["send", "receive"])


@BOTH
def test_connection_refused(operation: str) -> None:
    port = free_port()
    end = run_pyfast(*arguments(operation, port))
    assert_error(end, "refused", f"127.0.0.1:{port}")


@BOTH
def test_unresolvable_host(operation: str) -> None:
    end = run_pyfast(*arguments(operation, 5672, host="no-such-host.invalid"))
    assert_error(end, "no-such-host.invalid")


def test_port_in_use_in_server_mode() -> None:
    with silent_server() as server:
        words = arguments("receive", server.port, connection_mode="server")
        assert_error(run_pyfast(*words), str(server.port), "in use")


def test_peer_that_closes_without_a_word() -> None:
    end = run_at(RefusesConnection(None), "send")
    assert_error(end, "closed")


@BOTH
def test_peer_that_does_not_speak_amqp(operation: str) -> None:
    with silent_server(greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        end = run_pyfast(*arguments(operation, server.port))
    assert_error(end, f"127.0.0.1:{server.port}")


def test_peer_that_says_nothing_ends_with_the_idle_timeout() -> None:
    with silent_server() as server:
        end = run_pyfast(*arguments("send", server.port, idle_timeout=1))
    assert_error(end, f"127.0.0.1:{server.port}")


@BOTH
def test_connection_refused_by_the_peer_with_a_condition(operation: str) -> None:
    end = run_at(RefusesConnection(NOT_YOU), operation)
    assert_error(end, "amqp:unauthorized-access", "not you")


# -- TLS

TLS = {"scheme": "amqps", "host": "localhost"}


def tls_end(certificates: Certificates, identity: str, **client: object) -> Finished:
    """Run a client arrow against a TLS server with the given identity."""
    with tls_server(**getattr(certificates, identity).keys()) as server:
        options = {"trust_store": certificates.authority, **TLS, **client}
        return run_pyfast(*arguments("send", server.port, **options))


def test_tls_certificate_of_an_unknown_authority(certificates: Certificates) -> None:
    end = tls_end(certificates, "server", trust_store=certificates.other_authority)
    assert_error(end, "certificate")


def test_tls_certificate_is_verified_by_default(certificates: Certificates) -> None:
    end = tls_end(certificates, "server", trust_store=None)
    assert_error(end, "certificate")


def test_tls_certificate_for_another_host(certificates: Certificates) -> None:
    end = tls_end(certificates, "elsewhere", host="127.0.0.1")
    assert_error(end, "certificate", "127.0.0.1")


def test_tls_certificate_for_another_host_name(certificates: Certificates) -> None:
    end = tls_end(certificates, "elsewhere")
    assert_error(end, "certificate", "localhost")


def test_tls_certificate_that_has_expired(certificates: Certificates) -> None:
    end = tls_end(certificates, "expired")
    assert_error(end, "certificate", "expired")


@pytest.mark.parametrize("identity", ["elsewhere", "expired"])
def test_tls_verify_off_takes_any_certificate(certificates: Certificates, identity: str) -> None:
    port = free_port()
    words = arguments(
        "receive",
        port,
        connection_mode="server",
        channel_mode="passive",
        **TLS,
        **getattr(certificates, identity).keys(),
    )
    with Running(pyfast(*words)) as listening:
        listening.wait_until_listening(port)
        assert_clean(run_pyfast(*arguments("send", port, tls_verify=0, **TLS)))
        assert_clean(listening.wait())


def test_plain_peer_on_a_tls_port(certificates: Certificates) -> None:
    with ScriptedPeer() as peer:
        words = arguments("send", peer.port, scheme="amqps", trust_store=certificates.authority)
        assert_error(run_pyfast(*words), "TLS", f"127.0.0.1:{peer.port}")


def test_plain_client_of_a_tls_server_is_no_peer(certificates: Certificates) -> None:
    port = free_port()
    keys = certificates.server.keys()
    words = arguments("receive", port, scheme="amqps", connection_mode="server", **keys)
    with Running(pyfast(*words)) as listening:
        listening.wait_until_listening(port)
        assert_error(run_pyfast(*arguments("send", port)), f"127.0.0.1:{port}")


@pytest.mark.parametrize("key", ["cert", "key", "trust-store"])
def test_missing_certificate_file_is_named(certificates: Certificates, key: str) -> None:
    keys = {**certificates.client.keys(), "trust-store": certificates.authority}
    keys[key] = "/no/such/file.pem"
    end = run_pyfast(*arguments("send", free_port(), scheme="amqps", **keys))
    assert end.code in (1, 2)
    assert_error(end, "/no/such/file.pem", code=end.code)


def test_key_of_another_certificate(certificates: Certificates) -> None:
    keys = {"cert": certificates.client.cert, "key": certificates.server.key}
    end = run_at(ScriptedPeer(), "send", scheme="amqps", **keys)
    assert_error(end, "key")


def test_client_certificate_demanded_and_absent(certificates: Certificates) -> None:
    port = free_port()
    server = arguments(
        "receive",
        port,
        scheme="amqps",
        connection_mode="server",
        channel_mode="passive",
        trust_store=certificates.authority,
        **certificates.server.keys(),
    )
    client = arguments("send", port, scheme="amqps", trust_store=certificates.authority)
    with Running(pyfast(*server)) as listening:
        listening.wait_until_listening(port)
        assert_error(run_pyfast(*client), f"127.0.0.1:{port}")


# -- SASL

USER = {"username": "alice", "password": "correct horse"}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256"])
def test_sasl_wrong_password(mechanism: str) -> None:
    sasl = SaslServer((mechanism,), {"alice": "another"})
    with authenticating_proxy(sasl) as server:
        end = run_pyfast(*arguments("send", server.port, **USER))
    assert_error(end, mechanism, f"127.0.0.1:{server.port}")
    assert "correct horse" not in end.stderr


def test_sasl_unknown_user() -> None:
    with authenticating_proxy(SaslServer(("SCRAM-SHA-256",), {})) as server:
        end = run_pyfast(*arguments("send", server.port, **USER))
    assert_error(end, "SASL")


@pytest.mark.parametrize(
    ("code", "word"),
    [(AUTH, "refused"), (SYS, "(sys)"), (SYS_PERM, "(sys-perm)"), (SYS_TEMP, "(sys-temp)")],
)
def test_sasl_fails(code: int, word: str) -> None:
    """A failure of the peer's own is none of our credentials (part 5.3.3.6)."""
    with authenticating_proxy(SaslServer(("ANONYMOUS",), outcome=code)) as server:
        end = run_pyfast(*arguments("receive", server.port))
    assert_error(end, "SASL", f"127.0.0.1:{server.port}", word)
    assert ("credentials were refused" in end.stderr) == (code == AUTH)


@pytest.mark.parametrize("offered", ["OAUTHBEARER", "GSSAPI"])
def test_sasl_no_common_mechanism(offered: str) -> None:
    """No credentials were sent, so none were refused. (The engine hides GSSAPI from us.)"""
    sasl = SaslServer((offered,))
    with authenticating_proxy(sasl) as server:
        end = run_pyfast(*arguments("send", server.port))
    assert_error(end, "SASL", "OAUTHBEARER" if offered == "OAUTHBEARER" else "mechanism")
    assert "refused" not in end.stderr
    assert sasl.inits == []


def test_sasl_only_the_mechanisms_allowed_are_used() -> None:
    sasl = SaslServer(("PLAIN",), {"alice": "correct horse"})
    with authenticating_proxy(sasl) as server:
        words = arguments("send", server.port, sasl_mechanisms="SCRAM-SHA-256", **USER)
        end = run_pyfast(*words)
    assert_error(end, "SASL", "PLAIN")
    assert sasl.inits == []


def test_sasl_credentials_are_not_given_to_an_anonymous_server() -> None:
    """Credentials asked for and not checked would be a silent downgrade."""
    sasl = SaslServer(("ANONYMOUS",), outcome=AUTH)
    with authenticating_proxy(sasl) as server:
        end = run_pyfast(*arguments("send", server.port, **USER))
    assert_error(end, "SASL")
    assert all(b"correct horse" not in response for _, response in sasl.inits)


def test_scram_unmasks_an_impostor() -> None:
    """RFC 5802, section 5: the client must check the server's signature."""
    for in_outcome in (False, True):
        sasl = SaslServer(
            ("SCRAM-SHA-256",),
            {"alice": "correct horse"},
            forge=True,
            signature_in_outcome=in_outcome,
        )
        with authenticating_proxy(sasl, target=free_port()) as server:
            end = run_pyfast(*arguments("send", server.port, **USER))
        assert_error(end, "SCRAM")


def test_server_that_demands_credentials_refuses_others() -> None:
    port = free_port()
    keys = {"connection_mode": "server", "channel_mode": "passive", **USER}
    with Running(pyfast(*arguments("receive", port, **keys))) as listening:
        listening.wait_until_listening(port)
        wrong = run_pyfast(*arguments("send", port, username="alice", password="guess"))
    assert_error(wrong, "SASL")
