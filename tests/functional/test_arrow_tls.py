"""The arrow over TLS, against peers whose handshake has another course than our server's."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from support.arrows import arguments, pyfast
from support.certificates import Certificates
from support.preload import compile_preload, preloading
from support.processes import Running

HEADERS = (b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00")
PATIENCE = 5.0


@pytest.mark.parametrize("operation", ["send", "receive"])
def test_a_handshake_that_ends_before_the_arrow_waits(
    certificates: Certificates, tmp_path: Path, operation: str
) -> None:
    """Our header follows it at once: a peer without session tickets has nothing more to say."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.cert, certificates.server.key)
    context.num_tickets = 0
    library = compile_preload(Path(__file__).with_name("slow_reader.c"), tmp_path)
    keys = {"scheme": "amqps", "host": "localhost", "trust_store": certificates.authority}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        words = pyfast(*arguments(operation, listener.getsockname()[1], **keys))
        with Running(words, env=preloading(library)):
            peer, _ = listener.accept()
            peer.settimeout(PATIENCE)
            with context.wrap_socket(peer, server_side=True) as session:
                assert session.recv(8) in HEADERS
