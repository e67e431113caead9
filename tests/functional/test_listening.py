"""Our own tools against something that listens: the launchers' probe, the bench's runner."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import pytest

from quiver_fast.brokers.probe import accepts_amqp
from quiver_fast.server.config import parse

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench import runner  # noqa: E402
from bench.runner import Case, RunError  # noqa: E402

LISTENS_FOR_EVER = """
import socket, sys, time
port = int(dict(a.split("=", 1) for a in sys.argv[1:])["port"])
listener = socket.create_server(("127.0.0.1", port))
time.sleep(60)
"""


def test_an_arrow_that_hangs_is_ended() -> None:
    hanging = [sys.executable, "-c", LISTENS_FOR_EVER]
    with pytest.raises(RunError, match=r"still running after 0\.3 s"):
        runner.run_pair([sys.executable, "-c", ""], hanging, Case(10, timeout=0.3))


@pytest.mark.parametrize(
    ("answer", "accepts"), [(b"AMQP\x03\x01\x00\x00", True), (b"HTTP/1.1", False), (b"AM", False)]
)
def test_the_probe_wants_an_amqp_header(answer, accepts):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(8)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        config = parse(["host=127.0.0.1", f"port={port}", "path=q", "ready-file=-"])
        assert accepts_amqp(config) is accepts
        thread.join(5)
    assert accepts_amqp(config) is False
