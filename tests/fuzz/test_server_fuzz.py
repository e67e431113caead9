"""Whatever a peer sends, the server goes on, and so does everybody else."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.amqp_frames import AMQP_HEADER, SASL_HEADER, FrameClient
from support.frame_fuzz import dialogues, sasl_dialogues
from support.server import Server, running_server

# The fixtures are a running server, meant to outlive the examples.
UNHURRIED = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    with running_server(folder, user="user", password="pencil") as running:
        yield running


def speak(server: Server, data: bytes) -> None:
    """Send everything, say farewell, and wait until the server has closed."""
    with FrameClient(server.port, timeout=10) as client:
        client.send_bytes(data)
        with contextlib.suppress(OSError):
            client.socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while client.socket.recv(65536):
                pass


def assert_serves(server: Server, header: bytes) -> None:
    assert server.running.process.poll() is None, server.running.wait()
    with FrameClient(server.port) as client:
        client.exchange_header(header)


@given(dialogues)
@UNHURRIED
def test_amqp(server: Server, data: bytes) -> None:
    speak(server, data)
    assert_serves(server, AMQP_HEADER)


@given(sasl_dialogues)
@UNHURRIED
def test_sasl(guarded: Server, data: bytes) -> None:
    speak(guarded, data)
    assert_serves(guarded, SASL_HEADER)


@given(st.binary(max_size=300))
@UNHURRIED
def test_any_bytes(server: Server, data: bytes) -> None:
    speak(server, data)
    assert_serves(server, AMQP_HEADER)
