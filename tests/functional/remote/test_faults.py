"""Disks that fail, files that cannot be read, servers that are killed (A.11, A.12, B.7, B.9)."""

from __future__ import annotations

import os
import random
import re
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.processes import Running, free_port, wait_until
from support.remote import failure, receive, replies, reply, request, server_command, serving

from quiver_fast.errors import LinkError, PeerError
from quiver_fast.remote.client import Queue

APPENDER, QUEUE, TAILER = "//h/q#appender", "//h/q#Queue", "//h/q#tailer"
IO_ERROR = "java.io.IOException"

# A server whose queue files lose their disk when a file appears: an unnamed pipe takes their
# descriptors' place, on which every fdatasync fails. Their memory stays mapped.
SERVER_THAT_LOSES_ITS_DISK = """
import os, sys, threading, time
from pathlib import Path
from quiver_fast.server import main

def lose_disk(sign):
    while not sign.exists():
        time.sleep(0.01)
    pipe, _ = os.pipe()
    for link in Path("/proc/self/fd").iterdir():
        try:
            if os.readlink(link).endswith(".cq4"):
                os.dup2(pipe, int(link.name))
        except FileNotFoundError:
            pass  # the descriptor of this listing
    sign.unlink()

threading.Thread(target=lose_disk, args=(Path(sys.argv.pop(1)),), daemon=True).start()
sys.exit(main.main())
"""


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        yield sock


@contextmanager
def limited(server: Running, kind: int, limit: int) -> Iterator[None]:
    """Lower a limit of a running server, for a while."""
    soft, hard = resource.prlimit(server.process.pid, kind)
    resource.prlimit(server.process.pid, kind, (limit, hard))
    try:
        yield
    finally:
        resource.prlimit(server.process.pid, kind, (soft, hard))


def ask(sock: socket.socket, event: str, csp: str, tid: int = 1) -> bytes:
    sock.sendall(request(event, csp=csp, tid=tid))
    return receive(sock, 1)


def submit(sock: socket.socket, value: str) -> int:
    return int(reply(ask(sock, f"submit: {value}", APPENDER))[1]["index"])


def read_all(sock: socket.socket, batch: int = 60_000) -> list[object]:
    said = reply(ask(sock, f"hasNext: {{ index: 0, batch: {batch} }}", TAILER))[1]
    entries = said["reply"]
    assert isinstance(entries, list)
    return entries


def wait_for_port(server: Running, port: int) -> None:
    server.wait_until_listening(port)
    assert server.process.poll() is None


@pytest.mark.parametrize("durability", ["none", "group"])
def test_a_full_disk_is_an_error_and_writing_resumes(tmp_path: Path, durability: str) -> None:
    """The limit of a file's size fails where a full disk does, when the file is extended."""
    port = free_port()
    value = '"' + "x" * 1_000_000 + '"'
    with Running(server_command(tmp_path, port, f"durability={durability}")) as server:
        wait_for_port(server, port)
        with connected(port) as sock, connected(port) as other:
            first = submit(sock, "before")
            (path,) = (tmp_path / "q").glob("*.cq4")
            accepted = 0
            with limited(server, resource.RLIMIT_FSIZE, path.stat().st_size):
                said = ask(sock, f"submit: {value}", APPENDER)
                while b"index:" in said:
                    accepted += 1
                    assert accepted < 200
                    said = ask(sock, f"submit: {value}", APPENDER)
                assert failure(said)[:2] == (1, IO_ERROR)
                # Nobody else suffers: entries are read, and the next submit says it again.
                assert reply(ask(other, "hasNext: { index: 0 }", TAILER))[1]["reply"] == ["before"]
                assert failure(ask(other, f"submit: {value}", APPENDER))[1] == IO_ERROR
                last = reply(ask(other, "lastWrittenIndex: { }", QUEUE))[1]["reply"]
                assert last == str(first + accepted)
            assert submit(sock, value) == first + accepted + 1
            assert submit(other, "after") == first + accepted + 2
        server.process.terminate()
        ended = server.wait()
        assert (ended.code, ended.stderr) == (0, "")


def test_after_a_failed_sync_nothing_more_is_promised(tmp_path: Path) -> None:
    """`group`: a second sync would prove nothing, so every submit fails and readers go on."""
    port, sign = free_port(), tmp_path / "lose"
    command = server_command(tmp_path / "store", port, "durability=group")
    command = [sys.executable, "-c", SERVER_THAT_LOSES_ITS_DISK, str(sign), *command[3:]]
    with Running(command) as server:
        wait_for_port(server, port)
        with connected(port) as sock, connected(port) as other:
            first = submit(sock, "safe")
            sign.touch()
            while sign.exists():
                time.sleep(0.01)
            sock.sendall(
                request("submit: lost", csp=APPENDER, tid=2)
                + request("lastWrittenIndex: { }", csp=APPENDER, tid=3)
                + request("submit: later", csp=APPENDER, tid=4)
            )
            said = receive(sock, 3)
            assert [tid for tid, _ in replies(said)] == [2, 3, 4]
            assert said.count(IO_ERROR.encode()) == 2
            for value in ("again", "and again"):
                assert failure(ask(other, f"submit: {value}", APPENDER))[1] == IO_ERROR
            # Never acknowledged is not the same as never written: B.9 promises the former.
            assert read_all(other)[0] == "safe"
            said = ask(other, f"hasNext: {{ index: {first} }}", TAILER, 9)
            assert reply(said) == (9, {"index": str(first), "reply": ["safe"]})
            assert server.process.poll() is None


