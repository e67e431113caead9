"""The mark for the memory of all connections: the largest holder is slowed, then refused."""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
from pathlib import Path

import pytest
from proton import Delivery, Message, Sender
from support.durable_client import DurableClient
from support.processes import free_port, wait_until
from support.remote import document, meta
from support.remote import request as request_of
from support.server import Server, running_server
from support.streams import BOTH, judged, rss

MIB = 1 << 20
LIMIT = 16 * MIB
# Memory of sockets, engine and Python beyond that.
BESIDE = 24 * MIB
MOST = LIMIT + LIMIT // 8 + BESIDE
CLOSED = re.compile(r"memory-limit: a connection that held ([\d,]+) bytes of ([\d,]+) was closed")


def begin(client: DurableClient, sender: Sender, size: int) -> tuple[Delivery, bytes]:
    """Send all but the end of a message, as far as the server takes it; return the rest."""
    delivery = sender.delivery("unfinished")
    data = bytes(Message(body=b"x" * size).encode())
    for at in range(0, size, 65536):
        client.until(lambda: sender.session.outgoing_bytes < 131072 or client.closed_by_peer)
        if client.closed_by_peer:
            break
        sender.stream(data[at : min(at + 65536, size)])
        client.pump(0)
    return delivery, data[size:]


def is_served(server: Server) -> bool:
    """Say whether a message of another client is taken."""
    with DurableClient(server.port) as client:
        sender = client.sender("bystander")
        sent = client.send(sender, bytes(Message(body=b"x" * 100_000).encode()))
        return client.outcome(sent) == Delivery.ACCEPTED


@BOTH
def test_who_never_finishes_a_message_is_closed(
    tmp_path: Path, request: pytest.FixtureRequest, measures: bool
) -> None:
    """Messages that are not complete take no more than the mark and an eighth of it."""
    with running_server(
        tmp_path, memory_limit=LIMIT, says="memory-limit: a connection that held"
    ) as server:
        before = rss(server)
        # Three fit. Without the mark twelve would be well beyond the limit of the test.
        clients = [DurableClient(server.port) for _ in range(12 if measures else 4)]
        most = 0
        for client in clients:
            begin(client, client.sender("q"), 5 * MIB)
            most = max(most, rss(server) - before)
            assert is_served(server)
        # The largest holder is closed when a fourth connection exceeds the limit.
        wait_until(lambda: any(over(client) for client in clients), "one is closed")
        judged(request, measures)("bytes grown", most, at_most=MOST, unit="B")
        assert is_served(server)
        for client in clients:
            client.socket.close()
        told = server.end()
    for held, of in CLOSED.findall(told.stderr):
        assert int(held.replace(",", "")) <= int(of.replace(",", "")) <= LIMIT * 5 // 4


def over(client: DurableClient) -> bool:
    """Say whether the server has closed a connection; it says why."""
    client.pump(0)
    if client.is_over and (condition := client.connection.remote_condition) is not None:
        assert condition.name == "amqp:resource-limit-exceeded"
        assert "memory-limit" in condition.description
    return client.is_over


