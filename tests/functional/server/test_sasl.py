"""SASL at the server, frame by frame: AMQP 1.0 part 5; the dialogues are in test_arrow_sasl."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.certificates import Certificates
from support.network import other_address
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import AMQP_HEADER, SASL_HEADER, encode_frame, frame, message
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


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [("PLAIN", b"\0alice\0wrong"), ("ANONYMOUS", b""), ("SCRAM-SHA-256", b"")],
)
def test_a_refused_client_gets_the_outcome_and_the_door(
    client: FrameClient, mechanism: str, response: bytes
) -> None:
    assert client.authenticate(mechanism, response).fields == {"code": AUTH}
    assert client.read_to_end() == []


INIT = encode_frame("sasl_init", mechanism="PLAIN", initial_response=PLAIN)
OPEN = encode_frame("open", container_id="x")


@pytest.mark.parametrize(
    "stray",
    [
        pytest.param(AMQP_HEADER + OPEN + INIT, id="a header of AMQP"),
        pytest.param(SASL_HEADER + INIT, id="a header twice"),
        pytest.param(frame(b"") + INIT, id="an empty frame of AMQP"),
        pytest.param(frame(INIT[8:], kind=2), id="a frame of no type"),
        pytest.param(encode_frame("sasl_outcome", code=0) + AMQP_HEADER + OPEN, id="an outcome"),
        pytest.param(encode_frame("sasl_mechanisms"), id="mechanisms"),
    ],
)
def test_what_is_not_due_within_sasl_ends_the_connection(client: FrameClient, stray: bytes) -> None:
    client.exchange_header(SASL_HEADER)
    client.expect("sasl_mechanisms")
    client.send_bytes(stray)
    assert {frame.name for frame in client.read_to_end()} <= {"sasl_outcome"}


@pytest.mark.parametrize("said", [AMQP_HEADER, AMQP_HEADER + OPEN, b"AMQP\x02\x01\0\0"])
def test_a_client_that_skips_sasl_gets_its_header_and_the_end(
    client: FrameClient, said: bytes
) -> None:
    """Part 2.2: the protocol id that the server accepts."""
    client.send_bytes(said)
    client.header(SASL_HEADER)
    assert client.read_to_end() == []


@pytest.mark.parametrize("stray", [INIT, OPEN, SASL_HEADER + INIT], ids=["init", "open", "header"])
def test_only_amqps_header_follows_the_outcome(client: FrameClient, stray: bytes) -> None:
    assert client.authenticate("PLAIN", PLAIN).fields == {"code": OK}
    client.send_bytes(stray)
    assert client.read_header() == AMQP_HEADER
    *_, last = client.read_to_end()
    assert last.condition == "amqp:connection:framing-error"


def test_a_client_need_not_wait_for_the_outcome(client: FrameClient) -> None:
    """Part 2.4.1 lets it send on; what it says counts after a success only."""
    client.exchange_header(SASL_HEADER)
    client.expect("sasl_mechanisms")
    client.send_bytes(INIT + AMQP_HEADER + OPEN)
    assert client.expect("sasl_outcome").fields == {"code": OK}
    assert client.read_header() == AMQP_HEADER
    client.expect("open")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_no_initial_response_gets_an_empty_challenge(client: FrameClient, mechanism: str) -> None:
    """RFC 4422, part 5: a mechanism in which the client goes first asks for its message."""
    client.exchange_header(SASL_HEADER)
    client.expect("sasl_mechanisms")
    client.send("sasl_init", mechanism=mechanism)
    assert client.expect("sasl_challenge").fields["challenge"] == b""
    if mechanism == "PLAIN":
        client.send("sasl_response", response=PLAIN)
    else:
        scram = ScramClient(mechanism, "alice", "correct horse")
        client.send("sasl_response", response=scram.initial)
        challenge = client.expect("sasl_challenge").fields["challenge"]
        client.send("sasl_response", response=scram.respond(challenge))
    assert client.expect("sasl_outcome").fields["code"] == OK
    use(client)


@pytest.mark.parametrize("response", [b"", b"\0alice\0wrong"])
def test_a_wrong_answer_to_the_empty_challenge(client: FrameClient, response: bytes) -> None:
    client.exchange_header(SASL_HEADER)
    client.expect("sasl_mechanisms")
    client.send("sasl_init", mechanism="PLAIN")
    client.expect("sasl_challenge")
    client.send("sasl_response", response=response)
    assert client.expect("sasl_outcome").fields == {"code": AUTH}
    assert client.read_to_end() == []


def test_a_mechanism_that_is_not_offered_gets_no_challenge(client: FrameClient) -> None:
    client.exchange_header(SASL_HEADER)
    client.expect("sasl_mechanisms")
    client.send("sasl_init", mechanism="SCRAM-SHA-1")
    assert client.expect("sasl_outcome").fields == {"code": AUTH}


@pytest.mark.parametrize("cut", [None, 1, 8, 9, 20])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_choice_may_come_with_the_header(
    server: Server, mechanism: str, cut: int | None
) -> None:
    """amqpnetlite does not wait for the offer; the answer is the same wherever writes end."""
    scram = ScramClient("SCRAM-SHA-256", "alice", "correct horse")
    first = PLAIN if mechanism == "PLAIN" else scram.initial
    init = encode_frame("sasl_init", mechanism=mechanism, initial_response=first)
    for _ in range(10):
        with FrameClient(server.port) as client:
            for part in ((SASL_HEADER + init)[:cut], (SASL_HEADER + init)[cut or 10_000 :]):
                client.send_bytes(part)
            assert client.read_header() == SASL_HEADER
            client.expect("sasl_mechanisms")
            if mechanism == "PLAIN":
                assert client.expect("sasl_outcome").fields == {"code": OK}
            else:
                client.expect("sasl_challenge")


@pytest.mark.parametrize("size", [513, 65000])
def test_a_large_name_is_refused_unread(client: FrameClient, size: int) -> None:
    """Part 5.3.1. It takes seconds to normalise 32,500 combining marks."""
    name = "\u0300" * (size // 4) + "\u0316" * (size // 4)
    client.exchange_header(SASL_HEADER)
    client.expect("sasl_mechanisms")
    client.send("sasl_init", mechanism="PLAIN", initial_response=f"\0{name}\0x".encode())
    assert client.read_to_end() == []


def test_no_heartbeat_goes_before_the_header(client: FrameClient) -> None:
    """The server owes a heartbeat as soon as it knows the client's short idle time-out."""
    client.authenticate("PLAIN", PLAIN)
    time.sleep(0.1)
    client.send_bytes(AMQP_HEADER + encode_frame("open", container_id="x", idle_time_out=100))
    assert client.read_header() == AMQP_HEADER
    assert client.read().name == "open"


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
