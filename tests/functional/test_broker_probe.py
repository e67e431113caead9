"""When a launcher takes its broker as ready: peers that serve, that start, that refuse us."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from quiver_fast.brokers.probe import accepts_amqp
from quiver_fast.conform.wire.frames import AMQP_HEADER, SASL_HEADER, composite, encode_frame
from quiver_fast.server.config import parse

MECHANISMS = encode_frame("sasl_mechanisms", sasl_server_mechanisms=["ANONYMOUS"])
OK, DENIED = (encode_frame("sasl_outcome", code=code) for code in (0, 1))
OPENED = AMQP_HEADER + encode_frame("open", container_id="broker")
STARTING = encode_frame(
    "close", error=composite("error", condition="amqp:connection:forced", description="starting")
)
CLOSED = encode_frame("close")


@contextlib.contextmanager
def saying(*turns: bytes) -> Iterator[int]:
    """Listen on a port; to a peer's header, init and open say these, then end."""

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            for turn in turns:
                peer.recv(4096)
                peer.sendall(turn)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("turns", "ready"),
    [
        ((SASL_HEADER + MECHANISMS, OK, OPENED + CLOSED), True),
        ((SASL_HEADER + MECHANISMS, OK, OPENED + STARTING), False),
        # It is there, and does not let us in.
        ((SASL_HEADER + MECHANISMS, DENIED), True),
        ((SASL_HEADER,), True),
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), False),
        ((b"AM",), False),
        ((b"",), False),
    ],
)
def test_ready(turns: tuple[bytes, ...], ready: bool) -> None:
    with saying(*turns) as port:
        config = parse(["host=127.0.0.1", f"port={port}", "path=q0"])
        assert accepts_amqp(config) is ready


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not accepts_amqp(parse(["host=127.0.0.1", f"port={port}", "path=q0"]))
