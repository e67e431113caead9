"""The rules for the sockets themselves (B.1, B.4, B.9)."""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.processes import free_port
from support.remote import receive, reply, request
from support.server import running_server

APPENDER = "//h/q#appender"
PIDFD_GETFD = 438


@contextmanager
def borrowed(pid: int, descriptor: int) -> Iterator[socket.socket]:
    """Have a socket of another process, as its own descriptor has it."""
    process = os.pidfd_open(pid)
    copy = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, descriptor, 0)
    os.close(process)
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    with socket.socket(fileno=copy) as sock:
        yield sock


OPTIONS = {
    "nodelay": (socket.IPPROTO_TCP, socket.TCP_NODELAY),
    "keepalive": (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
    "idle": (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
    "interval": (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
    "count": (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
}


def options_of(pid: int, client: socket.socket) -> dict[str, int]:
    """Return the options of the server's end of a connection."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        if not os.readlink(link).startswith("socket:"):
            continue
        with borrowed(pid, int(link.name)) as sock:
            try:
                peer = sock.getpeername()
            except OSError:
                continue  # a listening socket
            if peer == client.getsockname():
                return {name: sock.getsockopt(*option) for name, option in OPTIONS.items()}
    pytest.fail("the server has no such connection")


def submit(sock: socket.socket, tid: int) -> int:
    sock.sendall(request("submit: a", csp=APPENDER, tid=tid))
    return int(reply(receive(sock, 1))[1]["index"])


def test_connections_do_not_delay_and_are_kept_alive(tmp_path: Path) -> None:
    port = free_port()
    with (
        running_server(tmp_path, port=port, scheme="csp", path="", store=tmp_path / "s") as server,
        socket.create_connection(("127.0.0.1", port), 10) as sock,
    ):
        submit(sock, 1)
        options = options_of(server.process.pid, sock)
        assert options == {"nodelay": 1, "keepalive": 1, "idle": 30, "interval": 10, "count": 3}


@pytest.mark.parametrize("seconds", [0, 1, 2097152])
def test_the_system_asks_silent_peers_whether_they_are_there(tmp_path: Path, seconds: int) -> None:
    """So a half-open connection ends, and a tailer that waits for an entry stays."""
    port = free_port()
    keys = {"store": tmp_path / "s", "csp_port": port, "idle_timeout": seconds}
    with (
        running_server(tmp_path, **keys) as server,
        socket.create_connection(("127.0.0.1", port), 10) as sock,
    ):
        submit(sock, 1)
        options = options_of(server.process.pid, sock)
    expected = {1: (1, 1, 3), 2097152: (32767, 32767, 3)}
    if seconds in expected:
        assert (options["idle"], options["interval"], options["count"]) == expected[seconds]
    assert options["keepalive"] == 1


def test_a_silent_connection_is_never_closed(tmp_path: Path) -> None:
    """Neither of AMQP's time-outs is meant for it: not in mid-document, not between requests."""
    port = free_port()
    keys = {"store": tmp_path / "s", "csp_port": port, "idle_timeout": 1, "handshake_timeout": 1}
    with (
        running_server(tmp_path, **keys),
        socket.create_connection(("127.0.0.1", port), 10) as asked,
        socket.create_connection(("127.0.0.1", port), 10) as silent,
        socket.create_connection(("127.0.0.1", port), 10) as halfway,
    ):
        index = submit(asked, 1)
        later = request("submit: late", csp=APPENDER, tid=2)
        halfway.sendall(later[:9])
        time.sleep(2.5)
        halfway.sendall(later[9:])
        assert reply(receive(halfway, 1)) == (2, {"index": str(index + 1)})
        assert submit(asked, 3) == index + 2
        assert submit(silent, 4) == index + 3
