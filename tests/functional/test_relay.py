"""The relay of `--fault`: it passes bytes on, and disturbs connections as it is told."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from quiver_fast.cli.pair.relay import Relay

PATIENCE = 20.0
# Longer than any test: the tests end such faults.
LONG = 1000


class Rig:
    """A relay in a thread, with a server of the test behind it."""

    def __init__(self, faults: int = 2) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(PATIENCE)
        pairs = [socket.socketpair() for _ in range(faults + 1)]
        self.control, *self.faults = [ours for ours, _ in pairs]
        fds = [theirs.detach() for _, theirs in pairs]
        place = [(socket.AF_INET, list(self.server.getsockname()))]
        self.relay = Relay([place], fds[0], fds[1:])
        self.thread = threading.Thread(target=self.relay.run, daemon=True)
        self.thread.start()
        (self.port,) = self.answer(self.control)
        self.open: list[socket.socket] = []

    def client(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        self.open.append(client)
        return client

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """Return both ends of a connection that the relay serves."""
        client, (server, _) = self.client(), self.server.accept()
        server.settimeout(PATIENCE)
        self.open.append(server)
        for source, target in ((client, server), (server, client)):
            source.sendall(b"hello")
            assert read(target, 5) == b"hello"
        return client, server

    def until_it_serves(self, count: int) -> None:
        """Wait until the relay knows of so many connections: it hears later of one that is made."""
        end = time.monotonic() + PATIENCE
        while len(self.relay.links) != count:
            assert time.monotonic() < end
            time.sleep(0.001)

    def cause(
        self, kind: str, seconds: float = LONG, value: float = 0, share: float = 1, number: int = 0
    ) -> dict[str, Any]:
        """Cause a fault, and return the first answer."""
        told = {"kind": kind, "seconds": seconds, "value": value, "share": share}
        self.faults[number].sendall(json.dumps(told).encode())
        found: dict[str, Any] = self.answer(self.faults[number])
        return found

    def over(self, number: int = 0, *, early: bool = True) -> str:
        """Return the proof of a fault, which is ended before."""
        if early:
            self.faults[number].shutdown(socket.SHUT_WR)
        found = self.answer(self.faults[number])
        assert found["until"] <= time.monotonic_ns()
        proof: str = found["proof"]
        return proof

    def answer(self, control: socket.socket) -> Any:
        control.settimeout(PATIENCE)
        line = b""
        while not line.endswith(b"\n"):
            line += control.recv(1)
        return json.loads(line)

    def close(self) -> None:
        for one in (self.control, *self.faults, *self.open, self.server):
            one.close()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@pytest.fixture(name="rig")
def a_rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def read(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := sock.recv(count - len(data))):
        data += more
    return data


def silent(sock: socket.socket) -> bool:
    """Say whether a socket has nothing to read."""
    sock.setblocking(False)
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        sock.settimeout(PATIENCE)


def is_reset(sock: socket.socket) -> bool:
    """Say whether a reset comes, and no silence."""
    try:
        return not sock.recv(1)
    except ConnectionResetError:
        return True


def is_refused(rig: Rig) -> bool:
    try:
        return is_reset(rig.client())
    except ConnectionResetError:
        return True


def test_bytes_pass_in_both_directions_and_each_direction_ends_alone(rig: Rig) -> None:
    client, server = rig.pair()
    data = bytes(range(256)) * 40_000
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    assert read(server, len(data)) == data
    sender.join()
    client.shutdown(socket.SHUT_WR)
    assert server.recv(1) == b""
    server.sendall(b"still")
    assert read(client, 5) == b"still"
    server.close()
    assert client.recv(1) == b""


def test_a_reset_is_passed_on(rig: Rig) -> None:
    client, server = rig.pair()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    server.close()
    assert is_reset(client)


def test_a_server_that_is_not_there_is_a_reset(rig: Rig) -> None:
    rig.server.close()
    assert is_refused(rig)


def test_a_reader_that_is_slow_stops_the_writer(rig: Rig) -> None:
    client, server = rig.pair()
    client.settimeout(0.5)
    with pytest.raises(TimeoutError):
        client.sendall(b"x" * (1 << 30))
    server.setblocking(True)
    assert read(server, 1 << 20) == b"x" * (1 << 20)


def test_cut(rig: Rig) -> None:
    ends = [*rig.pair(), *rig.pair()]
    assert "at" in rig.cause("cut", 0)
    assert all(map(is_reset, ends))
    assert rig.over(early=False) == "2 connections cut"
    rig.pair()


@pytest.mark.parametrize(("share", "count", "cut"), [(0.5, 4, 2), (0.1, 10, 1), (1 / 3, 7, 2)])
def test_a_share_is_cut(rig: Rig, share: float, count: int, cut: int) -> None:
    pairs = [rig.pair() for _ in range(count)]
    rig.cause("cut", 0, share=share)
    assert rig.over(early=False) == f"{cut} connection{'s' if cut > 1 else ''} cut"
    for _, server in pairs:
        with suppress(OSError):
            server.sendall(b"x")
    assert sum(map(is_reset, (client for client, _ in pairs))) == cut


def test_a_fault_needs_a_connection(rig: Rig) -> None:
    assert rig.cause("freeze") == {"problem": "there was no connection"}
    rig.pair()
    found = rig.cause("cut", 0, share=0.5, number=1)
    assert found == {"problem": "50% of 1 connection are none"}


def test_refuse(rig: Rig) -> None:
    ends = rig.pair()
    rig.cause("refuse")
    assert all(map(is_reset, ends))
    assert all(is_refused(rig) for _ in range(3))
    assert rig.over() == "1 connection cut, 3 refused"
    rig.pair()


@pytest.mark.parametrize(("kind", "held"), [("freeze", 6), ("half", 4)])
def test_bytes_are_held_and_pass_later(rig: Rig, kind: str, held: int) -> None:
    client, server = rig.pair()
    rig.cause(kind)
    client.sendall(b"up")
    server.sendall(b"down")
    if kind == "half":
        assert read(server, 2) == b"up"
    deadline = time.monotonic() + 0.2
    while time.monotonic() < deadline:
        assert silent(client)
        assert kind == "half" or silent(server)
    assert rig.over() == f"1 connection held, {held} bytes unread at the end"
    assert read(client, 4) == b"down"
    if kind == "freeze":
        assert read(server, 2) == b"up"


def test_a_new_connection_has_the_faults_of_the_moment(rig: Rig) -> None:
    rig.pair()
    rig.cause("freeze")
    client, (server, _) = rig.client(), rig.server.accept()
    rig.until_it_serves(2)
    client.sendall(b"held")
    assert silent(server)
    assert rig.over().startswith("2 connections held, ")
    assert read(server, 4) == b"held"
    server.close()


def test_faults_overlap(rig: Rig) -> None:
    client, server = rig.pair()
    rig.cause("freeze")
    rig.cause("half", number=1)
    client.sendall(b"up")
    server.sendall(b"down")
    rig.over()
    assert read(server, 2) == b"up"
    assert silent(client)
    rig.over(1)
    assert read(client, 4) == b"down"


def test_delay(rig: Rig) -> None:
    client, server = rig.pair()
    rig.cause("delay", value=0.1)
    for source, target in ((client, server), (server, client)):
        begin = time.monotonic()
        for part in (b"a", b"b", b"c"):
            source.sendall(part)
        assert read(target, 3) == b"abc"
        assert time.monotonic() - begin >= 0.1
    client.shutdown(socket.SHUT_WR)
    assert server.recv(1) == b""
    assert rig.over() == "1 connection delayed, 6 bytes passed"


def test_what_a_delay_holds_passes_at_its_end(rig: Rig) -> None:
    client, server = rig.pair()
    rig.cause("delay", value=LONG)
    client.sendall(b"long")
    assert silent(server)
    client.sendall(b" held")
    # The relay has read it.
    time.sleep(0.1)
    assert rig.over() == "1 connection delayed, 9 bytes passed"
    client.sendall(b" more")
    assert read(server, 14) == b"long held more"


def test_throttle(rig: Rig) -> None:
    client, server = rig.pair()
    rig.cause("throttle", value=100_000)
    begin = time.monotonic()
    client.sendall(b"x" * 20_000)
    assert read(server, 20_000) == b"x" * 20_000
    assert time.monotonic() - begin >= 0.15
    assert rig.over() == "1 connection throttled, 20,000 bytes passed"


def test_idle_connections_leave_their_part_of_a_throttle_to_others(rig: Rig) -> None:
    (client, server), *_ = (rig.pair() for _ in range(4))
    rig.cause("throttle", value=100_000)
    begin = time.monotonic()
    client.sendall(b"x" * 50_000)
    assert read(server, 50_000) == b"x" * 50_000
    assert 0.45 <= time.monotonic() - begin <= 1.0


def test_the_lower_rate_of_two_throttles_holds_until_its_own_end(rig: Rig) -> None:
    client, server = rig.pair()
    rig.cause("throttle", value=100_000)
    rig.cause("throttle", value=1_000_000, number=1)
    rig.over(1)
    begin = time.monotonic()
    client.sendall(b"x" * 20_000)
    assert read(server, 20_000) == b"x" * 20_000
    assert time.monotonic() - begin >= 0.15
    rig.over()
    begin = time.monotonic()
    client.sendall(b"x" * 100_000)
    assert read(server, 100_000) == b"x" * 100_000
    assert time.monotonic() - begin <= 0.5


def test_a_fault_ends_by_itself(rig: Rig) -> None:
    client, server = rig.pair()
    begin = rig.cause("freeze", 0.1)["at"]
    client.sendall(b"up")
    assert read(server, 2) == b"up"
    assert time.monotonic_ns() - begin >= 100_000_000
    assert rig.over(early=False) == "1 connection held, 2 bytes unread at the end"