def test_who_is_slowed_goes_on_when_there_is_memory(tmp_path: Path) -> None:
    """Two that hold little finish, then the one that held most does."""
    with (
        running_server(tmp_path, memory_limit=LIMIT) as server,
        DurableClient(server.port) as large,
        DurableClient(server.port) as small,
    ):
        one, other = large.sender("large"), small.sender("small")
        first, end = begin(large, one, 12 * MIB)
        second, rest = begin(small, other, 4 * MIB + MIB // 2)
        # More than the mark is held: the larger is not read, the smaller is and ends.
        other.stream(rest)
        other.advance()
        assert small.outcome(second) == Delivery.ACCEPTED
        one.stream(end)
        one.advance()
        assert large.outcome(first) == Delivery.ACCEPTED
        assert is_served(server)


def test_transactions_count(tmp_path: Path) -> None:
    with (
        running_server(
            tmp_path, memory_limit=LIMIT, says="memory-limit: a connection that held"
        ) as server,
        contextlib.ExitStack() as stack,
    ):
        data = bytes(Message(body=b"x" * MIB).encode())
        # Three fit. A fourth makes it too much, at once: one alone would be slowed for long.
        clients = [stack.enter_context(DurableClient(server.port)) for _ in range(4)]
        for client in clients:
            coordinator = client.coordinator()
            transaction = client.declare(coordinator)
            sender = client.sender("q")
            for _ in range(5):
                assert sender.credit > 0
                client.send_in(transaction, sender, data)
            client.until(lambda s=sender: s.session.outgoing_bytes == 0)  # type: ignore[misc]
            assert is_served(server)
        wait_until(lambda: any(over(client) for client in clients), "one is closed")
        assert is_served(server)


def sockets(server: Server) -> int:
    """Return how many sockets the server has."""
    found = 0
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        # One that was closed meanwhile is none.
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(link).startswith("socket:")
    return found


@BOTH
@pytest.mark.parametrize("reads", [False, True])
def test_unread_replies_count(
    tmp_path: Path, reads: bool, request: pytest.FixtureRequest, measures: bool
) -> None:
    """Readers of large entries: who reads has them all, who does not is closed."""
    port = free_port()
    says = "" if reads else "memory-limit: a connection that held"
    keys = {"store": tmp_path / "store", "csp_port": port, "memory_limit": LIMIT}
    with running_server(tmp_path, says=says, **keys) as server:
        entry = request_of('submit: "' + "x" * (3 * MIB) + '"', csp="//h/q#appender", tid=1)
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
            sock.sendall(entry)
            assert b"index" in sock.recv(65536)
        before = rss(server)
        readers = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(8)]
        for reader in readers:
            reader.sendall(meta(tid=1) + document("heartbeat: 5\n"))
            assert b"heartbeatReply" in reader.recv(4096)
        held = sockets(server)
        ask = request_of("hasNext: { index: 0, batch: 1 }", csp="//h/q#tailer", tid=2)
        for reader in readers:
            reader.sendall(ask * 3)
            if reads:
                taken = 0
                while taken < 9 * MIB:
                    taken += len(reader.recv(1 << 18))
        assert is_served(server)
        if not reads:
            wait_until(lambda: sockets(server) < held, "one is closed", 30)
        judged(request, measures)("bytes grown", rss(server) - before, at_most=MOST, unit="B")
        for reader in readers:
            reader.close()


def highest(server: Server) -> int:
    """Return the most memory that the server ever had, in bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024  # type: ignore[index]


def submit(port: int, size: int) -> None:
    """Have an entry of so many bytes in the queue."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        sock.sendall(request_of('submit: "' + "x" * size + '"', csp="//h/q#appender", tid=1))
        assert b"index" in sock.recv(65536)


def read_all(readers: list[socket.socket], size: int) -> None:
    """Read so many bytes from each, from all at once."""
    left = dict.fromkeys(readers, size)
    while left:
        readable, _, _ = select.select(list(left), [], [], 60)
        assert readable, "nothing comes any more"
        for reader in readable:
            data = reader.recv(1 << 20)
            assert data, "closed"
            left[reader] -= len(data)
            if left[reader] <= 0:
                del left[reader]


ASK = request_of("hasNext: { index: 0, batch: 1 }", csp="//h/q#tailer", tid=2)


@BOTH
def test_readers_that_ask_at_once_wait_for_memory(
    tmp_path: Path, request: pytest.FixtureRequest, measures: bool
) -> None:
    """Each gets its entry, and never is there more than the mark of them."""
    size, port = 12 * MIB, free_port()
    keys = {"store": tmp_path / "store", "csp_port": port, "memory_limit": LIMIT}
    with running_server(tmp_path, **keys) as server:
        submit(port, size)
        # With the entry's file, which is mapped.
        before = highest(server)
        readers = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(20)]
        for reader in readers:
            reader.sendall(ASK)
        read_all(readers, size)
        grown = highest(server) - before
        judged(request, measures)("bytes grown", grown, at_most=LIMIT + size + BESIDE, unit="B")
        for reader in readers:
            reader.close()


def test_an_entry_that_is_larger_than_the_mark(tmp_path: Path) -> None:
    port = free_port()
    keys = {"store": tmp_path / "store", "csp_port": port}
    with running_server(tmp_path, **keys):
        submit(port, 3 * MIB)
    with (
        running_server(tmp_path, **keys, memory_limit=2 * MIB),
        socket.create_connection(("127.0.0.1", port), timeout=30) as reader,
    ):
        reader.sendall(ASK)
        assert b"larger than the server's memory-limit" in reader.recv(65536)
        # The connection goes on.
        reader.sendall(meta(tid=3) + document("heartbeat: 5\n"))
        assert b"heartbeatReply" in reader.recv(65536)
