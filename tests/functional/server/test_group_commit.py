"""Durability `group`: which messages wait for the disk, and the effect of a failure.

fdatasync of the server is one of ours, loaded before the system's: as slow as the test
says, and held or failing as long as a file tells it to.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from proton import Delivery, Message
from support.departures import wait_until_gone
from support.engine_client import EngineClient
from support.processes import free_port
from support.remote import MORE, document, failure, meta, receive, reply, request
from support.server import Server, running_server

SHIM = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int fd) {
    int log = open(getenv("SYNC_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (write(log, ".", 1) != 1) return fd;
    close(log);
    usleep(atoi(getenv("SYNC_MS")) * 1000);
    while (access(getenv("SYNC_HELD"), F_OK) == 0) usleep(1000);
    if (access(getenv("SYNC_FAILS"), F_OK) == 0) { errno = EIO; return -1; }
    return 0;
}
"""
SLOW_MS = 250
# How often others are served while a sync is held: once would be by chance.
TURNS = 5


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    library = folder / "shim.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", str(library), str(folder / "shim.c")], check=True
    )
    return library


@contextmanager
def slow_server(
    tmp_path: Path, shim: Path, *, says: str = "", csp_port: int | None = None, slow_ms: int = 0
) -> Iterator[Server]:
    # Sanitizers are preloaded as well.
    preloaded = f"{os.environ.get('LD_PRELOAD', '')} {shim}"
    environment = {
        "LD_PRELOAD": preloaded, "SYNC_MS": str(slow_ms), "SYNC_FAILS": str(tmp_path / "fails"),
        "SYNC_LOG": str(tmp_path / "syncs"), "SYNC_HELD": str(tmp_path / "held"),
    }  # fmt: skip
    keys: dict[str, object] = {"store": tmp_path / "store", "durability": "group", "path": "q"}
    keys["csp_port"] = csp_port
    with running_server(tmp_path, says=says, environment=environment, **keys) as server:
        yield server


@contextmanager
def held(tmp_path: Path) -> Iterator[None]:
    """Hold all syncs until the end of the block."""
    (tmp_path / "held").touch()
    try:
        yield
    finally:
        (tmp_path / "held").unlink()


def encoded(*, durable: bool) -> bytes:
    return bytes(Message(body=b"x" * 50, durable=durable).encode())


def serve(client: EngineClient) -> None:
    """See that a client is served that waits for no disk."""
    quick = client.sender("other")
    for _ in range(TURNS):
        delivery = client.send(quick, encoded(durable=False))
        client.until(lambda delivery=delivery: bool(delivery.remote_state))


def test_others_go_on_while_the_disk_is_slow(tmp_path: Path, shim: Path) -> None:
    with (
        slow_server(tmp_path, shim) as server,
        EngineClient(server.port) as stored,
        EngineClient(server.port) as other,
    ):
        durable = stored.sender("q")
        with held(tmp_path):
            waiting = stored.send(durable, encoded(durable=True))
            stored.until(lambda: syncs(tmp_path) == 1)
            serve(other)
            stored.pump(0)
            assert not waiting.remote_state
        stored.until(lambda: bool(waiting.remote_state))
        assert waiting.remote_state == Delivery.ACCEPTED


def test_one_sync_is_for_all_that_came_before_it(tmp_path: Path, shim: Path) -> None:
    with slow_server(tmp_path, shim) as server, EngineClient(server.port) as client:
        sender = client.sender("q")
        with held(tmp_path):
            first = client.send(sender, encoded(durable=True))
            client.until(lambda: syncs(tmp_path) == 1)
            # They come when that sync has begun already, so it says nothing about them.
            later = [client.send(sender, encoded(durable=True)) for _ in range(20)]
            client.sync()
        client.until(lambda: all(delivery.remote_state for delivery in [first, *later]))
        assert {delivery.remote_state for delivery in later} == {Delivery.ACCEPTED}
        assert syncs(tmp_path) == 2


def syncs(tmp_path: Path) -> int:
    """Return how many syncs began."""
    log = tmp_path / "syncs"
    return log.stat().st_size if log.exists() else 0


def test_a_link_that_goes_while_it_waits(tmp_path: Path, shim: Path) -> None:
    with slow_server(tmp_path, shim) as server:
        with held(tmp_path):
            with EngineClient(server.port) as client:
                port = client.socket.getsockname()[1]
                client.send(client.sender("q"), encoded(durable=True))
                client.until(lambda: syncs(tmp_path) == 1)
            wait_until_gone(server, port)
        with EngineClient(server.port) as client:
            delivery = client.send(client.sender("q"), encoded(durable=True))
            client.until(lambda: bool(delivery.remote_state))
            assert delivery.remote_state == Delivery.ACCEPTED


