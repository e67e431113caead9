"""Whatever a peer sends, the server goes on, and so does everybody else."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.bystander import Bystander
from support.examples import examples
from support.frame_fuzz import dialogues, sasl_dialogues, streaming_dialogues
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient

PLAIN = b"\0user\0pencil"
# The fixtures are a running server, meant to outlive the examples.
UNHURRIED = settings(
    deadline=None,
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server"), idle_timeout=0, trunks="*") as running:
        yield running


@pytest.fixture(scope="module")
def bystander(server: Server) -> Iterator[Bystander]:
    """Somebody whose connection outlives everything that others send."""
    found = Bystander(server.port)
    with found.client:
        yield found


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    with running_server(folder, user="user", password="pencil", idle_timeout=0) as running:
        yield running


@pytest.fixture(scope="module")
def member(guarded: Server) -> Iterator[Bystander]:
    found = Bystander(guarded.port, PLAIN)
    with found.client:
        yield found


def speak(server: Server, *pieces: bytes) -> None:
    """Send everything, say farewell, and wait until the server has closed.

    Args:
        pieces: each is sent when the server has answered the one before.
    """
    with FrameClient(server.port, timeout=10) as client:
        for number, piece in enumerate(pieces):
            with contextlib.suppress(OSError):
                while number and select.select([client.socket], [], [], 0.01)[0]:
                    if not client.socket.recv(65536):
                        break
                client.send_bytes(piece)
        with contextlib.suppress(OSError):
            client.socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while client.socket.recv(65536):
                pass


def check_up(server: Server) -> None:
    assert server.running.process.poll() is None, server.running.wait()


@given(dialogues)
@UNHURRIED
def test_amqp(server: Server, bystander: Bystander, data: bytes) -> None:
    speak(server, data)
    check_up(server)
    bystander.check()


@given(streaming_dialogues)
@UNHURRIED
def test_streams(server: Server, bystander: Bystander, pieces: list[bytes]) -> None:
    speak(server, *pieces)
    check_up(server)
    bystander.check()


@given(sasl_dialogues)
@UNHURRIED
def test_sasl(guarded: Server, member: Bystander, data: bytes) -> None:
    speak(guarded, data)
    check_up(guarded)
    member.check()
    # Otherwise each failed login would make the next examples wait.
    with FrameClient(guarded.port) as client:
        assert client.authenticate("PLAIN", PLAIN).fields["code"] == 0


@given(st.binary(max_size=300))
@UNHURRIED
def test_any_bytes(server: Server, bystander: Bystander, data: bytes) -> None:
    speak(server, data)
    check_up(server)
    bystander.check()
