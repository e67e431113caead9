"""What a client may leave out or send early in SASL, with TLS and without, at server and arrow."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from support.arrows import arguments, pyfast
from support.certificates import Certificates
from support.processes import Running, free_port
from support.server import running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import AMQP_HEADER, SASL_HEADER, encode_frame
from quiver_fast.security.scram import ScramClient

PLAIN = b"\0alice\0correct horse"
PASSWORD = {"password": "correct horse"}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256"]
Connect = Callable[[], AbstractContextManager[FrameClient]]


@contextlib.contextmanager
def speaking(port: int, context: ssl.SSLContext | None) -> Iterator[FrameClient]:
    """Yield a client, within TLS if there is a context."""
    with FrameClient(port) as client:
        if context is not None:
            client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        yield client


@contextlib.contextmanager
def server_peer(
    folder: Path, tls: dict[str, str], context: ssl.SSLContext | None
) -> Iterator[Connect]:
    with running_server(folder, user="alice", **PASSWORD, **tls) as server:
        yield lambda: speaking(server.port, context)


@contextlib.contextmanager
def arrow_peer(
    _folder: Path, tls: dict[str, str], context: ssl.SSLContext | None
) -> Iterator[Connect]:
    """Yield what connects to an arrow that listens, a new one each time."""

    @contextlib.contextmanager
    def connect() -> Iterator[FrameClient]:
        port = free_port()
        mode = {"connection_mode": "server", "channel_mode": "passive", "username": "alice"}
        with Running(pyfast(*arguments("receive", port, **mode, **PASSWORD, **tls))) as running:
            running.wait_until_listening(port)
            with speaking(port, context) as client:
                yield client

    yield connect


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, certificates: Certificates) -> dict[str, str]:
    if request.param == "plain":
        return {}
    return {"scheme": "amqps", **certificates.server.keys()}


@pytest.fixture(params=[server_peer, arrow_peer], ids=["server", "arrow"])
def connect(
    request: pytest.FixtureRequest, tmp_path: Path, tls: dict[str, str],
    certificates: Certificates,
) -> Iterator[Connect]:  # fmt: skip
    context = ssl.create_default_context(cafile=certificates.authority) if tls else None
    with request.param(tmp_path, tls, context) as found:
        yield found


@pytest.mark.parametrize("cut", [None, 1, 8, 20])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_choice_may_come_with_the_header(
    connect: Connect, mechanism: str, cut: int | None
) -> None:
    scram = ScramClient("SCRAM-SHA-256", "alice", "correct horse")
    first = PLAIN if mechanism == "PLAIN" else scram.initial
    early = SASL_HEADER + encode_frame("sasl_init", mechanism=mechanism, initial_response=first)
    for _ in range(3):
        with connect() as client:
            client.send_bytes(early[:cut])
            client.send_bytes(early[cut or len(early) :])
            assert client.read_header() == SASL_HEADER
            client.expect("sasl_mechanisms")
            if mechanism == "PLAIN":
                assert client.expect("sasl_outcome").fields == {"code": 0}
            else:
                client.expect("sasl_challenge")


def test_all_may_come_in_one_write(connect: Connect) -> None:
    """Header, choice, the next header and the open: nobody has to wait (part 2.4.1)."""
    init = encode_frame("sasl_init", mechanism="PLAIN", initial_response=PLAIN)
    with connect() as client:
        client.send_bytes(SASL_HEADER + init + AMQP_HEADER + encode_frame("open", container_id="a"))
        assert client.read_header() == SASL_HEADER
        client.expect("sasl_mechanisms")
        assert client.expect("sasl_outcome").fields == {"code": 0}
        assert client.read_header() == AMQP_HEADER
        client.expect("open")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("early", [False, True], ids=["after the offer", "with the header"])
def test_no_initial_response_gets_an_empty_challenge(
    connect: Connect, mechanism: str, early: bool
) -> None:
    """RFC 4422, part 5."""
    scram = ScramClient(mechanism, "alice", "correct horse") if mechanism != "PLAIN" else None
    with connect() as client:
        init = encode_frame("sasl_init", mechanism=mechanism)
        client.send_bytes(SASL_HEADER + (init if early else b""))
        assert client.read_header() == SASL_HEADER
        client.expect("sasl_mechanisms")
        client.send_bytes(b"" if early else init)
        assert client.expect("sasl_challenge").fields["challenge"] == b""
        client.send("sasl_response", response=scram.initial if scram else PLAIN)
        if scram:
            challenge = client.expect("sasl_challenge").fields["challenge"]
            client.send("sasl_response", response=scram.respond(challenge))
        assert client.expect("sasl_outcome").fields["code"] == 0