def test_after_a_failed_sync_nothing_is_accepted(tmp_path: Path, shim: Path) -> None:
    with (
        slow_server(tmp_path, shim, says="Input/output error") as server,
        EngineClient(server.port) as client,
    ):
        sender = client.sender("q")
        (tmp_path / "fails").touch()
        for _ in range(2):
            # The second is refused at once: another sync would prove nothing (A.11).
            delivery = client.send(sender, encoded(durable=True))
            client.until(lambda delivery=delivery: bool(delivery.remote_state))
            assert delivery.remote_state == Delivery.MODIFIED
        plain = client.send(sender, encoded(durable=False))
        client.until(lambda: bool(plain.remote_state))
        assert plain.remote_state == Delivery.ACCEPTED
        # It would wait for its answer.
        client.socket.close()
        server.killed.append(True)
        assert server.end().code == 1


APPENDER = "//h/q#appender"


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        yield sock


def test_amqp_goes_on_while_a_remote_queue_is_synced(tmp_path: Path, shim: Path) -> None:
    port = free_port()
    with (
        slow_server(tmp_path, shim, csp_port=port) as server,
        connected(port) as sock,
        EngineClient(server.port) as other,
    ):
        with held(tmp_path):
            sock.sendall(request("submit: a", csp=APPENDER, tid=1))
            other.until(lambda: syncs(tmp_path) == 1)
            serve(other)
            sock.setblocking(False)
            assert not readable(sock)
            sock.setblocking(True)
        assert "index" in reply(receive(sock, 1))[1]


def readable(sock: socket.socket) -> bool:
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_both_protocols_wait_for_a_sync_of_their_own_entries(tmp_path: Path, shim: Path) -> None:
    port = free_port()
    with (
        slow_server(tmp_path, shim, csp_port=port) as server,
        connected(port) as sock,
        EngineClient(server.port) as client,
    ):
        sock.sendall(request("submit: a", csp=APPENDER, tid=1))
        receive(sock, 1)
        done = syncs(tmp_path)
        sender = client.sender("q")
        with held(tmp_path):
            delivery = client.send(sender, encoded(durable=True))
            client.until(lambda: syncs(tmp_path) > done)
            # That sync is under way: it does not cover later messages.
            done = syncs(tmp_path)
            sock.sendall(request("submit: b", csp=APPENDER, tid=2))
            client.sync()
        client.until(lambda: bool(delivery.remote_state))
        assert reply(receive(sock, 1))[0] == 2
        assert syncs(tmp_path) > done


def test_a_failed_sync_fails_both_protocols(tmp_path: Path, shim: Path) -> None:
    """Whichever of them it was begun for: the file is one."""
    port = free_port()
    with (
        slow_server(tmp_path, shim, says="Input/output error", csp_port=port) as server,
        connected(port) as sock,
        connected(port) as silent,
        EngineClient(server.port) as client,
    ):
        sender = client.sender("q")
        (tmp_path / "fails").touch()
        with held(tmp_path):
            sock.sendall(request("submit: a", csp=APPENDER, tid=1))
            silent.sendall(request("submit: b", csp=APPENDER))
            delivery = client.send(sender, encoded(durable=True))
            client.sync()
        client.until(lambda: bool(delivery.remote_state))
        assert delivery.remote_state == Delivery.MODIFIED
        assert failure(receive(sock, 1))[:2] == (1, "java.io.IOException")
        assert failure(receive(silent, 1))[:2] == (0, "java.io.IOException")
        assert silent.recv(1) == b""
        sock.sendall(request("submit: c", csp=APPENDER, tid=2))
        assert failure(receive(sock, 1))[:2] == (2, "java.io.IOException")
        # It would wait for their answers.
        client.socket.close()
        sock.close()
        silent.close()
        server.killed.append(True)
        assert server.end().code == 1


def test_more_submits_than_may_wait_for_a_sync(tmp_path: Path, shim: Path) -> None:
    """Without tids nothing is sent when they are synced, and reading goes on all the same.

    A few more than fit into 4 MiB (B.9): all is read already when the rest has to be taken.
    """
    count = (4 << 20) // 48 + 10
    port = free_port()
    with (
        slow_server(tmp_path, shim, csp_port=port, slow_ms=SLOW_MS),
        connected(port) as sock,
    ):
        one = document("submit: a", MORE)
        sock.sendall(meta(csp=APPENDER) + one * count + document("submit: a"))
        sock.sendall(request("submit: last", csp=APPENDER, tid=7))
        assert reply(receive(sock, 1, timeout=60))[0] == 7
