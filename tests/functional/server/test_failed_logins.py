"""After failed logins of an address, each further one waits before its judgement."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import AMQP_HEADER, SASL_HEADER, encode_frame
from quiver_fast.security.logins import FREE_FAILURES, MOST_WAITING
from quiver_fast.security.scram import ScramClient

OK, AUTH, TEMPORARY = 0, 1, 4
RIGHT, WRONG = b"\0alice\0correct horse", b"\0alice\0wrong"
ELSEWHERE = "127.0.0.2"
# Attempts that fail together until the next delay is the longest, of 5 seconds.
GUESSES = 9
# Less than that delay, and more than a server takes that does not delay.
SOON = 3.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_server(tmp_path, user="alice", password="correct horse") as running:
        yield running


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begin(clients: ExitStack, server: Server, source: str = "", timeout: float = 15) -> FrameClient:
    client = clients.enter_context(FrameClient(server.port, timeout=timeout, source=source))
    client.exchange_header(SASL_HEADER)
    client.expect("sasl_mechanisms")
    return client


def say(client: FrameClient, response: bytes) -> FrameClient:
    client.send("sasl_init", mechanism="PLAIN", initial_response=response)
    return client


def outcome(client: FrameClient) -> int:
    return int(client.expect("sasl_outcome").fields["code"])


def log_in(
    clients: ExitStack, server: Server, response: bytes, source: str = "", timeout: float = 15
) -> int:
    return outcome(say(begin(clients, server, source, timeout), response))


def is_answered(client: FrameClient) -> bool:
    return bool(select.select([client.socket], [], [], 0)[0])


def fail_freely(clients: ExitStack, server: Server) -> None:
    for _ in range(FREE_FAILURES):
        assert log_in(clients, server, WRONG, timeout=SOON) == AUTH


def fail_often(clients: ExitStack, server: Server) -> None:
    """Fail so often that the next attempt waits for 5 seconds."""
    fail_freely(clients, server)
    guesses = [say(begin(clients, server), WRONG) for _ in range(GUESSES)]
    assert [outcome(guess) for guess in guesses] == [AUTH] * GUESSES


def test_a_guess_waits_and_others_are_served(server: Server, clients: ExitStack) -> None:
    fail_often(clients, server)
    guess = say(begin(clients, server), WRONG)
    bystander = begin(clients, server, ELSEWHERE, SOON)
    assert outcome(say(bystander, RIGHT)) == OK
    bystander.open()
    assert not is_answered(guess)
    # Only now the delay is over.
    assert outcome(guess) == AUTH
    assert guess.read_to_end() == []


def test_the_right_password_waits_once_and_clears_the_record(
    server: Server, clients: ExitStack
) -> None:
    """The client sends on meanwhile, as part 2.4.1 lets it."""
    fail_freely(clients, server)
    client = begin(clients, server)
    guesses = [say(begin(clients, server), WRONG) for _ in range(GUESSES)]
    say(client, RIGHT).send_bytes(AMQP_HEADER + encode_frame("open", container_id="x"))
    assert [outcome(guess) for guess in guesses] == [AUTH] * GUESSES
    assert outcome(client) == OK
    assert client.read_header() == AMQP_HEADER
    client.expect("open")
    # The next delay would be 5 seconds.
    fail_freely(clients, server)


def test_a_proof_waits_that_began_before_the_failures(server: Server, clients: ExitStack) -> None:
    scram = ScramClient("SCRAM-SHA-256", "alice", "correct horse")
    client = begin(clients, server)
    client.send("sasl_init", mechanism=scram.name, initial_response=scram.initial)
    challenge = client.expect("sasl_challenge").fields["challenge"]
    fail_often(clients, server)
    client.send("sasl_response", response=scram.respond(challenge))
    assert log_in(clients, server, RIGHT, ELSEWHERE, SOON) == OK
    assert not is_answered(client)
    assert outcome(client) == OK


def test_few_attempts_wait_at_once(server: Server, clients: ExitStack) -> None:
    fail_often(clients, server)
    waiting = [say(begin(clients, server), RIGHT) for _ in range(MOST_WAITING)]
    # The password was not judged, and the client may try again (part 5.3.3.6).
    assert log_in(clients, server, RIGHT, timeout=SOON) == TEMPORARY
    assert not any(is_answered(client) for client in waiting)
    # One that is reset makes room.
    gone = waiting.pop().socket
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.close()
    assert log_in(clients, server, RIGHT) == OK
    assert [outcome(client) for client in waiting] == [OK] * len(waiting)
