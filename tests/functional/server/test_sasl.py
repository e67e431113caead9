"""SASL at the server, frame by frame: AMQP 1.0 part 5; the dialogues are in test_arrow_sasl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.amqp_frames import SASL_HEADER, FrameClient, encode_frame, message
from support.certificates import Certificates
from support.network import other_address
from support.server import Server, engine_is_old, running_server

from quiver_fast.security.scram import ScramClient

OK, AUTH = 0, 1
PLAIN = b"\0alice\0correct horse"
USER = {"user": "alice", "password": "correct horse"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server"), **USER) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[FrameClient]:
    with FrameClient(server.port) as connection:
        yield connection


def use(client: FrameClient) -> None:
    """Send a message, as an authenticated client may."""
    client.open()
    client.begin()
    client.attach_sender("sasl")
    client.wait_for_credit()
    client.transfer(0, message(b"x"))
    assert client.expect("disposition").fields["state"].name == "accepted"


def test_plain(client: FrameClient) -> None:
    assert client.authenticate("PLAIN", PLAIN).fields == {"code": OK}
    use(client)


def test_scram(client: FrameClient) -> None:
    client.exchange_header(SASL_HEADER)
    offered = client.expect("sasl_mechanisms").fields["sasl_server_mechanisms"]
    assert offered == ["SCRAM-SHA-256", "PLAIN"]
    scram = ScramClient("SCRAM-SHA-256", "alice", "correct horse")
    client.send("sasl_init", mechanism=scram.name, initial_response=scram.initial)
    challenge = client.expect("sasl_challenge").fields["challenge"]
    client.send("sasl_response", response=scram.respond(challenge))
    outcome = client.expect("sasl_outcome").fields
    assert outcome["code"] == OK
    scram.finish(outcome["additional_data"])
    use(client)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [("PLAIN", b"\0alice\0wrong"), ("ANONYMOUS", b""), ("EXTERNAL", b""), ("SCRAM-SHA-256", b"")],
)
def test_a_refused_client_gets_the_outcome_and_the_door(
    client: FrameClient, mechanism: str, response: bytes
) -> None:
    assert client.authenticate(mechanism, response).fields == {"code": AUTH}
    assert client.read_to_end() == []


def test_amqp_frames_among_sasl_frames_do_nothing(server: Server, client: FrameClient) -> None:
    """The engine takes them before authentication; nothing may come of that."""
    client.exchange_header(SASL_HEADER)
    client.expect("sasl_mechanisms")
    early = [
        encode_frame("open", container_id="x"),
        encode_frame("begin", next_outgoing_id=0, incoming_window=9, outgoing_window=9),
    ]
    client.send_bytes(b"".join(early))
    assert {frame.name for frame in client.read_to_end()} <= {"sasl_outcome"}


@pytest.mark.skipif(engine_is_old(), reason="Proton before 0.40 ignores them")
@pytest.mark.parametrize("name", ["sasl_init", "sasl_response"])
def test_sasl_frames_among_amqp_frames_close_the_connection(client: FrameClient, name: str) -> None:
    client.authenticate("PLAIN", PLAIN)
    client.open()
    client.send_bytes(encode_frame(name) * 3)
    assert client.expect("close").condition == "amqp:connection:framing-error"


@pytest.mark.parametrize("allowed", [0, 1])
def test_plain_from_another_machine_only_where_allowed(tmp_path: Path, allowed: int) -> None:
    host = other_address()
    keys = {**USER, "host": host, "allow_insecure_plain": allowed}
    with running_server(tmp_path, **keys) as server, FrameClient(server.port, host) as client:
        client.exchange_header(SASL_HEADER)
        offered = client.expect("sasl_mechanisms").fields["sasl_server_mechanisms"]
        assert offered == ["SCRAM-SHA-256", *["PLAIN"] * allowed]


def test_a_client_that_goes_without_tls_gets_no_answer(
    tmp_path: Path, certificates: Certificates
) -> None:
    """It would send a password in clear, and the engine looks for TLS after that only."""
    host = other_address()
    keys = {**USER, **certificates.server.keys(), "scheme": "amqps", "host": host}
    with running_server(tmp_path, **keys) as server, FrameClient(server.port, host) as client:
        client.send_bytes(SASL_HEADER)
        with pytest.raises((EOFError, ConnectionError)):
            client.read_header()
