"""SASL at our arrow as a server, frame by frame: AMQP 1.0 part 5, section 5.3."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from support.arrows import arguments, pyfast
from support.judgement import assert_error
from support.network import other_address
from support.processes import Running, free_port

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import AMQP_HEADER, SASL_HEADER, encode_frame
from quiver_fast.security.scram import ScramClient

OK, AUTH = 0, 1
USER = {"username": "alice", "password": "correct horse"}
PLAIN = b"\0alice\0correct horse"


@contextlib.contextmanager
def arrow(host: str = "127.0.0.1", **changes: object) -> Iterator[tuple[Running, FrameClient]]:
    """Start an arrow that listens, and connect to it."""
    port = free_port()
    listening = {"connection_mode": "server", "channel_mode": "passive", "host": host}
    with Running(pyfast(*arguments("receive", port, **{**listening, **changes}))) as running:
        running.wait_until_listening(port)
        with FrameClient(port, host) as client:
            yield running, client


def offers(client: FrameClient) -> list[str]:
    client.exchange_header(SASL_HEADER)
    names: list[str] = client.expect("sasl_mechanisms").fields["sasl_server_mechanisms"]
    return names


def test_scram_to_the_open_frame() -> None:
    """The server's proof comes with the outcome: RFC 4422, 3.6 and AMQP 5.3.3.6."""
    with arrow(**USER) as (_, client):
        assert offers(client) == ["SCRAM-SHA-256", "PLAIN"]
        scram = ScramClient("SCRAM-SHA-256", "alice", "correct horse")
        client.send("sasl_init", mechanism=scram.name, initial_response=scram.initial)
        challenge = client.expect("sasl_challenge").fields["challenge"]
        client.send("sasl_response", response=scram.respond(challenge))
        outcome = client.expect("sasl_outcome").fields
        assert outcome["code"] == OK
        scram.finish(outcome["additional_data"])
        client.open()


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("mallory", "correct horse")])
def test_scram_tells_nothing_of_who_is_known(user: str, password: str) -> None:
    with arrow(**USER) as (running, client):
        offers(client)
        scram = ScramClient("SCRAM-SHA-256", user, password)
        client.send("sasl_init", mechanism=scram.name, initial_response=scram.initial)
        challenge = client.expect("sasl_challenge").fields["challenge"]
        client.send("sasl_response", response=scram.respond(challenge))
        assert client.expect("sasl_outcome").fields == {"code": AUTH}
        assert client.read_to_end() == []
        assert_error(running.wait(), "SCRAM-SHA-256", "credentials were refused")


@pytest.mark.parametrize("response", [b"\0alice\0wrong", b"\0mallory\0correct horse", b"", b"\xff"])
def test_plain_with_wrong_credentials(response: bytes) -> None:
    with arrow(**USER) as (running, client):
        assert client.authenticate("PLAIN", response).fields == {"code": AUTH}
        assert client.read_to_end() == []
        assert_error(running.wait(), "PLAIN", "credentials were refused")


@pytest.mark.parametrize("mechanism", ["ANONYMOUS", "EXTERNAL", "SCRAM-SHA-1", "", "x" * 300])
def test_a_mechanism_that_is_not_offered(mechanism: str) -> None:
    with arrow(**USER) as (running, client):
        assert client.authenticate(mechanism).fields == {"code": AUTH}
        assert_error(running.wait(), "SASL")


def test_without_a_user_anonymous_is_taken() -> None:
    with arrow() as (_, client):
        assert client.authenticate("ANONYMOUS").fields == {"code": OK}
        client.open()


def test_with_a_user_sasl_cannot_be_skipped() -> None:
    with arrow(**USER) as (running, client):
        client.send_bytes(AMQP_HEADER + encode_frame("open", container_id="x"))
        client.header(SASL_HEADER)
        assert client.read_to_end() == []
        assert_error(running.wait(), "skipped authentication")


def test_amqp_frames_among_sasl_frames_do_not_skip_it() -> None:
    """The engine would take them: whoever sends an open frame here is not authenticated."""
    with arrow(**USER) as (running, client):
        offers(client)
        client.send("open", container_id="x")
        client.send("begin", next_outgoing_id=0, incoming_window=9, outgoing_window=9)
        assert_error(running.wait(), "skipped authentication")
        assert all(each.name == "sasl_outcome" for each in client.read_to_end())


def test_plain_is_not_offered_to_other_machines() -> None:
    with arrow(other_address(), **USER) as (running, client):
        assert offers(client) == ["SCRAM-SHA-256"]
        client.send("sasl_init", mechanism="PLAIN", initial_response=PLAIN)
        assert client.expect("sasl_outcome").fields == {"code": AUTH}
        assert_error(running.wait(), "PLAIN")


def init_without_mechanism(client: FrameClient) -> None:
    client.send("sasl_init", mechanism=Value("null", None), initial_response=PLAIN)


def response_before_init(client: FrameClient) -> None:
    client.send("sasl_response", response=PLAIN)


def init_twice(client: FrameClient) -> None:
    first = b"n,,n=alice,r=nonce"
    client.send("sasl_init", mechanism="SCRAM-SHA-256", initial_response=first)
    client.expect("sasl_challenge")
    client.send("sasl_init", mechanism="PLAIN", initial_response=PLAIN)


def response_of_garbage(client: FrameClient) -> None:
    first = b"n,,n=alice,r=nonce"
    client.send("sasl_init", mechanism="SCRAM-SHA-256", initial_response=first)
    client.expect("sasl_challenge")
    client.send("sasl_response", response=b"\xff" * 400)


@pytest.mark.parametrize(
    "speak", [init_without_mechanism, response_before_init, init_twice, response_of_garbage]
)
def test_a_dialogue_out_of_order_is_refused(speak: Callable[[FrameClient], None]) -> None:
    with arrow(**USER) as (running, client):
        offers(client)
        speak(client)
        assert client.expect("sasl_outcome").fields == {"code": AUTH}
        assert client.read_to_end() == []
        assert_error(running.wait(), "SASL")


@pytest.mark.parametrize(
    "stray",
    [
        encode_frame("sasl_mechanisms", sasl_server_mechanisms=["PLAIN"]),
        encode_frame("sasl_outcome", code=0),
        b"\0\0\0\x0f\x02\x05\0\0" + b"garbage",
        b"\0\0\0\x03\x02\x01\0\0",
        b"\xff\xff\xff\xff\x02\x01\0\0",
    ],
    ids=["mechanisms", "outcome", "type", "size", "huge"],
)
def test_frames_that_no_client_sends_end_the_connection(stray: bytes) -> None:
    with arrow(**USER) as (running, client):
        offers(client)
        client.send_bytes(stray)
        assert_error(running.wait(), "127.0.0.1")
        client.read_to_end()


@pytest.mark.parametrize("name", ["sasl_init", "sasl_response"])
def test_a_sasl_frame_among_amqp_frames_closes_the_connection(name: str) -> None:
    with arrow() as (running, client):
        client.authenticate("ANONYMOUS")
        client.open()
        client.send_bytes(encode_frame(name) * 3)
        assert client.expect("close").condition == "amqp:connection:framing-error"
        client.send("close")
        running.wait()