def test_files_that_cannot_be_opened_are_an_error_of_the_reader_alone(tmp_path: Path) -> None:
    port = free_port()
    with Running(server_command(tmp_path, port)) as server:
        wait_for_port(server, port)
        with connected(port) as sock:
            submit(sock, "one")
            ask(sock, "createTailer: { }", QUEUE)
            read = request("hasNext: { }", cid=1, tid=5)
            used = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            with limited(server, resource.RLIMIT_NOFILE, used):
                sock.sendall(read)
                said = receive(sock, 1)
                assert failure(said)[:2] == (5, IO_ERROR)
                assert re.search("cannot be read: .*Too many open files", failure(said)[2])
                submit(sock, "two")
            for expected in ("one", "two"):
                sock.sendall(read)
                assert reply(receive(sock, 1))[1]["reply"] == [expected]
        server.process.terminate()
        assert server.wait().code == 0


def test_queues_beyond_the_descriptors_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    port = free_port()
    with Running(server_command(tmp_path, port)) as server:
        wait_for_port(server, port)
        descriptors = Path(f"/proc/{server.process.pid}/fd")
        with connected(port) as sock:
            submit(sock, "one")
            used = len(list(descriptors.iterdir()))
            # Too few for a queue's lock, table and file, at each of these places.
            for room in range(3):
                with limited(server, resource.RLIMIT_NOFILE, used + room):
                    for name in ("new", "other/new"):
                        said = ask(sock, "createAppender: { }", f"//h/{name}#Queue", room)
                        assert failure(said)[:2] == (room, IO_ERROR)
                        assert "Too many open files" in failure(said)[2]
                    submit(sock, "still here")
                assert len(list(descriptors.iterdir())) == used
            said = ask(sock, "submit: a", "//h/new#appender")
            assert "index" in reply(said)[1]
        server.process.terminate()
        assert server.wait().code == 0


def test_connections_beyond_the_descriptors_wait_and_are_then_served(tmp_path: Path) -> None:
    port = free_port()
    with Running(server_command(tmp_path, port)) as server:
        wait_for_port(server, port)
        with connected(port) as sock:
            submit(sock, "one")
            used = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            with socket.socket() as late:
                late.settimeout(0.3)
                with limited(server, resource.RLIMIT_NOFILE, used):
                    late.connect(("127.0.0.1", port))
                    late.sendall(request("submit: two", csp=APPENDER, tid=7))
                    submit(sock, "three")
                    with pytest.raises(TimeoutError):
                        late.recv(1)
                assert reply(receive(late, 1))[0] == 7


class Submitting(threading.Thread):
    """A client that submits its own numbers until its server is gone.

    Attributes:
        acknowledged: the numbers that have an index.
    """

    def __init__(self, port: int, name: str) -> None:
        super().__init__(daemon=True)
        self.queue = Queue(f"csp://127.0.0.1:{port}/q")
        self.tag = name
        self.acknowledged: list[tuple[int, str]] = []

    def run(self) -> None:
        values = (f"{self.tag}-{n}" for n in range(10_000_000))
        names = (f"{self.tag}-{n}" for n in range(10_000_000))
        try:
            for index in self.queue.appender().submit_all(values, window=64):
                self.acknowledged.append((index, next(names)))
        except (PeerError, LinkError):
            return


def without_those_read(port: int, expected: dict[int, str]) -> dict[int, str]:
    """Read the queue from the first expected entry to its last; return the missing ones."""
    missing = dict(expected)
    start = min(expected, default=None)
    with Queue(f"csp://127.0.0.1:{port}/q") as queue, queue.tailer(start) as tailer:
        while entries := tailer.read(batch=20_000):
            for entry in entries:
                if missing.get(entry.index) == entry.value:
                    del missing[entry.index]
    return missing


# How often a server is killed, recovers and is read.
KILLS = int(os.environ.get("QUIVER_FAST_KILLS", "4"))


@pytest.mark.parametrize("durability", ["none", "interval:5", "group"])
@pytest.mark.timeout(60 + 15 * KILLS)
def test_what_was_acknowledged_survives_a_killed_server(tmp_path: Path, durability: str) -> None:
    """kill -9 at random moments under three clients: every `index:` is there afterwards."""
    chance = random.Random(7)
    known: dict[int, str] = {}
    recent: dict[int, str] = {}
    options = [f"durability={durability}", "roll=TEST_SECONDLY"]
    for turn in range(KILLS):
        port = free_port()
        with Running(server_command(tmp_path, port, *options)) as server:
            wait_for_port(server, port)
            assert without_those_read(port, recent) == {}
            clients = [Submitting(port, f"{turn}{letter}") for letter in "abc"]
            for client in clients:
                client.start()
            wait_until(
                lambda clients=clients: sum(len(one.acknowledged) for one in clients) > 80,
                "entries are acknowledged",
            )
            time.sleep(chance.uniform(0.0, 0.2))
            server.process.kill()
            server.process.wait()
            recent.clear()
            for client in clients:
                client.join(10)
                assert not client.is_alive()
                recent.update(client.acknowledged)
            known.update(recent)
    with serving(tmp_path, *options) as port:
        assert without_those_read(port, known) == {}
    assert len(known) > 80 * KILLS
    print(f"{KILLS} kills, {durability}: {len(known)} acknowledged, none lost")
